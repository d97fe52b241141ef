"""The contract every sandbox runtime fulfils, and the plain values it speaks in.

A sandbox is one container with the guest as its PID 1. A runtime makes, lists, inspects and destroys sandboxes; it
knows nothing of kernels, sessions or HTTP. Its values cross a process boundary unchanged: strings, numbers, tuples.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

from kernels.environment import Environment


@dataclass(frozen=True)
class SandboxSpec:
    """What to start: an id (a UUID with dashes), the environment, the generation its first kernel gets, host name."""

    sandbox_id: str
    environment: Environment
    generation: int = 1
    hostname: str = "sandbox"


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as the service sees it.

    `workspace_directory` shows `/workspace` with the user's files as the service's own; what the service makes there is
    the user's inside. It is hostile: open what is in it relative to a directory descriptor and follow no link. Until
    the sandbox is `furnished`, it may hold a part of what belongs in it. `environment_digest` names the image that it
    was made from; empty when a version of the service made it that wrote none down.
    """

    sandbox_id: str
    workspace_directory: str
    furnished: bool = False
    environment_digest: str = ""


@dataclass(frozen=True)
class SandboxUsage:
    """What a sandbox has used so far; limits in the same units."""

    memory_bytes: int
    memory_peak_bytes: int
    memory_limit_bytes: int
    cpu_seconds: float
    pids: int
    oom_kills: int
    storage_used_bytes: int
    storage_limit_bytes: int


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: what was checked, whether it holds, what was seen and what to do about it.

    `required` findings that do not hold stop the service from starting.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


class SandboxRuntime(Protocol):
    """Makes and destroys sandboxes. Every method is safe to call again with the same id."""

    async def check(self) -> tuple[Finding, ...]:
        """What this host can enforce; called by the doctor and before the service starts."""

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        """Start a sandbox; returns when its PID 1 runs (the guest may still be starting).

        Raises `SandboxFailed` and leaves nothing behind when it cannot.
        """

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        """Remember, past the end of this process, that all that belongs in the workspace at its start is there."""

    async def reopen(self, sandbox_id: str) -> None:
        """Make a workspace readable again: the host may have restarted, or the service's user changed."""

    async def list(self) -> tuple[SandboxInfo, ...]:
        """Every sandbox of this runtime that has anything left on the host, running or not."""

    async def running(self, sandbox_id: str) -> bool:
        """Whether the sandbox's PID 1 is alive."""

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        """Counters of a sandbox; raises `SandboxGone`."""

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        """A connected, non-blocking stream socket of the guest or of a kernel; see `kernels.wire.dialing.Dial` for
        names.

        Waits a second at most for somebody to listen. Raises `NotListening`, `SandboxGone`, `SandboxFailed`.
        """

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        """A listening, non-blocking Unix socket that only the sandbox's guest can reach; `name` is `http` or `s3`.

        Inside it is `/run/sandcell/egress/<name>.sock`. Calling again puts another in its place. Raises `SandboxGone`.
        """

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        """A read-only descriptor of a file or directory of the workspace that its own mode closes to the service.

        Of a link, one that can only be looked at. No link, no other file system and nothing above is followed. Raises
        `OSError` as `open` does, and `SandboxGone`.
        """

    async def destroy(self, sandbox_id: str) -> None:
        """Kill and remove every trace: processes, mounts, cgroups, directories, uid range. Absent is fine."""
