"""The contract every sandbox runtime fulfils, and the plain values it speaks in.

A sandbox is one container with the guest as its PID 1. A runtime makes, lists, inspects and destroys sandboxes; it
knows nothing of kernels, sessions or HTTP. Its values cross a process boundary unchanged: strings, numbers, tuples.
"""

from __future__ import annotations

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
    """A sandbox as the host sees it.

    `transport_directory` holds `guest/http.sock` (the guest's, out of reach of user code) and `kernel/` (the kernel's
    ZMQ sockets, written by user code). `workspace_directory` is the host's view of `/workspace`. Both are hostile: open
    what is in them relative to a directory descriptor and follow no link. Files in the workspace belong to
    `user_uid`:`user_gid` (host ids). Until it is `furnished`, the workspace may hold a part of what belongs in it.
    """

    sandbox_id: str
    transport_directory: str
    workspace_directory: str
    user_uid: int
    user_gid: int
    furnished: bool = False


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

    async def mark_furnished(self, sandbox_id: str) -> None:
        """Remember, past the end of this process, that all that belongs in the workspace at its start is there."""

    async def reopen(self, sandbox_id: str) -> None:
        """Make the workspace of a sandbox that runs no more readable again: the host may have restarted."""

    async def list(self) -> tuple[SandboxInfo, ...]:
        """Every sandbox of this runtime that has anything left on the host, running or not."""

    async def running(self, sandbox_id: str) -> bool:
        """Whether the sandbox's PID 1 is alive."""

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        """Counters of a sandbox; raises `SandboxGone`."""

    async def destroy(self, sandbox_id: str) -> None:
        """Kill and remove every trace: processes, mounts, cgroups, directories, uid range. Absent is fine."""
