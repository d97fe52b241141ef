"""Executions: what is submitted, what came of it, and the events on the way."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model, Page
from sandcell.models.sync import ExecutionSync, SyncMode

ExecutionStatus = Literal["queued", "running", "ok", "error", "timeout", "interrupted", "died", "rejected"]


ExecutionKind = Literal["code", "command"]


OnBusy = Literal["queue", "reject", "interrupt"]


Language: TypeAlias = str
"""`python`, `javascript`, `typescript`, or the language of a kernel that the session's image declares."""


LanguageRuntime: TypeAlias = str
"""`python`, `deno`, `nodejs`, or the name of a kernel that the session's image declares."""


class ExecutionError(Model):
    """A user's exception: an outcome. `traceback` lines carry no terminal colours."""

    name: str
    value: str
    traceback: list[str]


class Death(Model):
    """Why a kernel is gone.

    `cause` is one of `exit`, `signal`, `oom`, `deadline`, `sandbox`, `restart`.
    """

    cause: str
    detail: str
    exit_code: int | None = None
    signal: str | None = None
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None


class Truncated(Model):
    """Bytes cut from each part of an execution's output; 0 when whole."""

    stdout: int = 0
    stderr: int = 0
    outputs: int = 0
    late: int = 0


class LargeVariable(Model):
    """A name of the session's Python code, and the bytes of its value, of a collection with what is in it."""

    name: str
    type: str
    size_bytes: int


class MemoryShortage(Model):
    """The session's memory ran short while code ran.

    `level` is `warning`, or `interrupted` when the code was interrupted for it. `held_bytes` is what no file has, when
    it was most. `largest` names the largest variables, if the kernel could say them.
    """

    level: Literal["warning", "interrupted"]
    held_bytes: int
    limit_bytes: int
    detail: str
    largest: list[LargeVariable] = msgspec.field(default_factory=list)


class Execution(Model):
    """One run of code; becomes a notebook cell. `outputs` are nbformat 4.5 outputs, streams included.

    `why` says what else there is to say of how it ended, or of why it has not: it was interrupted before it began; the
    interrupt has no effect; the kernel said that it was idle too early; it waits, since somebody has a lease. `late`
    are outputs that came after its end. `memory` says that memory ran short while it ran. `author` ran it, through the
    interface `face`; `provenance` is what it used and changed, as in the notebook: files are in it a moment after its
    end. From then on `cell` is its number in the notebook, from 1, by which forks and replays name it.

    `kind` is `command` of a shell command, whose `code` is its line and which has an `exit_code` once it has ended; one
    that was started in the background ends at once and has its `task`'s id. Once that has ended, `exit_code` and `why`
    say how, and `late` has what it put out.
    """

    id: str
    session_id: str
    status: ExecutionStatus
    language: str
    code: str
    generation: int
    queued_at: str
    runtime: str = "python"
    execution_count: int | None = None
    stdout: str = ""
    stderr: str = ""
    outputs: list[dict[str, Any]] = msgspec.field(default_factory=list)
    error: ExecutionError | None = None
    death: Death | None = None
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    started_at: str | None = None
    ended_at: str | None = None
    clear_context: bool = False
    sync: ExecutionSync = msgspec.field(default_factory=ExecutionSync)
    why: str | None = None
    late: list[dict[str, Any]] = msgspec.field(default_factory=list)
    memory: MemoryShortage | None = None
    author: str = ""
    face: str = ""
    provenance: dict[str, Any] | None = None
    cell: int | None = None
    kind: ExecutionKind = "code"
    exit_code: int | None = None
    task: str | None = None


class ExecutionPage(Page[Execution]):
    """One page of a session's executions; `total` is how many there are in all, null on pages behind a cursor."""

    total: int | None = None


class Submission(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/executions`.

    `wait` answers with the outcome (200), else with 202 and the row. `expect_generation` refuses to run on a kernel
    other than the caller's own. `clear_context` (Python only): a blank kernel, of the next generation, runs the code.
    `language` is python, javascript, typescript, or that of a kernel that the environment's image declares; its
    `languages` lists them. `runtime` is the kernel's name there; of JavaScript and TypeScript it is `deno` (the
    default, which keeps state) or `nodejs` (a process each).
    `sync` before_return: the answer waits until the files are in the store; left out it is the session's.
    """

    code: str
    language: Annotated[Language, constraints.LANGUAGE] = "python"
    runtime: Annotated[LanguageRuntime | None, constraints.KERNEL] = None
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_EXECUTION] = None
    wait: bool = True
    on_busy: OnBusy = "queue"
    expect_generation: int | None = None
    clear_context: bool = False
    sync: SyncMode | None = None


_Scalar = str | int | float | bool | None


class WidgetMove(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/executions/{eid}/widgets`: what somebody did to a widget that the cell shows.

    `model_id` is the widget, or one that it is made of; `state` its new values by name, each a text, a number, true,
    false, null, or a list or an object of those. `event` is a click, of a button.
    """

    model_id: str
    state: dict[str, _Scalar | list[_Scalar] | dict[str, _Scalar]] = msgspec.field(default_factory=dict)
    event: Literal["click"] | None = None


class WidgetEvent(Model):
    """What the kernel told while it carried out a move; `event` and `data` as in an execution's events."""

    event: str
    data: dict[str, Any]


class WidgetMoved(Model):
    """What came of a move, in order; it is late output of the execution, too."""

    generation: int
    events: list[WidgetEvent]


class Event(Model):
    """One entry of an execution's log; `sequence` starts at 1 and is the SSE id.

    `event` is one of started, stream, display, update, widget (values of a displayed widget that changed), result,
    error, clear, generation, interrupt, memory, truncated, ended, and late for output that comes after that. In the
    events of a session it is one of execution (code is queued, begins, or ends), command (the same of a shell command),
    late (there is more of one that has ended), generation (a blank kernel), lease (one begins or ends), truncated and
    ended. In those of a program, whose sequence counts the bytes that it has put out, it is one of output, gap and
    ended.
    """

    sequence: int
    event: str
    data: dict[str, Any]
