"""Shell commands, background tasks, and programs that callers follow, write to and signal: a shell, for one."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.executions import Truncated
from sandcell.models.model import Model
from sandcell.models.sync import ExecutionSync, SyncMode

MOST_SIDE: Final = 2_000
"""Columns or rows of a terminal."""
MOST_INPUT_CHARACTERS: Final = 700_000
"""Of one request's input, in base64: half of what a program may leave unread."""

Signal = Literal["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"]
Side = Annotated[int, msgspec.Meta(ge=1, le=MOST_SIDE)]


class CommandRequest(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/commands`; runs by `/bin/bash -c` (or `sh`) in /workspace.

    With `merge_output` what it writes to stderr is in stdout, where it was written. `sync` is as of a submission; a
    background task has none, since its answer comes when it begins. With `stop_when_gone` the command is stopped when
    the caller closes the connection before it has the answer; otherwise it goes on.
    """

    command: Annotated[str, constraints.COMMAND]
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_COMMAND] = None
    background: bool = False
    merge_output: bool = False
    sync: SyncMode | None = None
    stop_when_gone: bool = False


class Command(Model):
    """A command or background task. `status` is one of running, done, timeout, stopped, lost.

    `execution_id` names it among the session's executions, in the answer to what has run or started it.
    """

    id: str
    status: Literal["running", "done", "timeout", "stopped", "lost"]
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    duration_seconds: float = 0.0
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    sync: ExecutionSync = msgspec.field(default_factory=ExecutionSync)
    execution_id: str | None = None


class TerminalSize(Model, forbid_unknown_fields=True):
    """How large a terminal is, in characters. Body of `POST /v1/sessions/{id}/programs/{program_id}/size`."""

    columns: Side = 80
    rows: Side = 24


class StartProgram(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/programs`. Without a `command` it is a login shell.

    With a `terminal` it runs in one of that size; without, its output and its errors come apart, and it has standard
    input if it takes `input`. `directory` is absolute or relative to /workspace. It is ended after `timeout_seconds`.
    """

    command: list[Annotated[str, constraints.WITHOUT_NUL]] = msgspec.field(default_factory=list)
    directory: Annotated[str, constraints.WITHOUT_NUL] = ""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    terminal: TerminalSize | None = None
    input: bool = True
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_PROGRAM] = None


class ProgramInput(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/programs/{program_id}/input`: bytes in base64; `end`: no more come.

    A terminal is told of the end by Ctrl-D.
    """

    data: Annotated[str, msgspec.Meta(max_length=MOST_INPUT_CHARACTERS)] = ""
    end: bool = False


class SignalProgram(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/programs/{program_id}/signal`.

    SIGKILL and SIGTERM reach all that the program has started.
    """

    signal: Signal


class ProgramEnded(Model):
    """How a program ended: with an exit code, by a signal, at its timeout, or as `why` says."""

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    why: str | None = None


class Program(Model):
    """A program; its id is that of its cell in the notebook. `followers` counts who follows it now."""

    id: str
    command: list[str]
    directory: str
    terminal: bool
    followers: int = 0
    ended: ProgramEnded | None = None


class Programs(Model):
    """The programs that run in a session."""

    items: list[Program]
