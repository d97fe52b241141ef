"""The one table of this face: methods, addresses, codes of success that clients insist on, names in the audit log."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final
from urllib.parse import unquote

from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.e2b import (
    files,
    filesystem,
    interpreter,
    processes,
    requests,
    sandboxes,
    snapshots,
    watching,
)
from kernel_gateway.faces.e2b.calls import Call
from kernel_gateway.faces.e2b.errors import Plane
from kernel_gateway.faces.routing import RouteTree
from sandcell.models.credentials import Scope


@dataclass(frozen=True)
class Route(routing.Route[Call]):
    """One method at one address; its name is the event's in the audit log too.

    `plane` is the service that it belongs to: the control plane knows callers by a key, the others by a sandbox's
    token. `enveloped`: the body is a stream of messages, of which the first counts. `raw`: it is handed on as it came.
    `uploads`: it may be as large as a payload. `streams`: its answer goes on until something ends, and a client that
    leaves ends it.
    """

    _: KW_ONLY
    plane: Plane
    enveloped: bool = False
    raw: bool = False
    uploads: bool = False
    streams: bool = False

    def find_scope(self) -> Scope:
        return scopes.find_e2b_scope(self.name)


S: Final = "/sandboxes/{sandbox_id}"
V2: Final = "/v2/sandboxes/{sandbox_id}"


def _control(method: str, path: str, endpoint: Any, *names: str, **more: Any) -> Route:
    """`names` are the route's and what it does."""
    name, summary = names
    return Route(method, path, endpoint, name=name, summary=summary, plane="control", **more)


def _rpc(path: str, endpoint: Any, *names: str, body: Any = requests.Anything, **more: Any) -> Route:
    name, summary = names
    looks = name in scopes.E2B["read"]
    return Route("POST", path, endpoint, name=name, summary=summary, body=body, plane="rpc", looks=looks, **more)


def _refuse(method: str, path: str, name: str, summary: str) -> Route:
    more = {"status": 204, "body": requests.Anything}
    return _control(method, path, sandboxes.refuse, name, f"{summary}: not supported", **more)


