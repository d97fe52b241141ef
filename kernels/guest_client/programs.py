"""Programs in a sandbox that are followed while they run: what a guest says of them, as values, checked.

Nothing in it is trusted; see `answers`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernels.errors import SandboxFailed
from kernels.guest_client.answers import of_type

STREAMS: Final = ("stdout", "stderr", "pty")


@dataclass(frozen=True)
class ProgramRequest:
    """What to run; nothing is a login shell. `size` is [columns, rows] of a terminal; without one it has pipes, and
    stdin if it `takes_input`."""

    command: Sequence[str]
    directory: str
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    tag: str = ""
    size: tuple[int, int] | None = None
    takes_input: bool = False
    timeout_seconds: float = 60.0
    execution: str = ""
    """An id under which the guest keeps how it ended, with so many bytes of each stream."""
    output_bytes: int = 0


@dataclass(frozen=True)
class RunningProgram:
    """One that runs, or has `ended` a moment ago; `said` is how many bytes it has put out.

    A guest of an older release leaves the last four out, and lists none that has ended.
    """

    pid: int
    command: list[str]
    directory: str
    variables: dict[str, str] = field(repr=False)
    tag: str
    execution: str = ""
    terminal: bool = False
    said: int = 0
    ended: bool = False


class ProgramStarted(msgspec.Struct, frozen=True):
    pid: int
    execution: str = ""


class ProgramOutput(msgspec.Struct, frozen=True):
    """A piece of what it put out; `stream` is stdout, stderr or pty, `at` how much came before in all streams.

    A guest of an older release does not say that.
    """

    stream: str
    data: bytes
    at: int | None = None


class ProgramEnd(msgspec.Struct, frozen=True):
    """It ended: with an exit code, or by a signal, by name; `timed_out` when the guest ended it at its deadline."""

    exit_code: int | None
    signal: str | None
    timed_out: bool


ProgramEvent = ProgramStarted | ProgramOutput | ProgramEnd


def parse_event(value: dict[str, Any]) -> ProgramEvent | None:
    """One line of a program's stream; None for a heartbeat."""
    kind = value.get("event")
    if kind == "heartbeat":
        return None
    if kind == "start":
        return ProgramStarted(of_type(value, "pid", int))
    if kind == "data":
        stream, data = of_type(value, "stream", str), of_type(value, "data", str)
        if stream not in STREAMS:
            raise SandboxFailed("the guest knows a stream that we do not")
        at = of_type(value, "at", int) if "at" in value else None
        return ProgramOutput(stream, _decode(data), at)
    if kind == "end":
        code, signal = value.get("exit_code"), value.get("signal")
        return ProgramEnd(
            code if isinstance(code, int) and 0 <= code < 256 else None,
            str(signal)[:40] if signal is not None else None,
            of_type(value, "timed_out", bool),
        )
    raise SandboxFailed("the guest said what no program can do")


def parse_output(value: dict[str, Any]) -> list[ProgramOutput]:
    """What streams have put out, by their names; of those without anything nothing is said."""
    found = []
    for name in ("stdout", "stderr"):
        one = of_type(value, name, dict)
        at = of_type(one, "at", int)
        if data := _decode(of_type(one, "data", str)):
            found.append(ProgramOutput(name, data, at))
    return found


def parse_running(value: dict[str, Any]) -> list[RunningProgram]:
    """Those that run, as listed."""
    return [_parse_one(each) for each in of_type(value, "programs", list)]


def _decode(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except ValueError:  # also of what is no ASCII
        raise SandboxFailed("the guest sent output that is not base64") from None


def _parse_one(value: object) -> RunningProgram:
    if not isinstance(value, dict):
        raise SandboxFailed("the guest listed what is no program")
    newer = "execution" in value
    return RunningProgram(
        of_type(value, "pid", int),
        [str(each) for each in of_type(value, "command", list)],
        of_type(value, "directory", str),
        {str(name): str(each) for name, each in of_type(value, "variables", dict).items()},
        of_type(value, "tag", str),
        of_type(value, "execution", str) if newer else "",
        terminal=newer and of_type(value, "terminal", bool),
        said=of_type(value, "said", int) if newer else 0,
        ended=value.get("ended") is True,
    )
