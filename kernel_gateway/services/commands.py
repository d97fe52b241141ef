"""Shell commands and background tasks in a live session."""

from __future__ import annotations

from kernel_gateway.errors import (
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    SandboxUnavailable,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.live_session import LiveSession
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.registry import Registry
from kernel_gateway.shapes import Command, CommandRequest, Truncated
from kernels.errors import SandboxGone
from kernels.guest_client import CommandResult


class Commands:
    """Run a command to its end, or start it in the background. A caller who goes away stops nothing."""

    def __init__(self, parts: Parts, registry: Registry) -> None:
        self._parts = parts
        self._registry = registry

    async def run(self, principal: Principal, session_id: str, request: CommandRequest) -> Command:
        """A foreground command's result, or the background task just started."""
        self._parts.require_accepting()
        timeout = self._timeout(request)
        _require_text(request.command, self._parts.settings.code_bytes)
        live = await self._registry.require(principal, session_id)
        self._parts.require_disk()
        return await self._parts.background.carry_out(self._run(live, request, timeout), f"command in {live.id}")

    async def _run(self, live: LiveSession, request: CommandRequest, timeout: float) -> Command:
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            result = await kernel.guest.run_command(
                request.command,
                timeout_seconds=timeout,
                output_bytes=self._parts.settings.command_output_bytes,
                background=request.background,
                merge_output=request.merge_output,
            )
            if request.background:
                live.remember_task(result.id, kernel)
            elif live.sandbox.mirror is not None:
                live.sandbox.mirror.request_flush()
        return command_of(result)

    def _timeout(self, request: CommandRequest) -> float:
        settings = self._parts.settings
        most = settings.task_timeout_seconds if request.background else settings.command_timeout_seconds
        timeout = most if request.timeout_seconds is None else request.timeout_seconds
        if not 0 < timeout <= most:
            raise InvalidRequest(f"timeout_seconds must be more than 0 and at most {most:g}")
        return timeout


class Tasks:
    """Background commands by id. Asking after one does not count as activity."""

    def __init__(self, parts: Parts, registry: Registry) -> None:
        self._parts = parts
        self._registry = registry

    async def get(self, principal: Principal, session_id: str, task_id: str) -> Command:
        """Its state and output so far; `lost` when its sandbox is gone."""
        live = await self._registry.require(principal, session_id)
        return await self._ask(live, task_id, stop=False)

    async def stop(self, principal: Principal, session_id: str, task_id: str) -> Command:
        """End it and all its processes; one that has ended stays as it ended."""
        live = await self._registry.require(principal, session_id)
        live.touch()
        return await self._ask(live, task_id, stop=True)

    async def _ask(self, live: LiveSession, task_id: str, *, stop: bool) -> Command:
        """Without the memory of a task (an earlier process of ours started it) the guest is asked all the same."""
        kernel = live.sandbox.kernel
        if task_id in live.tasks and live.tasks[task_id] is not kernel:
            return Command(task_id, "lost")
        if kernel is None:
            raise NotFound("there is no such task", reason="not_found")
        try:
            with translated():
                result = await (kernel.guest.stop_task(task_id) if stop else kernel.guest.task(task_id))
        except SandboxUnavailable as error:
            if isinstance(error.__cause__, SandboxGone):
                return Command(task_id, "lost")
            raise
        if stop and live.sandbox.mirror is not None:
            live.sandbox.mirror.request_flush()
        return command_of(result)


def command_of(result: CommandResult) -> Command:
    """A command as callers see it."""
    return Command(
        id=result.id,
        status=result.status,  # type: ignore[arg-type]
        stdout=result.stdout,
        stderr=result.stderr,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_seconds=result.duration_seconds,
        truncated=Truncated(stdout=result.stdout_truncated, stderr=result.stderr_truncated),
    )


def _require_text(command: str, most_bytes: int) -> None:
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("a command must be valid UTF-8 text") from None
    if not command.strip() or "\0" in command:
        raise InvalidRequest("a command must have text and no NUL character")
    if size > most_bytes:
        raise PayloadTooLarge(f"the command has {size:,} bytes; the most is {most_bytes:,}")
