"""Run code: a program of its own in the sandbox of its files."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final

from kernel_gateway.errors import InvalidRequest, PayloadTooLarge
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.forms import split
from kernel_gateway.faces.librechat.calls import Call
from kernel_gateway.faces.librechat.identifiers import format_id, identify_file
from kernel_gateway.faces.librechat.languages import LONGEST_INLINE, find_language, make_line
from kernel_gateway.faces.librechat.places import Place, version_of
from kernel_gateway.faces.librechat.requests import ExecuteCode
from kernel_gateway.faces.responses import Response
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.workspaces import FileEntry

MOST_ANSWERED: Final = 200
"""Files that an answer names."""
LONGEST_ARGUMENTS: Final = 16 * 1024
KILLED: Final = 137
NOT_OURS: Final = ("__pycache__", "node_modules")


@dataclass(frozen=True)
class _Run:
    """What came of a run; `missing` are files that it could not be given, `before` and `after` those around it."""

    place: Place
    command: Command
    missing: list[str]
    before: list[FileEntry]
    after: list[FileEntry]


async def execute_code(call: Call) -> Response:
    """The output, and the files that the code has made or changed. A client that leaves does not end the code."""
    body: ExecuteCode = call.body
    language = find_language(body.lang)
    _require_code(body.code, call.services.settings.code_bytes)
    if sum(len(each.encode("utf-8", "surrogatepass")) for each in body.args or []) > LONGEST_ARGUMENTS:
        raise InvalidRequest(f"args have at most {LONGEST_ARGUMENTS:,} bytes together: put what is longer into a file")
    seconds = _read_timeout(body, call.services.settings.command_timeout_seconds)
    call.services.limits.take_invocation(call.principal)
    home = await call.places.choose(call.principal, body)
    async with call.places.hold(home):
        place = await call.places.open(call.principal, home)
        missing = await call.places.stage(call.principal, place, body.files or [])
        before = await call.places.list_files(call.principal, place.workspace_id)
        placed = await _place(call, place, language.file, body.code)
        line = make_line(language, body.code, body.args or [], placed)
        request = CommandRequest(line, timeout_seconds=seconds)
        command = await call.services.commands.run(call.principal, place.session_id, request, face="librechat")
        after = await call.places.list_files(call.principal, place.workspace_id)
    if home is None and not after:  # nothing to come back to
        call.services.background.spawn(
            call.services.sessions.stop(call.principal, place.session_id, "its run left no files"),
            f"end of {place.session_id}",
        )
    return Response(_answer(body, _Run(place, command, missing, before, after)))


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


def _read_timeout(body: ExecuteCode, most_seconds: float) -> float:
    """How long it may run; what is asked for beyond the most is not refused: clients name their own largest."""
    return most_seconds if body.timeout is None else min(max(body.timeout / 1000, 0.001), most_seconds)


async def _place(call: Call, place: Place, file: str, code: str) -> str:
    """Write code that is too long for a line of shell to a directory, which the line removes."""
    content = code.encode()
    if len(content) <= LONGEST_INLINE:
        return ""
    directory = f"/tmp/code-{uuid.uuid4().hex}"  # noqa: S108 - the sandbox's own
    await call.services.sandbox_files.write(call.principal, place.session_id, f"{directory}/{file}", split(content))
    return directory


def _answer(body: ExecuteCode, run: _Run) -> dict[str, Any]:
    session, old = format_id(run.place.workspace_id), {each.path: version_of(each) for each in run.before}
    made = [each for each in run.after if old.get(each.path) != version_of(each) and _is_shown(each.path)]
    made.sort(key=lambda each: each.modified_at)
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
    kept = {each.path for each in run.after}
    gone = [each.name for each in body.files or [] if each.name in old and each.name not in kept]
    return {
        "session_id": session,
        "stdout": run.command.stdout,
        "stderr": run.command.stderr + _explain(run.command, run.missing, len(made) - len(files)),
        **({"files": files} if files else {}),
        **({"deleted_files": gone} if gone else {}),
        **({} if body.runtime_session_hint is None else _describe_runtime(run.place)),
    }


def _describe_runtime(place: Place) -> dict[str, Any]:
    return {
        "runtime_session_id": format_id(place.workspace_id),
        "runtime_status": "new" if place.is_new else "reused",
    }


def _is_shown(path: str) -> bool:
    """Not what programs keep for themselves."""
    return not any(part.startswith(".") or part in NOT_OURS for part in path.split("/"))


def _explain(command: Command, missing: list[str], left_out: int) -> str:
    """What the model should know besides what the program wrote."""
    lines = [f"The file {name!r} is not there any more: it was not given to the code." for name in missing]
    if command.timed_out:
        lines.append(f"Time limit exceeded: the code was ended after {command.duration_seconds:.0f} seconds.")
    elif command.exit_code == KILLED:
        lines.append("The code was killed, most often because its memory ran out.")
    elif command.exit_code and not command.stderr:
        lines.append(f"The code ended with exit status {command.exit_code}.")
    if left_out:
        lines.append(f"{left_out:,} further files were made or changed; the answer names the newest {MOST_ANSWERED}.")
    return "".join(f"{line}\n" for line in lines)
