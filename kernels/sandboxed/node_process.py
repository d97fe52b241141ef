"""JavaScript and TypeScript by Node.js: a process for each execution, without state, where the image has `node`.

JavaScript is CommonJS, TypeScript an ES module whose types Node strips. The code reaches the process through its stdin,
so that no file of it is left in the workspace.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kernels.errors import DeadlineExceeded, GuestRefused
from kernels.execution.execution import Event, Outcome
from kernels.execution.outputs import OutputCaps, Truncated, UserError
from kernels.guest_client.client import CommandResult, GuestClient

_PIECE_BYTES: Final = 90_000
"""Of code in one command: base64 makes a third more of it, and Linux takes 128 KiB as one argument."""
_MOST_OUTPUT_BYTES: Final = 2 * 1024 * 1024
"""Of each stream, as the guest keeps it."""
_TRACEBACK_LINES: Final = 100
_WRITE_SECONDS: Final = 10.0
_MODULES: Final = {"javascript": "commonjs", "typescript": "module-typescript"}
_ERROR: Final = re.compile(r"^(?:Uncaught )?((?:[A-Z]\w*)?(?:Error|Exception))(?: \[\w+\])?: (.*)$", re.MULTILINE)
_PLACE: Final = re.compile(r"^\S+:\d+$", re.MULTILINE)
"""Where the error is, the first line of what Node says of one that was not caught."""
_NO_NODE: Final = (
    "this environment's image has no `node`: leave the runtime out, or say `deno`, which runs JavaScript and TypeScript"
    " and keeps their state; or choose an environment whose image has Node.js"
)


async def run_node(
    guest: GuestClient,
    code: str,
    language: str,
    *,
    timeout_seconds: float,
    caps: OutputCaps,
    emit: Callable[[Event], None],
) -> Outcome:
    """Run code to its end; being cancelled ends the process. Raises the guest's errors, refusals excepted."""
    missing = f"no-node-{uuid.uuid4().hex}"
    try:
        result = await guest.run_command(
            await _command(guest, code, language, missing),
            timeout_seconds=timeout_seconds,
            output_bytes=min(caps.text_bytes, _MOST_OUTPUT_BYTES),
        )
    except GuestRefused as error:
        return Outcome("error", error=UserError("RuntimeNotStarted", f"node could not be started: {error}", []))
    except DeadlineExceeded:
        return Outcome("timeout")
    if missing in result.stderr:
        return Outcome("error", error=UserError("RuntimeNotFound", _NO_NODE, []))
    return _outcome(result, emit)


async def _command(guest: GuestClient, code: str, language: str, missing: str) -> str:
    """The command line that runs the code; long code is laid down in pieces first, in a file that goes at the start."""
    node = f"NO_COLOR=1 node --input-type={_MODULES[language]} -"
    start = f"command -v node >/dev/null || {{ echo {missing} >&2; exit 127; }}\n"
    data = code.encode()
    if len(data) <= _PIECE_BYTES:
        return f"{start}{_decoding(data)} | {node}"
    file = f"/tmp/.{uuid.uuid4().hex}"  # noqa: S108 - in the sandbox
    for begin in range(0, len(data), _PIECE_BYTES):
        line = f"{_decoding(data[begin : begin + _PIECE_BYTES])} >> {file} || {{ rm -f {file}; exit 1; }}"
        written = await guest.run_command(line, timeout_seconds=_WRITE_SECONDS, output_bytes=1000)
        if written.exit_code != 0:  # the beginning of code is other code
            raise GuestRefused(507, "no_space", f"its code could not be written to /tmp: {written.stderr.strip()}")
    return f"exec < {file}\nrm {file}\n{start}{node}"


def _decoding(data: bytes) -> str:
    """What writes these bytes to its stdout, without a file of the shell's: the disk may be full."""
    return f"printf %s '{base64.b64encode(data).decode()}' | base64 -d"


def _outcome(result: CommandResult, emit: Callable[[Event], None]) -> Outcome:
    outputs: list[dict[str, Any]] = []
    error, stderr = (None, result.stderr) if result.exit_code == 0 or result.timed_out else _error(result)
    for name, text in (("stdout", result.stdout), ("stderr", stderr)):
        if text:
            outputs.append({"output_type": "stream", "name": name, "text": text})
            emit(Event("stream", {"name": name, "text": text}))
    if error is not None:
        told = {"name": error.name, "value": error.value, "traceback": error.traceback}
        outputs.append(
            {"output_type": "error", "ename": error.name, "evalue": error.value, "traceback": error.traceback}
        )
        emit(Event("error", told))
    return Outcome(
        status="timeout" if result.timed_out else "interrupted" if result.status == "stopped" else _status(error),
        stdout=result.stdout,
        stderr=stderr,
        outputs=outputs,
        error=error,
        truncated=Truncated(result.stdout_truncated, result.stderr_truncated, 0),
    )


def _status(error: UserError | None) -> str:
    return "ok" if error is None else "error"


def _error(result: CommandResult) -> tuple[UserError, str]:
    """What ended the process, as it said itself last on stderr, or its exit status; and what stderr was before."""
    place = next(iter(deque(_PLACE.finditer(result.stderr), maxlen=1)), None)
    found = _ERROR.search(result.stderr, place.start()) if place is not None else None
    if place is None or found is None:
        return UserError("ExitStatus", f"node ended with exit status {result.exit_code}", []), result.stderr
    lines = result.stderr[place.start() :].rstrip("\n").split("\n")[-_TRACEBACK_LINES:]
    return UserError(found[1], found[2], lines), result.stderr[: place.start()]
