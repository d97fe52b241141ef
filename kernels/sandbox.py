"""The contract every sandbox runtime fulfils, and the plain values it speaks in.

A sandbox is one container with the guest as its PID 1. A runtime makes, lists, inspects and destroys sandboxes; it
knows nothing of kernels, sessions or HTTP. Its values cross a process boundary unchanged: strings, numbers, tuples.

A sandbox may be on another machine: nothing here is a socket's path, and streams are of any family. What is still bound
to the service's own host is marked *host-bound*: the directory of a workspace with `reopen` and `open_beneath`, and an
image's unpacked root file system (`Environment.root`). `docs/how-to/own-runtime.md` says what a runtime that has no
such directory has to bring until the mirror of a workspace can run next to the sandbox.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kernels.environment import Environment

MOST_SAVING_SECONDS: Final = 900.0
"""How long a runtime takes at most to save what a sandbox holds, or to restore it."""


class KubernetesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where pods are made, for the runtime `kubernetes`.

    `config` is a kubeconfig's path, empty inside the cluster. Images are called `<registry>/sandcell-<name>:<version>`.
    `classes` gives images, by name, their RuntimeClass. With `user_namespaces` each pod has one of its own; with
    `claims` pods are those of agent-sandbox; with `port_forward` guests are reached through the API server.
    """

    config: str = ""
    namespace: str = "sandcell"
    registry: str = "sandcell.local"
    classes: dict[str, str] = {}
    user_namespaces: bool = False
    claims: bool = False
    port_forward: bool = False


class RuntimeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator decides: the runtime's name, and what it may take of the host.

    A runtime keeps its own files in `data_directory` (lasting) and `run_directory` (gone with a reboot). The other
    fields are for runtimes on this host: the uid ranges, the parent of control groups, the free disk space that a start
    must leave. `service_uid` is the user (and group) that workspaces are shown to: 0 when the runtime is part of a root
    process.
    """

    runtime: str
    data_directory: Path
    run_directory: Path
    cgroup_parent: str = "sandcell"
    uid_base: int = 1_200_000_000
    uid_ranges: int = 4096
    disk_reserve_bytes: int = 512_000_000
    service_uid: int = 0
    more_runtimes: tuple[str, ...] = ()
    """Runtimes besides `runtime` that an environment may ask for; empty for what is no OCI program."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    gateways: str = ""
    """What the launchers of one database's gateways have in common and no other: they may take each other's sandboxes
    on this host over. Empty for a service that is alone."""
    checkpoints: bool = False
    """Whether `save` saves and ends the processes of sandboxes whose runtime can (gVisor)."""