CONTROL: Final = (
    _control(
        "POST",
        "/v2/sandboxes",
        sandboxes.create_sandbox,
        "CreateSandboxV2",
        "Start a sandbox",
        status=201,
        body=requests.NewSandbox,
    ),
    _control(
        "POST",
        "/sandboxes",
        sandboxes.create_sandbox_as_before,
        "CreateSandbox",
        "The same, of older clients",
        status=201,
        body=requests.NewSandbox,
    ),
    _control(
        "POST",
        f"{V2}/connect",
        sandboxes.connect_sandbox,
        "ConnectSandboxV2",
        "Connect to one that runs, or resume one",
        body=requests.Timeout,
    ),
    _control(
        "POST",
        f"{S}/connect",
        sandboxes.connect_sandbox,
        "ConnectSandbox",
        "The same, of older clients",
        body=requests.Timeout,
    ),
    _control(
        "POST",
        f"{S}/resume",
        sandboxes.connect_sandbox,
        "ResumeSandbox",
        "The same, of old clients",
        status=201,
        body=requests.Timeout,
    ),
    _control("GET", S, sandboxes.get_sandbox, "GetSandbox", "Show one"),
    _control(
        "GET",
        "/v2/sandboxes",
        sandboxes.list_sandboxes,
        "ListSandboxesV2",
        "List those that run or are paused, in pages",
    ),
    _control(
        "GET",
        "/sandboxes",
        sandboxes.list_sandboxes_as_before,
        "ListSandboxes",
        "The same, of older clients: those that run",
    ),
    _control("DELETE", S, sandboxes.kill_sandbox, "KillSandbox", "End one", status=204),
    _control(
        "POST",
        f"{S}/timeout",
        sandboxes.set_timeout,
        "SetSandboxTimeout",
        "End it so many seconds from now",
        status=204,
        body=requests.Timeout,
    ),
    _control(
        "POST",
        f"{S}/refreshes",
        sandboxes.refresh_sandbox,
        "RefreshSandbox",
        "Give it so many seconds at least",
        status=204,
        body=requests.Refresh,
    ),
    _control("GET", f"{S}/metrics", sandboxes.get_metrics, "GetSandboxMetrics", "What it uses now"),
    _control(
        "POST",
        f"{S}/pause",
        sandboxes.pause_sandbox,
        "PauseSandbox",
        "Keep its variables and files, and give up all else until it is resumed",
        status=204,
        body=requests.Anything,
    ),
    _control(
        "POST",
        f"{S}/snapshots",
        snapshots.create_snapshot,
        "SnapshotSandbox",
        "Keep its variables and files as they are now, for other sandboxes to begin with",
        status=201,
        body=requests.Snapshot,
    ),
    _control("GET", "/snapshots", snapshots.list_snapshots, "ListSnapshots", "List snapshots, in pages"),
    _control(
        "DELETE",
        "/templates/{snapshot_id}",
        snapshots.delete_snapshot,
        "DeleteSnapshot",
        "Remove a snapshot",
        status=204,
    ),
    _control(
        "POST",
        f"{S}/fork",
        snapshots.fork_sandbox,
        "ForkSandbox",
        "Start others that are as it is now",
        status=201,
        body=requests.Fork,
    ),
    _refuse("PUT", f"{S}/network", "ChangeNetwork", "Change the network"),
)
CODE: Final = (
    Route(
        "POST",
        "/execute",
        interpreter.run_code,
        name="RunCode",
        summary="Run code and stream what comes of it",
        body=requests.RunCode,
        plane="code",
        streams=True,
    ),
    Route(
        "POST",
        "/contexts",
        interpreter.create_context,
        name="CreateContext",
        summary="Create a context",
        body=requests.CreateContext,
        plane="code",
    ),
    Route("GET", "/contexts", interpreter.list_contexts, name="ListContexts", summary="List contexts", plane="code"),
    Route(
        "POST",
        "/contexts/{context_id}/restart",
        interpreter.restart_context,
        name="RestartContext",
        summary="Give a context blank names",
        plane="code",
    ),
    Route(
        "DELETE",
        "/contexts/{context_id}",
        interpreter.remove_context,
        name="RemoveContext",
        summary="Remove a context",
        plane="code",
    ),
)
FILES: Final = (
    Route("GET", "/health", files.get_health, name="GetHealth", summary="Whether it runs", status=204, plane="files"),
    Route("GET", "/envs", files.get_variables, name="GetVariables", summary="Its environment variables", plane="files"),
    Route("GET", "/files", files.download_file, name="DownloadFile", summary="Download a file", plane="files"),
    Route(
        "POST",
        "/files",
        files.upload_files,
        name="UploadFile",
        summary="Upload files, as a form or as octets",
        plane="files",
        raw=True,
        uploads=True,
    ),
)
F: Final = "/filesystem.Filesystem"
P: Final = "/process.Process"
RPC: Final = (
    _rpc(f"{F}/Stat", filesystem.stat_file, "StatFile", "What is at a path", body=requests.Path),
    _rpc(f"{F}/ListDir", filesystem.list_directory, "ListDirectory", "What is in a directory", body=requests.Path),
    _rpc(f"{F}/MakeDir", filesystem.make_directory, "MakeDirectory", "Make a directory", body=requests.Path),
    _rpc(f"{F}/Move", filesystem.move_file, "MoveFile", "Move a file", body=requests.Move),
    _rpc(f"{F}/Remove", filesystem.remove_file, "RemoveFile", "Remove a file or a tree", body=requests.Path),
    _rpc(
        f"{F}/WatchDir",
        watching.watch_directory,
        "WatchDirectory",
        "Follow what changes in a directory",
        body=requests.Watch,
        enveloped=True,
        streams=True,
    ),
    _rpc(
        f"{F}/CreateWatcher",
        watching.create_watcher,
        "CreateWatcher",
        "Collect what changes in it",
        body=requests.Watch,
    ),
    _rpc(
        f"{F}/GetWatcherEvents",
        watching.get_events,
        "GetWatcherEvents",
        "Take what was collected",
        body=requests.Watcher,
    ),
    _rpc(f"{F}/RemoveWatcher", watching.remove_watcher, "RemoveWatcher", "Collect no longer", body=requests.Watcher),
    _rpc(
        f"{P}/Start",
        processes.start_program,
        "StartProgram",
        "Start a process and follow it",
        body=requests.Start,
        enveloped=True,
        streams=True,
    ),
    _rpc(
        f"{P}/Connect",
        processes.follow_program,
        "FollowProgram",
        "Follow one that runs",
        body=requests.Selected,
        enveloped=True,
        streams=True,
    ),
    _rpc(f"{P}/List", processes.list_programs, "ListPrograms", "Those that run"),
    _rpc(f"{P}/SendInput", processes.send_input, "SendInput", "Give it input", body=requests.SendInput),
    _rpc(f"{P}/StreamInput", processes.stream_input, "StreamInput", "Give it input in pieces", raw=True),
    _rpc(f"{P}/CloseStdin", processes.close_input, "CloseInput", "End its input", body=requests.Selected),
    _rpc(f"{P}/SendSignal", processes.signal_program, "SignalProgram", "End it", body=requests.SendSignal),
    _rpc(
        f"{P}/Update", processes.resize_terminal, "ResizeTerminal", "Another size of its terminal", body=requests.Update
    ),
)
TABLE: Final[tuple[Route, ...]] = (*CONTROL, *CODE, *FILES, *RPC)
ADDRESSES: Final = RouteTree(TABLE, decode=unquote)


def list_routes() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route, for the docs."""
    return [(each.method, each.path, str(each.status), each.summary) for each in TABLE]
