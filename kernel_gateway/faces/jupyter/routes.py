"""The one table of this face: methods, addresses, the codes of success that clients insist on, names in the audit log.

The socket (`channels`) is not in it: it is no request and answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.jupyter import kernels, kernelspecs, service, sessions
from kernel_gateway.faces.jupyter.calls import Call
from kernel_gateway.faces.jupyter.requests import Nothing, PutSession, StartKernel
from kernel_gateway.faces.routing import Address, RouteTree
from sandcell.models.credentials import Scope

ONE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What ids and names in an address look like."""
KERNEL = "/api/kernels/{session_id}"
SESSION = "/api/sessions/{session_id}"
SPEC = "/api/kernelspecs/{kernel_name}"
FILE = "/kernelspecs/{kernel_name}/{file}"


@dataclass(frozen=True)
class Route(routing.Route[Call]):
    """One method at one address; its name is the event's in the audit log too."""

    def find_scope(self) -> Scope:
        return scopes.find_jupyter_scope(self.name)


async def no_endpoint(call: Call) -> None:
    """The socket is no request and answer: `channels` speaks on it."""


TABLE: tuple[Route, ...] = (
    Route("GET", "/api", service.get_version, name="GetVersion", summary="The version of the service"),
    Route(
        "GET", "/api/status", service.get_status, name="GetStatus", summary="How many kernels and connections there are"
    ),
    Route(
        "GET",
        "/api/kernelspecs",
        kernelspecs.list_kernelspecs,
        name="ListKernelSpecs",
        summary="Your environments as kernelspecs",
    ),
    Route("GET", SPEC, kernelspecs.get_kernelspec, name="GetKernelSpec", summary="One of them"),
    Route("GET", FILE, kernelspecs.get_logo, name="GetKernelSpecFile", summary="A logo"),
    Route("GET", "/api/kernels", kernels.list_kernels, name="ListKernels", summary="Your live sessions as kernels"),
    Route(
        "POST",
        "/api/kernels",
        kernels.start_kernel,
        name="StartKernel",
        summary="Start a session; its owner's alone",
        status=201,
        body=StartKernel,
    ),
    Route(
        "GET",
        KERNEL,
        kernels.get_kernel,
        name="GetKernel",
        summary="One kernel; `dead`, with why, when its session ended by itself",
    ),
    Route(
        "DELETE",
        KERNEL,
        kernels.delete_kernel,
        name="DeleteKernel",
        summary="End the session; with an attach token nothing",
        status=204,
    ),
    Route(
        "POST",
        f"{KERNEL}/interrupt",
        kernels.interrupt_kernel,
        name="InterruptKernel",
        summary="Interrupt what runs",
        status=204,
        body=Nothing,
    ),
    Route(
        "POST",
        f"{KERNEL}/restart",
        kernels.restart_kernel,
        name="RestartKernel",
        summary="Start a blank kernel; an attach token needs the right `restart`",
        body=Nothing,
    ),
    Route(
        "GET",
        "/api/sessions",
        sessions.list_sessions,
        name="ListJupyterSessions",
        summary="The same as sessions, which VS Code lists",
    ),
    Route(
        "POST",
        "/api/sessions",
        sessions.create_session,
        name="CreateJupyterSession",
        summary="For a live kernel, by its id, or for a new one, which is its owner's alone",
        status=201,
        body=PutSession,
    ),
    Route("GET", SESSION, sessions.get_session, name="GetJupyterSession", summary="One session"),
    Route(
        "PATCH",
        SESSION,
        sessions.change_session,
        name="ChangeJupyterSession",
        summary="Another title, or go to another kernel",
        body=PutSession,
    ),
    Route(
        "DELETE", SESSION, sessions.delete_session, name="DeleteJupyterSession", summary="As of its kernel", status=204
    ),
)
CHANNELS = Route(
    "GET",
    "/api/kernels/{session_id}/channels",
    no_endpoint,
    name="OpenChannels",
    summary="The WebSocket: shell, iopub, stdin and control",
    status=101,
)
ADDRESSES = RouteTree(TABLE, parameter=ONE)
SOCKET = RouteTree([CHANNELS], parameter=ONE)


def find_address(path: str) -> Address[Route]:
    """What there is at a path; slashes at its end make no difference."""
    return ADDRESSES.find(path.rstrip("/") or "/")


def list_routes() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route and of the socket, for the docs."""
    return [(each.method, each.path, str(each.status), each.summary) for each in (*TABLE, CHANNELS)]
