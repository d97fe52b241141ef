"""What each tool needs of its arguments; the model itself does not say. Pure.

A check raises InvalidRequest naming the argument, before anything is sent. What can only be seen later, or is a matter
of the session's files, is left to the tool and becomes a result.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore.tools.arguments import Arguments, FileContent
from kernels.languages import RUNTIMES, runtime_of

LONGEST_TEXT = 100_000_000
"""Of a string or a blob, in characters and bytes, as in the model."""
MOST_FILES = 20_000
"""In one writeFiles, and paths in one readFiles or removeFiles."""


def check_code(arguments: Arguments) -> None:
    """For executeCode."""
    _check_text("code", arguments.code)
    language = find_language(arguments)
    if language not in RUNTIMES:
        raise _ill("language", f"must be one of {', '.join(RUNTIMES)}")
    try:
        runtime_of(language, arguments.runtime)
    except ValueError as error:
        raise _ill("runtime", str(error)) from None


def find_language(arguments: Arguments) -> str:
    """The language asked for; without one, Python, or JavaScript where the runtime is one of its."""
    if arguments.language is not None:
        return arguments.language
    return "python" if arguments.runtime in (None, *RUNTIMES["python"]) else "javascript"


def check_command(arguments: Arguments) -> None:
    """For executeCommand and startCommandExecution."""
    text = _check_text("command", arguments.command)
    if not text.strip():
        raise _ill("command", "must have text")
    if "\0" in text:
        raise _ill("command", "must not have a NUL character")


def check_paths(arguments: Arguments) -> None:
    """For readFiles and removeFiles."""
    if not arguments.paths:
        raise _ill("paths", "must name at least one file")
    if len(arguments.paths) > MOST_FILES:
        raise _ill("paths", f"must name at most {MOST_FILES:,} files")


def check_content(arguments: Arguments) -> None:
    """For writeFiles."""
    if not arguments.content:
        raise _ill("content", "must hold at least one file")
    if len(arguments.content) > MOST_FILES:
        raise _ill("content", f"must hold at most {MOST_FILES:,} files")
    for number, each in enumerate(arguments.content):
        _check_file(number, each)


def check_directory(arguments: Arguments) -> None:
    """For listFiles, which needs nothing."""


def check_task(arguments: Arguments) -> None:
    """For getTask and stopTask."""
    if not arguments.task_id:
        raise _ill("taskId", "is missing")


def _check_file(number: int, file: FileContent) -> None:
    where = f"content[{number}]"
    if (file.text is None) == (file.blob is None):
        raise _ill(where, "must have either text or blob")
    if len(file.text or "") > LONGEST_TEXT:
        raise _ill(f"{where}.text", f"has at most {LONGEST_TEXT:,} characters")
    if len(file.blob or b"") > LONGEST_TEXT:
        raise _ill(f"{where}.blob", f"has at most {LONGEST_TEXT:,} bytes")


def _check_text(name: str, value: str | None) -> str:
    if value is None:
        raise _ill(name, "is missing")
    if len(value) > LONGEST_TEXT:
        raise _ill(name, f"has at most {LONGEST_TEXT:,} characters")
    return value


def _ill(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"arguments.{name} {why}", field=f"arguments.{name}")


CHECKS: dict[str, Callable[[Arguments], None]] = {
    "executeCode": check_code,
    "executeCommand": check_command,
    "readFiles": check_paths,
    "listFiles": check_directory,
    "removeFiles": check_paths,
    "writeFiles": check_content,
    "startCommandExecution": check_command,
    "getTask": check_task,
    "stopTask": check_task,
}
"""By tool."""
