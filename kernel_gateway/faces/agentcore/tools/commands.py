"""executeCommand, startCommandExecution, getTask, stopTask: shell commands, waited for or as tasks."""

from __future__ import annotations

from msgspec import UNSET

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.paths import quote
from kernel_gateway.faces.agentcore.tools.results import (
    Result,
    StructuredContent,
    TaskStatus,
    make_text_block,
    make_text_result,
)
from kernel_gateway.faces.agentcore.tools.terminal import render_command_output
from kernels.guest.processes.commands import MAX_COMMAND_BYTES
from sandcell.models.commands import Command, CommandRequest


async def execute_command(call: Invocation) -> Result:
    """Run a command to its end, its streams in one, in order."""
    return describe_command(await _run(call, background=False))


async def start_command(call: Invocation) -> Result:
    """Start a task, which runs on whether or not the client asks for it."""
    task = await _run(call, background=True)
    about = StructuredContent(task_id=task.id, task_status="submitted", stdout="", stderr="")
    return Result(
        [make_text_block("Successfully started a command execution task")], is_error=False, structured_content=about
    )


async def get_task(call: Invocation) -> Result:
    """How a task is: working with its output so far, or how it ended."""
    task = await _find_task(call)
    if task is None:
        return _refuse_unknown(call)
    if task.status == "running":
        about = StructuredContent(task_status="working", stdout=render_command_output(task.stdout), stderr="")
        return Result([make_text_block("Task is working")], is_error=False, structured_content=about)
    return describe_task(task)


async def stop_task(call: Invocation) -> Result:
    """Cancel a task that works; one that has ended cannot be."""
    task = await _find_task(call)
    if task is not None and task.status == "running":
        task = await call.services.tasks.stop(call.principal, call.session_id, call.arguments.task_id or "")
        if task.status == "stopped":
            return make_text_result("Successfully canceled a command execution task")
    if task is None:
        return _refuse_unknown(call)
    status = _find_task_status(task).upper()
    return make_text_result(f"Task cannot be canceled (current status: TaskStatus.{status})", is_error=True)


def describe_command(command: Command) -> Result:
    """A command that has ended; when it failed, all of its output counts as stderr."""
    failed = _has_failed(command)
    silent = f"The command ended with exit code {command.exit_code}" if failed else ""
    return Result([make_text_block(_join_output(command) or silent)], failed, _describe_command(command, failed=failed))


def describe_task(task: Command) -> Result:
    """A task that has ended: as its command, unless it was canceled or went with its sandbox."""
    about = _describe_command(task, failed=task.status != "stopped" and _has_failed(task))
    about.task_status = _find_task_status(task)
    if task.status == "stopped":
        return Result([make_text_block("Task is canceled")], is_error=False, structured_content=about)
    if task.status == "lost":
        return Result(
            [make_text_block("The task ended with its sandbox, which is gone")], is_error=True, structured_content=about
        )
    return Result(describe_command(task).content, is_error=_has_failed(task), structured_content=about)


async def _run(call: Invocation, *, background: bool) -> Command:
    if len((call.arguments.command or "").encode()) > MAX_COMMAND_BYTES:
        raise InvalidRequest(
            f"a command has at most {MAX_COMMAND_BYTES:,} bytes: write a script with writeFiles and run that"
        )
    request = CommandRequest(call.arguments.command or "", background=background, merge_output=True)
    commands, key = call.services.commands, call.key or None
    return await commands.run(call.principal, call.session_id, request, face="agentcore", key=key)


async def _find_task(call: Invocation) -> Command | None:
    """The task asked for; None when there is no such task in the session."""
    try:
        return await call.services.tasks.get(call.principal, call.session_id, call.arguments.task_id or "")
    except NotFound as error:
        if error.details.get("reason") != "not_found":
            raise
        return None


def _refuse_unknown(call: Invocation) -> Result:
    return make_text_result(f"Task not found: {quote(call.arguments.task_id or '')}", is_error=True)


def _find_task_status(task: Command) -> TaskStatus:
    if task.status == "running":
        return "working"
    if task.status == "stopped":
        return "canceled"
    return "failed" if _has_failed(task) else "completed"


def _has_failed(command: Command) -> bool:
    return command.exit_code != 0 or command.timed_out


def _describe_command(command: Command, *, failed: bool) -> StructuredContent:
    output = _join_output(command)
    return StructuredContent(
        stdout="" if failed else output,
        stderr=output if failed else "",
        exit_code=UNSET if command.exit_code is None else command.exit_code,
        execution_time=command.duration_seconds,
    )


def _join_output(command: Command) -> str:
    if not command.timed_out:
        return render_command_output(command.stdout)
    between = "\n" if command.stdout and not command.stdout.endswith("\n") else ""
    return render_command_output(f"{command.stdout}{between}The command ran longer than it may and was ended\n")
