"""Run code: a program of its own in the sandbox of its files."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any, Final

import msgspec

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.forms import split
from kernel_gateway.faces.librechat.identifiers import clean_path, format_id, identify_file
from kernel_gateway.faces.librechat.languages import LONGEST_LINE, find_language, make_line
from kernel_gateway.faces.librechat.listings import Listing, find_gone, find_made
from kernel_gateway.faces.librechat.places import Call, Place
from kernel_gateway.faces.librechat.requests import ExecuteCode
from kernel_gateway.faces.responses import Response
from kernel_gateway.services.clock import rfc3339
from sandcell.models.commands import Command, CommandRequest

MOST_ANSWERED: Final = 200
"""Files that an answer names."""
LONGEST_ARGUMENTS: Final = 16 * 1024
KILLED: Final = 137
CLOCK_STEP_SECONDS: Final = 0.1
"""How far the time of a change in a sandbox may be behind the clock."""


class _Run(msgspec.Struct, frozen=True):
    """What came of a run; `missing` are files that it could not be given, `before` and `after` those around it."""

    place: Place
    command: Command
    missing: list[str]
    before: Listing
    after: Listing
    began: str


async def execute_code(call: Call) -> Response:
    """The output, and the files that the code has made or changed. A client that leaves does not end the code."""
    body: ExecuteCode = call.body
    find_language(body.lang)
    _require_code(body.code, call.services.settings.code_bytes)
    _require_arguments(body.args or [])
    call.services.limits.take_invocation(call.principal)
    home = await call.places.choose(call.principal, body)
    return await call.services.background.carry_out(_execute_at(call, body, home), "a run of LibreChat's code")


async def _execute_at(call: Call, body: ExecuteCode, home: str | None) -> Response:
    """No session is left that nobody could come back to."""
    async with call.places.hold(home):
        place = await call.places.open(call.principal, home)
        try:
            run = await _run(call, body, place)
        except BaseException:
            if place.is_new:
                _stop(call, place, "its first run failed")
            raise
    if home is None and run.after.whole and not run.after.files:
        _stop(call, place, "its run left no files")
    return Response(_answer(body, run))


async def _run(call: Call, body: ExecuteCode, place: Place) -> _Run:
    missing = await call.places.stage(call.principal, place, body.files or [])
    before = await call.places.look(call.principal, place.workspace_id)
    line = await _write_line(call, place, body)
    seconds = _read_timeout(body, call.services.settings.command_timeout_seconds)
    request = CommandRequest(line, timeout_seconds=seconds)
    began = rfc3339(call.services.clock.now() - CLOCK_STEP_SECONDS)
    command = await call.services.commands.run(call.principal, place.session_id, request, face="librechat")
    after = await call.places.look(call.principal, place.workspace_id)
    return _Run(place, command, missing, before, after, began)


def _stop(call: Call, place: Place, why: str) -> None:
    stopping = call.services.sessions.stop(call.principal, place.session_id, why)
    call.services.background.spawn(stopping, f"end of {place.session_id}")


async def execute_programmatic(call: Call) -> Response:
    raise NotOffered("programmatic tool calling is not supported: call the tools one by one")


def _require_code(code: str, most_bytes: int) -> None:
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("code must be valid UTF-8 text") from None
    if not code.strip() or "\0" in code:
        raise InvalidRequest("code must have text and no NUL character")
    if size > most_bytes:
        raise PayloadTooLarge(f"the code has {size:,} bytes; the most is {most_bytes:,}", limit_bytes=most_bytes)


def _require_arguments(arguments: list[str]) -> None:
    try:
        size = sum(len(each.encode()) for each in arguments)
    except UnicodeEncodeError:
        raise InvalidRequest("args must be valid UTF-8 text") from None
    if any("\0" in each for each in arguments):
        raise InvalidRequest("args must have no NUL character")
    if size > LONGEST_ARGUMENTS:
        raise InvalidRequest(f"args have at most {LONGEST_ARGUMENTS:,} bytes together: put what is longer into a file")


def _read_timeout(body: ExecuteCode, most_seconds: float) -> float:
    """How long it may run; what is asked for beyond the most is not refused: clients name their own largest."""
    return most_seconds if body.timeout is None else min(max(body.timeout / 1000, 0.001), most_seconds)


async def _write_line(call: Call, place: Place, body: ExecuteCode) -> str:
    """The line that runs it. Code that makes it too long goes to a directory, which the line removes."""
    language, arguments = find_language(body.lang), body.args or []
    line = make_line(language, body.code, arguments)
    if len(line.encode()) <= LONGEST_LINE:
        return line
    directory = f"/tmp/code-{uuid.uuid4().hex}"  # noqa: S108 - the sandbox's own
    path, content = f"{directory}/{language.file}", split(body.code.encode())
    await call.services.sandbox_files.write(call.principal, place.session_id, path, content)
    return make_line(language, body.code, arguments, directory)


def _answer(body: ExecuteCode, run: _Run) -> dict[str, Any]:
    session = format_id(run.place.workspace_id)
    made = find_made(run.before, run.after, run.began)
    files = [
        {
            "id": identify_file(each.path),
            "name": each.path,
            "path": f"/mnt/data/{each.path}",
            "session_id": session,
            "storage_session_id": session,
        }
        for each in made[-MOST_ANSWERED:]
    ]
    gone = _find_gone(body, run)
    return {
        "session_id": session,
        "stdout": run.command.stdout,
        "stderr": run.command.stderr + _explain(run, len(made) - len(files)),
        **({"files": files} if files else {}),
        **({"deleted_files": gone} if gone else {}),
        **({} if body.runtime_session_hint is None else _describe_runtime(run.place)),
    }


def _describe_runtime(place: Place) -> dict[str, Any]:
    return {
        "runtime_session_id": format_id(place.workspace_id),
        "runtime_status": "new" if place.is_new else "reused",
    }


def _find_gone(body: ExecuteCode, run: _Run) -> list[str]:
    """Inputs that the code has removed, by the names that the client has for them."""
    names = {}
    for each in body.files or []:
        with suppress(InvalidRequest):  # it was not given to the code
            names[clean_path(each.name)] = each.name
    return [names[path] for path in sorted(find_gone(run.before, run.after, names))]


def _explain(run: _Run, left_out: int) -> str:
    """What the model should know besides what the program wrote."""
    command = run.command
    lines = [f"The file {name!r} is not there any more: it was not given to the code." for name in run.missing]
    if command.timed_out:
        lines.append(f"Time limit exceeded: the code was ended after {command.duration_seconds:.0f} seconds.")
    elif command.exit_code == KILLED:
        lines.append("The code was killed, most often because its memory ran out.")
    elif command.exit_code and not command.stderr:
        lines.append(f"The code ended with exit status {command.exit_code}.")
    if run.after.problem is not None:
        lines.append(f"Which files were made or changed is not known: {run.after.problem.message}")
    if left_out:
        lines.append(f"{left_out:,} further files were made or changed; the answer names the newest {MOST_ANSWERED}.")
    return "".join(f"{line}\n" for line in lines)
