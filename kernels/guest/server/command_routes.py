"""Routes about shell commands and background tasks."""

from __future__ import annotations

from ..processes.commands import Command
from .handler import Handler


class CommandsHandler(Handler):
    """POST /v1/commands {command, timeout_seconds, output_bytes, background, merge_output}: run it, or start a task.

    A command that is waited for is stopped when the caller is gone: its outcome could not be delivered.
    """

    command: Command | None = None

    async def post(self) -> None:
        background = self.field("background", bool)
        command = await self.control.start_command(
            self.field("command", str),
            timeout_seconds=self.field("timeout_seconds", float, int),
            output_bytes=self.field("output_bytes", int),
            background=background,
            merge_output=self.field("merge_output", bool),
        )
        if not background:
            self.command = command
            await command.finished.wait()
        self.answer(command.report())

    def on_connection_close(self) -> None:
        if self.command is not None:
            self.command.end("stopped")


class KeptCommandHandler(Handler):
    """PUT /v1/commands/{id} {command, timeout_seconds, output_bytes, merge_output}: run it once and wait for its end.

    Who hangs up ends nothing; who asks for the same id again waits for the same command, or hears how it ended.
    DELETE: stop it and say how it was; one that was not begun never is.
    """

    async def put(self, command_id: str) -> None:
        command = await self.control.start_command(
            self.field("command", str),
            timeout_seconds=self.field("timeout_seconds", float, int),
            output_bytes=self.field("output_bytes", int),
            background=False,
            merge_output=self.field("merge_output", bool),
            command_id=command_id,
        )
        await command.finished.wait()
        self.answer(command.report())

    async def delete(self, command_id: str) -> None:
        self.control.commands.never_begin(command_id)
        command = self.control.commands.find_execution(command_id)
        command.end("stopped")
        await command.finished.wait()
        self.answer(command.report())


class TaskHandler(Handler):
    """GET /v1/tasks/{id}: how a task is. DELETE: stop it and say how it was."""

    def get(self, task_id: str) -> None:
        self.answer(self.control.commands.task(task_id).report())

    async def delete(self, task_id: str) -> None:
        task = self.control.commands.task(task_id)
        task.end("stopped")
        await task.finished.wait()
        self.answer(task.report())
