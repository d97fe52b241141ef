"""`:execute`: files are written, code or a command runs, and the files that it changed go out with what it printed.

An error of the code is a result, and so are a deadline and the death of its kernel; what keeps it from running is an
HTTP error. Calls to one sandbox go one after the other, each with its own files.
"""

from __future__ import annotations

import shlex
from typing import Final, cast

from kernel_gateway.errors import Conflict, GatewayError, InvalidRequest
from kernel_gateway.faces.agent_engine import outputs
from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.inputs import Command, Inputs
from kernel_gateway.faces.agent_engine.outputs import Produced
from kernel_gateway.faces.agent_engine.sandboxes import LANGUAGES, find_sandbox
from kernel_gateway.faces.json_bodies import encode, quote
from kernel_gateway.faces.responses import Response
from kernel_gateway.storage.agent_engine import ResourceRow
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution, Submission
from sandcell.models.workspaces import FileEntry

EXECUTION_SECONDS: Final = 300.0
"""How long one call may run, as on Google's service."""
FACE: Final = "agent_engine"
NOT_OUTPUTS: Final = frozenset({"__pycache__", ".ipynb_checkpoints"})
"""Directories whose files nobody asked for."""


async def execute(call: Call) -> Response:
    """Run it to its end, whether or not the client stays to see it."""
    call.services.limits.take_invocation(call.principal)
    row, inputs = await find_sandbox(call), cast("Inputs", call.body)
    if row.status == "TERMINATED":
        raise Conflict("the sandbox is STATE_TERMINATED: its session ended; make a new one")
    turns = call.face.turns(row.session_id or "")
    async with turns.take():
        produced = await _carry_out(call, row, inputs)
    return outputs.answer(call, row.session_id or "", produced)


async def _carry_out(call: Call, row: ResourceRow, inputs: Inputs) -> Produced:
    session_id = row.session_id or ""
    if inputs.files:
        await _write_files(call, session_id, inputs)
    call.forget_body()
    if inputs.command is not None:
        return await _run_command(call, session_id, inputs.command)
    if inputs.code is None:
        return Produced(outputs.describe_text("", ""))
    before = await _list_files(call, session_id)
    execution = await _run_code(call, row, inputs.code)
    after = await _list_files(call, session_id)
    return await outputs.collect(call, session_id, execution, before, after)


async def _write_files(call: Call, session_id: str, inputs: Inputs) -> None:
    """All of them, or an error that names the first that the sandbox does not take."""
    files = inputs.take_files()
    refused = await call.services.files.write_all(call.principal, session_id, files)
    if not refused:
        return
    number, error = refused[0]
    if error.status >= 500:
        raise error
    raise InvalidRequest(f"the file {quote(files[number][0])} cannot be written: {error.message}", field="inputs")


async def _run_code(call: Call, row: ResourceRow, code: str) -> Execution:
    spec = row.content.get("spec", {}).get("codeExecutionEnvironment", {})
    language = LANGUAGES[spec.get("codeLanguage", "LANGUAGE_UNSPECIFIED")]
    seconds = min(EXECUTION_SECONDS, call.services.settings.execution_timeout_max_seconds)
    submission = Submission(code=code, language=language, timeout_seconds=seconds)
    executions, session_id = call.services.executions, row.session_id or ""
    execution = await executions.submit(call.principal, session_id, submission, face=FACE)
    return await executions.wait(call.principal, session_id, execution.id)


async def _run_command(call: Call, session_id: str, asked: Command) -> Produced:
    """Its answer is the shell server's: what both streams had, the exit code and the time."""
    if asked.timeout is not None and not 0 < asked.timeout <= EXECUTION_SECONDS:
        raise InvalidRequest(f"timeout must be above 0 and at most {EXECUTION_SECONDS:.0f} seconds", field="timeout")
    command = asked.command if asked.cwd is None else f"cd -- {shlex.quote(asked.cwd)} || exit 1\n{asked.command}"
    request = CommandRequest(command, timeout_seconds=asked.timeout or EXECUTION_SECONDS)
    done = await call.services.commands.run(call.principal, session_id, request, face=FACE)
    stderr = done.stderr
    if done.timed_out:
        stderr += "\nThe command ran longer than it may and was ended.\n"
    answer = {
        "stdout": done.stdout,
        "stderr": stderr,
        "returncode": done.exit_code,
        "duration_ms": round(done.duration_seconds * 1_000),
    }
    return Produced(encode(answer))


async def _list_files(call: Call, session_id: str) -> dict[str, FileEntry] | None:
    """The files of the workspace by path; None where there are too many to look through."""
    try:
        page = await call.services.files.list(call.principal, session_id, recursive=True)
    except GatewayError as error:
        if error.details.get("reason") != "too_many":
            raise
        return None
    return {
        entry.path: entry
        for entry in page.items
        if entry.kind == "file" and NOT_OUTPUTS.isdisjoint(entry.path.split("/"))
    }
