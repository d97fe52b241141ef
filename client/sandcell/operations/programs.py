"""The client's operations on programs that are followed; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence

from sandcell.models.commands import Program, Programs, Signal, StartProgram, TerminalSize
from sandcell.operations.leases import lease_header
from sandcell.steps import Ask, Operation, decode, exchange, quote

PIECE_BYTES = 256 * 1024
"""Of input that goes with one request."""


def start_program(
    session_id: str,
    command: Sequence[str] = (),
    *,
    terminal: tuple[int, int] | None = None,
    directory: str = "",
    variables: Mapping[str, str] | None = None,
    takes_input: bool = True,
    timeout_seconds: float | None = None,
    lease: str | None = None,
) -> Operation[Program]:
    """Start a program, by default a login shell, which goes on when the connection is lost; `program_events` has what
    it puts out.

    `terminal` is the size of the one that it runs in, as (columns, rows); without, it has pipes. `directory` is
    absolute or relative to /workspace. One that nobody follows for a while is ended.
    """
    asked = StartProgram(
        list(command),
        directory,
        dict(variables or {}),
        None if terminal is None else TerminalSize(*terminal),
        takes_input,
        timeout_seconds,
    )
    ask = Ask("POST", _programs(session_id), json=asked, headers=lease_header(lease))
    return decode((yield from exchange(ask, repeatable=False)), Program)


def list_programs(session_id: str) -> Operation[list[Program]]:
    """Those that run, of every face."""
    return decode((yield from exchange(Ask("GET", _programs(session_id)))), Programs).items


def get_program(session_id: str, program_id: str) -> Operation[Program]:
    """One that runs or ended a moment ago."""
    return decode((yield from exchange(Ask("GET", _program(session_id, program_id)))), Program)


def send_input(
    session_id: str, program_id: str, data: bytes, *, end: bool = False, lease: str | None = None
) -> Operation[None]:
    """Write to a program; `end`: no more comes.

    Raises `LimitReached` while the program has not read what was sent before. Never sent twice: a lost answer does not
    say whether it arrived.
    """
    pieces = [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)] or [b""]
    for number, piece in enumerate(pieces, 1):
        body = {"data": b64encode(piece).decode(), "end": end and number == len(pieces)}
        ask = Ask("POST", f"{_program(session_id, program_id)}/input", json=body, headers=lease_header(lease))
        yield from exchange(ask, repeatable=False)


def resize_terminal(session_id: str, program_id: str, columns: int, rows: int) -> Operation[None]:
    """Another size of a program's terminal."""
    size = TerminalSize(columns, rows)
    yield from exchange(Ask("POST", f"{_program(session_id, program_id)}/size", json=size), repeatable=True)


def signal_program(session_id: str, program_id: str, signal: Signal = "SIGTERM") -> Operation[None]:
    """Signal a program; SIGTERM and SIGKILL reach all that it has started."""
    body = {"signal": signal}
    yield from exchange(Ask("POST", f"{_program(session_id, program_id)}/signal", json=body), repeatable=False)


def _programs(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id)}/programs"


def _program(session_id: str, program_id: str) -> str:
    return f"{_programs(session_id)}/{quote(program_id)}"