class SandboxSpec(msgspec.Struct, frozen=True):
    """What to start: an id (a UUID with dashes), the environment, the generation its first kernel gets, host name.

    A remote runtime takes the image by `environment.image` and `environment.digest`; `environment.root` is host-bound.
    A `spare` sandbox is made for a session that is yet to come: until `claim` it gets only processor time that no other
    sandbox wants.
    """

    sandbox_id: str
    environment: Environment
    generation: int = 1
    hostname: str = "sandbox"
    spare: bool = False


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as the service sees it.

    `workspace_directory` (host-bound) shows `/workspace` with the user's files as the service's own; what the service
    makes there is the user's inside, and each side sees at once what the other wrote. It is hostile: open what is in it
    relative to a directory descriptor and follow no link. Until `workspace_ready` it may hold a part of what
    belongs in it. `environment_digest` names the image that it was made from; empty when a version of the service made
    it that wrote none down. So it is with `runtime`, which made it.

    Where a sandbox's files are on another machine, `workspace_directory` is a `workspace_copy`: an empty directory of
    the service's own, which `kernels.sandboxed.workspace_copy` brings up to date through the guest.
    """

    sandbox_id: str
    workspace_directory: str
    workspace_ready: bool = False
    environment_digest: str = ""
    runtime: str = ""
    workspace_copy: bool = False
    saved_whole: bool = False
    """Whether `save` can: the guest is asked to close its sockets before, and all connect again after `thaw`."""


class SandboxUsage(msgspec.Struct, frozen=True):
    """What a sandbox has used so far; limits in the same units."""

    memory_bytes: int
    memory_peak_bytes: int
    memory_limit_bytes: int
    cpu_seconds: float
    pids: int
    oom_kills: int
    storage_used_bytes: int
    storage_limit_bytes: int
    memory_held_bytes: int = 0
    """Of its memory what no file has: what is left of the limit beside it is what code can still get. 0: not known."""


class PagedOut(msgspec.Struct, frozen=True):
    """What came of moving a sandbox's memory to swap; with none moved the sandbox runs on, and `why` says why.

    Of one that was saved `moved_bytes` is what all that is kept of it takes on its host's disk.
    """

    moved_bytes: int
    why: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One line of the doctor: what was checked, whether it holds, what was seen and what to do about it.

    `required` findings that do not hold stop the service from starting.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


class SandboxRuntime(Protocol):
    """Makes and destroys sandboxes.

    An entry point of the group `sandcell.runtimes` names the function that opens one (`kernels.runtimes`). It lives in
    the launcher, which is root; the service calls it through `kernels.launcher`, each verb with a deadline of a minute,
    `create`, `destroy` and `page_out` of three. All verbs are called concurrently, for one sandbox too, are safe to
    call again with the same arguments, and may be cancelled: what a cancelled call has made is taken back, what it
    removes goes. The caller may be another process than the one that made the sandbox: what a runtime knows of its
    sandboxes it reads from where they run, or from its own directory.
    """

    async def check(self) -> tuple[Finding, ...]:
        """What can be enforced where sandboxes run; for a remote runtime, whether it is reached and with which rights.

        Called before the service starts, which a required finding that does not hold prevents, and by the doctor.
        """

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        """Start a sandbox; returns when its PID 1 runs (the guest may still be starting).

        Called once for each life of a sandbox: at a session's start, and at its next use after its sandbox has gone;
        the old one is destroyed before. The id stays. Raises `RuntimeUnusable` when no sandbox can be had,
        `SandboxFailed` when this one cannot, and leaves nothing behind when it does.
        """

    async def claim(self, sandbox_id: str, *, workspace_ready: bool = False) -> SandboxUsage:
        """Give a spare sandbox its full share of the processors, and say what it uses: a session has it from here on.

        Called once, after its workspace is laid out and before any code; with `workspace_ready`, which most have, as
        `mark_workspace_ready` as well. Raises `SandboxGone`, `SandboxFailed`; then it is destroyed.
        """

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        """Remember, past the end of this process, that all that belongs in the workspace at its start is there.

        Called once, after the files of the store are in it and before any code, unless its `claim` has said so; `list`
        says it from then on (`workspace_ready`).
        """

    async def reopen(self, sandbox_id: str) -> None:
        """Make a workspace readable again: the host may have restarted, or the service's user changed.

        Host-bound. Called when a service that has begun takes up a sandbox, running or not, before its files are read;
        also one that runs and was another gateway's, which is gone: `list` has it here from then on, and there no more,
        even where this raises afterwards; to call it again does no harm. Raises `SandboxGone` when its disk is not
        there any more, `SandboxFailed`: then nothing may be read from where its workspace was, which may look like an
        empty one.
        """

    async def list(self) -> tuple[SandboxInfo, ...]:
        """Every sandbox of this runtime and service that has anything left, running or not.

        Called at the service's start and by its sweep, which destroys those that belong to no session; and before each
        `create`, to count them.
        """

    async def running(self, sandbox_id: str) -> bool:
        """Whether the sandbox's PID 1 is alive; false for one that is not there.

        Called at the service's start, by its sweep, and when the guest does not answer. A remote runtime that cannot
        tell raises `SandboxFailed`: after false the sandbox counts as gone, and the session's next use starts another.
        """

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        """Counters of a sandbox; raises `SandboxGone`.

        Called when a session is shown, after each execution, and to tell why a kernel died (`oom_kills`). It may be a
        second old, but for `oom_kills` once the kernel is dead. While code runs it is called up to four times a second,
        or when `watch_memory` says that there is something to see, and is to be of that moment then.
        """

    async def watch_memory(self, sandbox_id: str, percents: tuple[int, ...]) -> int:
        """A non-blocking descriptor for the caller: readable when memory passes one of these shares of its limit.

        Called once for each sandbox, when its first code runs or it is made for a pool. What may be read has no
        meaning; the descriptor may be readable too often, `usage` says what there is. Raises `SandboxGone`, and
        `SandboxFailed` of a runtime that cannot say it: then `usage` is asked again and again while code runs.
        """

    async def page_out(self, sandbox_id: str) -> PagedOut:
        """Stop all of the sandbox and move its memory to swap, for `thaw` to let it go on; or do nothing and say why.

        Called for a session that has been idle. `running` is true of a stopped sandbox, `usage` counts it, and its
        `destroy` takes it as it is. A runtime that cannot do this moves nothing. Raises `SandboxGone`, `SandboxFailed`;
        then, and when it is cancelled, the sandbox runs on.
        """

    async def thaw(self, sandbox_id: str) -> None:
        """Let a stopped sandbox go on; one that runs, or is gone, is left as it is. Raises `SandboxFailed`.

        Called at the next use of what `page_out` has stopped, also while that is at work, which it cuts short; and when
        a service takes up a sandbox. What `save` has saved goes on with all its processes; where it cannot it is gone,
        and `SandboxGone` raised.
        """

    async def save(self, sandbox_id: str) -> PagedOut:
        """Write all of a sandbox that is `saved_whole` to its disk and end its processes; or do nothing and say why.

        Called for a session that hibernates, whose guest stands by. `running` is true of a saved sandbox, `kill` and
        `destroy` take it as it is. Raises `SandboxGone`, and `SandboxFailed`: then the sandbox is lost.
        """

    async def put_away(self, sandbox_id: str) -> bool:
        """Let go of all that a saved sandbox has but its disk, and say whether it is one: others stay as they are.

        Called once nobody looks at its files any more, and for each saved sandbox when a service begins, before it
        starts others; `reopen` and `thaw` bring it back, after a restart of the host as well. Raises `SandboxFailed`.
        """

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        """A connected, non-blocking stream socket of the guest or of a kernel, of any family; it is the caller's.

        `kernels.wire.dialing.Dial` says which names there are. Inside, the guest listens at a Unix socket for each
        (`/run/sandcell/guest/http.sock` for its own). A runtime whose stream is no plain socket (TLS, one of many in a
        tunnel) returns one end of a socket pair and carries bytes between the other end and the sandbox until either
        is closed; a half-closed stream stays open the other way.

        Called for each HTTP connection to the guest (a few per sandbox, kept open) and for each channel of a kernel
        (four per kernel and start). Waits a second at most for a listener. Raises `NotListening`,
        `SandboxGone`, `SandboxFailed`; `NotReached` where what leads there is out, and nothing is known of the sandbox:
        who has broken off with a kernel goes on trying for longer then.
        """

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        """A listening, non-blocking stream socket, of any family, that only this sandbox's guest reaches.

        Inside, the guest connects to the Unix socket `/run/sandcell/egress/<name>.sock`; `name` is `http` (the egress
        proxy), `s3` (the execution role) or `packages` (the package index). The service takes every connection accepted
        here for this session's: a remote runtime listens where only itself can connect (a Unix socket in its closed run
        directory, say) and connects once for each stream that it knows to be this guest's.

        Called before the first code, and again when a service takes up the sandbox: another socket is put in the
        place of the last one. Not called for a sandbox without network, role and index. Raises `SandboxGone`.
        """

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        """A read-only descriptor of a file or directory of the workspace that its own mode closes to the service.

        Host-bound. Called by the mirror, for each entry of `workspace_directory` that it may not read itself. Of a
        link, one that can only be looked at. No link, no other file system and nothing above is followed. Raises
        `OSError` as `open` does, and `SandboxGone`.
        """

    async def open_kept(self, sandbox_id: str, name: str) -> int:
        """A read-only descriptor of a file where kernels keep variables, or of that directory for an empty name.

        Called for a sandbox that was lost, between its `kill` and its `destroy`, or its `reopen` and that: the next
        sandbox of its session is given what there is. What is opened is hostile: no link, no other file system and
        nothing above is followed, and it may be no file. Raises `OSError` as `open` does, and `SandboxGone` where the
        disk is not there, or went with the sandbox.
        """

    async def kill(self, sandbox_id: str) -> SandboxUsage | None:
        """Have nothing of the sandbox run any more; its files stay as they are until `destroy`. Absent is fine.

        What it used until then, None where that is not known.

        Called when a session ends, before its last flush, whose caller waits for both: it returns once the end of every
        process is on its way, without waiting for what they hold to be freed. A stopped sandbox is not run again for
        that. Raises `SandboxFailed`; then the caller waits for `destroy`.
        """

    async def destroy(self, sandbox_id: str) -> None:
        """Kill and remove every trace: processes, mounts, groups, directories, what was allotted. Absent is fine.

        Called after the session's last flush, some time after its `kill`; by the sweep, and after a `create` whose
        caller has given up. Goes on to its end when its caller does not wait for that. Raises `SandboxFailed`; then it
        is called again later.
        """

    async def aclose(self) -> None:
        """Let go of what this process holds; sandboxes that still run are left alone. Called once, last."""
