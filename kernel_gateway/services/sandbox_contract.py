"""What the services ask of the part below: a live kernel in a sandbox, and the one who launches and finds them.

`kernels.sandboxed.sandboxed_kernel.SandboxedKernel` is the live kernel; `RuntimeLauncher` launches it on a runtime. A
session's sandbox carries the session's id.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from kernels.errors import Death, GuestRefused
from kernels.execution.execution import Event, Outcome
from kernels.execution.hub import Hub
from kernels.guest_client.client import CommandResult, FileStat
from kernels.sandbox import SandboxInfo, SandboxSpec, SandboxUsage
from kernels.wire.client_request import ClientRequest


class LiveGuest(Protocol):
    """The part of `GuestClient` that services use."""

    async def run_command(
        self,
        command: str,
        *,
        timeout_seconds: float,
        output_bytes: int,
        background: bool = False,
        merge_output: bool = False,
    ) -> CommandResult: ...
    async def task(self, task_id: str) -> CommandResult: ...
    async def stop_task(self, task_id: str) -> CommandResult: ...
    async def list_files(self, path: str, *, recursive: bool, limit: int) -> list[FileStat]: ...
    async def stat_file(self, path: str) -> FileStat: ...
    async def open_file(self, path: str, *, max_bytes: int | None = None) -> tuple[FileStat, AsyncGenerator[bytes]]: ...
    def read_file(self, path: str, *, max_bytes: int | None = None) -> AsyncIterator[bytes]: ...
    async def write_file(self, path: str, chunks: AsyncIterator[bytes]) -> FileStat: ...
    async def write_files(self, files: Sequence[tuple[str, bytes | str]]) -> list[tuple[int, GuestRefused]]: ...
    async def remove_files(self, paths: Sequence[str]) -> list[tuple[int, GuestRefused]]: ...
    async def remove_file(self, path: str, *, recursive: bool = False) -> None: ...


class LiveKernel(Protocol):
    """One live sandbox with its kernel: `SandboxedKernel`, or a double of it.

    `on_generation(generation, death)` is called when the kernel was replaced, `on_deno_death(death)` when the one for
    JavaScript ended while nothing ran in it, `on_gone(death)` once when the sandbox itself is no more, `on_hub(hub)`
    when another kernel is connected, `on_deno_hub(hub)` when another one for JavaScript is. The session sets them; they
    return at once.
    """

    on_generation: Callable[[int, Death | None], None]
    on_deno_death: Callable[[Death], None]
    on_gone: Callable[[Death], None]
    on_hub: Callable[[Hub], None]
    on_deno_hub: Callable[[Hub], None]

    @property
    def info(self) -> SandboxInfo: ...
    @property
    def generation(self) -> int: ...
    @property
    def guest(self) -> LiveGuest: ...
    @property
    def hub(self) -> Hub | None: ...
    async def ready(self) -> int: ...
    async def execute(
        self,
        code: str,
        *,
        timeout_seconds: float,
        emit: Callable[[Event], None],
        language: str = "python",
        runtime: str = "python",
        request: ClientRequest | None = None,
        execution_id: str = "",
    ) -> Outcome: ...
    def note_life(self) -> None: ...
    async def interrupt(self) -> None: ...
    async def restart(self) -> int: ...
    async def clear(self) -> int: ...
    async def usage(self) -> SandboxUsage: ...
    async def aclose(self) -> None: ...
    async def destroy(self) -> None: ...


class Launcher(Protocol):
    """Makes, finds and destroys the sandboxes of sessions."""

    async def launch(
        self, spec: SandboxSpec, *, before_first_code: Callable[[SandboxInfo], Awaitable[None]]
    ) -> LiveKernel:
        """Start a sandbox; `before_first_code` runs beside the kernel's start and is done when this returns.

        When either fails nothing is left behind. The sandbox is not `furnished` yet.
        """

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        """All that belongs in it is there; called before any code runs."""

    async def adopt(self, info: SandboxInfo, generation: int) -> LiveKernel:
        """Take up a running sandbox; `generation` is the last one known, the kernel may have a later one."""

    async def list(self) -> tuple[SandboxInfo, ...]:
        """Every sandbox that has anything left on the host."""

    async def running(self, sandbox_id: str) -> bool:
        """Whether its PID 1 is alive."""

    async def reopen(self, sandbox_id: str) -> None:
        """Make the workspace of a sandbox that runs no more readable again: the host may have restarted."""

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        """A listening, non-blocking socket on which the sandbox's guest calls to get out: `http` or `s3`."""

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        """A read-only descriptor of what the user closed to himself in the workspace; raises `OSError` as well."""

    async def destroy(self, sandbox_id: str) -> None:
        """Remove every trace; absent is fine."""
