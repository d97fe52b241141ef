"""The client's operations on sessions: what is asked, what comes back, what is tried again. No I/O.

Each function makes a generator (see `steps`) that `Client` and `AsyncClient` run.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any, Literal, TypedDict

from sandcell.errors import StillRunning
from sandcell.models.commands import Command
from sandcell.models.executions import Execution, ExecutionPage, Language, LanguageRuntime, OnBusy, WidgetMoved
from sandcell.models.model import Page
from sandcell.models.sessions import KeepVariables, Note, Session, SessionStatus
from sandcell.models.sync import SyncMode
from sandcell.operations.leases import lease_header
from sandcell.result import Result
from sandcell.steps import (
    START_SECONDS,
    Ask,
    Operation,
    Pause,
    decode,
    exchange,
    may_repeat,
    omit_none,
    pause_seconds,
    quote,
)

EXECUTION_SECONDS = 900.0
"""The service's default timeout of an execution or a command."""
REPLAY_SECONDS = 28_800.0
"""The service's default bound on one replay."""
VIEW_SECONDS = 960.0
"""Longer than any setting of `view_seconds`."""
MARGIN_SECONDS = 60.0
FLUSH_SECONDS = 60.0
"""The service's default of `flush_deadline_seconds`."""
POLL_SECONDS = 1.0
ENDED = ("ok", "error", "timeout", "interrupted", "died", "rejected")
SESSIONS = "/v1/sessions"


class RunOptions(TypedDict):
    """Options of `run` and `submit`."""

    timeout_seconds: float | None
    on_busy: OnBusy
    expect_generation: int | None
    clear_context: bool
    language: Language
    runtime: LanguageRuntime | None
    idempotency_key: str | None
    lease: str | None
    sync: SyncMode | None


def start_session(
    environment: str | None = None,
    *,
    agent: str | None = None,
    name: str = "",
    workspace_id: str | None = None,
    timeout_seconds: int | None = None,
    idle_timeout_seconds: int | None = None,
    labels: dict[str, str] | None = None,
    replay_of: str | None = None,
    sync: SyncMode | None = None,
    keep_awake: bool = False,
    keep_variables: KeepVariables | None = None,
    keep_variables_mb: int | None = None,
    checkpoint_every: int | None = None,
    idempotency_key: str | None = None,
) -> Operation[Session]:
    """Start a session: from an environment by its id or name, else from that of a registered `agent`, else `python`.

    It goes on with the files of `workspace_id`; with `replay_of`, a session, it has its files and ran its cells; with
    `sync` before_return answers come when files are in the store; with `keep_awake` threads go on while it is idle;
    with `keep_variables` variables outlive a kernel. Each `checkpoint_every` executions it has a checkpoint. By its
    `idempotency_key` a start is found again whose answer was lost. `labels` and `name` are for people.
    """
    body = omit_none(
        environment=environment,
        agent=agent,
        name=name,
        workspace_id=workspace_id,
        timeout_seconds=timeout_seconds,
        idle_timeout_seconds=idle_timeout_seconds,
        labels=labels,
        replay_of=replay_of,
        sync=sync,
        keep_awake=keep_awake or None,
        keep_variables=keep_variables,
        keep_variables_mb=keep_variables_mb,
        checkpoint_every=checkpoint_every,
    )
    return (yield from _start(body, REPLAY_SECONDS if replay_of else START_SECONDS, idempotency_key))


def fork_session(
    session_id: str,
    *,
    cell: int | str | None = None,
    exact: bool = False,
    replay: bool = False,
    name: str = "",
    timeout_seconds: int | None = None,
    idle_timeout_seconds: int | None = None,
    labels: dict[str, str] | None = None,
    idempotency_key: str | None = None,
) -> Operation[Session]:
    """Start a session that is as another was after a `cell`, or as it is now.

    The cell is named by its execution's id, or by its number in the notebook. It begins from the nearest checkpoint,
    of a session as it is now from one of now, and runs the cells since; with `replay` it runs all cells. What is not as
    it was is in the new session's `from_`. Raises Conflict when it cannot be built again, and with `exact` also when a
    cell came out otherwise or a variable is not there. `idempotency_key` is as in `start_session`.
    """
    point = omit_none(session=session_id, cell=cell, exact=exact or None, replay=replay or None)
    body = omit_none(
        name=name,
        timeout_seconds=timeout_seconds,
        idle_timeout_seconds=idle_timeout_seconds,
        labels=labels,
    )
    return (yield from _start({**body, "from": point}, REPLAY_SECONDS, idempotency_key))


def _start(body: dict[str, Any], seconds: float, key: str | None) -> Operation[Session]:
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    ask = Ask("POST", SESSIONS, json=body, headers=headers, timeout_seconds=seconds)
    return decode((yield from exchange(ask, repeatable=True)), Session)


def list_sessions(
    *, status: SessionStatus | None = None, limit: int = 100, cursor: str | None = None
) -> Operation[Page[Session]]:
    """One page of your sessions, newest first."""
    query = omit_none(status=status, limit=limit, cursor=cursor)
    return decode((yield from exchange(Ask("GET", SESSIONS, query))), Page[Session])


def get_session(session_id: str) -> Operation[Session]:
    """Show a session."""
    return decode((yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}"))), Session)


def stop_session(session_id: str) -> Operation[Session]:
    """Stop a session; returns when its files are in the store."""
    ask = Ask("DELETE", f"{SESSIONS}/{quote(session_id)}", timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask)), Session)


def interrupt(session_id: str) -> Operation[None]:
    """Interrupt what runs in a session. Never sent twice: the second could meet what runs next."""
    yield from exchange(Ask("POST", f"{SESSIONS}/{quote(session_id)}/interrupt"))


def restart(session_id: str) -> Operation[Session]:
    """Start a blank kernel of a new generation. Never sent twice: the second would wipe what runs by then."""
    return decode((yield from exchange(Ask("POST", f"{SESSIONS}/{quote(session_id)}/restart"))), Session)


def hibernate(session_id: str) -> Operation[Session]:
    """Give up a session's memory until its next use; the answer's `hibernated` says what is kept."""
    ask = Ask("POST", f"{SESSIONS}/{quote(session_id)}/hibernate", timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask, repeatable=True)), Session)


def resume(session_id: str) -> Operation[Session]:
    """Wake a session that is hibernated; the answer's `restored` says which variables came back."""
    ask = Ask("POST", f"{SESSIONS}/{quote(session_id)}/resume", timeout_seconds=START_SECONDS)
    return decode((yield from exchange(ask, repeatable=True)), Session)


def run(
    session_id: str,
    code: str,
    *,
    timeout_seconds: float | None = None,
    on_busy: OnBusy = "queue",
    expect_generation: int | None = None,
    clear_context: bool = False,
    language: Language = "python",
    runtime: LanguageRuntime | None = None,
    idempotency_key: str | None = None,
    patience_seconds: float | None = None,
    lease: str | None = None,
    sync: SyncMode | None = None,
) -> Operation[Result]:
    """Run code and return its outcome. Code runs once, whatever happens to the connection.

    When the connection is lost the execution is found again by its idempotency key. `patience_seconds` bounds the
    whole wait (default: the execution's timeout and a minute); then `StillRunning` names the execution. With
    `clear_context` a blank kernel runs the code. `language` may be javascript or typescript, and `runtime` deno or
    nodejs for them. `lease` is the id of the lease that you hold on the session. With `sync` before_return the result
    comes when the files are in the store; its `sync` says whether they are. Left out it is the session's.
    """
    patience = patience_seconds or (timeout_seconds or EXECUTION_SECONDS) + MARGIN_SECONDS + _flush_seconds(sync)
    until = time.monotonic() + patience
    key = idempotency_key or str(uuid.uuid4())
    body = _body(code, timeout_seconds, on_busy, expect_generation, clear_context=clear_context)
    body |= _language_fields(language, runtime) | omit_none(sync=sync)
    answer = yield replace(_request(session_id, {**body, "wait": True}, key, lease), timeout_seconds=patience)
    error = answer.error()
    if error is None:
        return Result(decode(answer.content, Execution))
    if not may_repeat(error, repeatable=True):
        raise error
    yield Pause(pause_seconds(0, error))
    # The same key finds the execution, or begins it if the first request never came; long answers get lost again.
    execution = yield from _submit(session_id, body, key, lease)
    if execution.status in ENDED:
        return Result(execution)
    return (yield from wait(session_id, execution.id, patience_seconds=max(until - time.monotonic(), POLL_SECONDS)))


def submit(
    session_id: str,
    code: str,
    *,
    timeout_seconds: float | None = None,
    on_busy: OnBusy = "queue",
    expect_generation: int | None = None,
    clear_context: bool = False,
    language: Language = "python",
    runtime: LanguageRuntime | None = None,
    idempotency_key: str | None = None,
    lease: str | None = None,
    sync: SyncMode | None = None,
) -> Operation[Execution]:
    """Submit code and return at once; `wait` or `events` follow it."""
    body = _body(code, timeout_seconds, on_busy, expect_generation, clear_context=clear_context)
    body |= _language_fields(language, runtime) | omit_none(sync=sync)
    return (yield from _submit(session_id, body, idempotency_key or str(uuid.uuid4()), lease))


def _flush_seconds(sync: SyncMode | None) -> float:
    """How much longer an answer may take that waits for the store."""
    return FLUSH_SECONDS if sync == "before_return" else 0.0


def _language_fields(language: Language, runtime: LanguageRuntime | None) -> dict[str, Any]:
    return omit_none(language=None if language == "python" else language, runtime=runtime)


def _body(
    code: str, timeout: float | None, on_busy: OnBusy, generation: int | None, *, clear_context: bool
) -> dict[str, Any]:
    return omit_none(
        code=code,
        timeout_seconds=timeout,
        on_busy=on_busy,
        expect_generation=generation,
        clear_context=clear_context or None,
    )


def _request(session_id: str, body: dict[str, Any], key: str, lease: str | None) -> Ask:
    headers = {"Idempotency-Key": key, **lease_header(lease)}
    return Ask("POST", f"{SESSIONS}/{quote(session_id)}/executions", json=body, headers=headers)


def _submit(session_id: str, body: dict[str, Any], key: str, lease: str | None) -> Operation[Execution]:
    ask = _request(session_id, {**body, "wait": False}, key, lease)
    return decode((yield from exchange(ask, repeatable=True)), Execution)


def wait(
    session_id: str, execution_id: str, *, patience_seconds: float = EXECUTION_SECONDS + MARGIN_SECONDS
) -> Operation[Result]:
    """The outcome of an execution once it has ended; raises `StillRunning` when patience ends first."""
    until, attempt = time.monotonic() + patience_seconds, 0
    while (execution := (yield from get_execution(session_id, execution_id))).status not in ENDED:
        if time.monotonic() >= until:
            raise StillRunning("the execution has not ended yet", code="still_running", execution_id=execution_id)
        yield Pause(min(pause_seconds(attempt), POLL_SECONDS))
        attempt += 1
    return Result(execution)


def get_execution(session_id: str, execution_id: str) -> Operation[Execution]:
    """Show an execution."""
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/executions/{quote(execution_id)}")
    return decode((yield from exchange(ask)), Execution)


def list_executions(
    session_id: str,
    *,
    limit: int = 100,
    cursor: str | None = None,
    outcomes: bool = True,
    newest_first: bool = False,
    commands: bool = False,
) -> Operation[ExecutionPage]:
    """One page of a session's executions, oldest first or newest first.

    Without `outcomes` only `status` says what came of each. With `commands` shell commands are among them, whose `kind`
    is `command`.
    """
    query = query_executions(limit, cursor, outcomes=outcomes, newest_first=newest_first, commands=commands)
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/executions", query)
    return decode((yield from exchange(ask)), ExecutionPage)


def query_executions(
    limit: int, cursor: str | None, *, outcomes: bool, newest_first: bool, commands: bool
) -> dict[str, Any]:
    """The query string of a list of executions."""
    return omit_none(
        limit=limit,
        cursor=cursor,
        outcomes=None if outcomes else "false",
        newest_first="true" if newest_first else None,
        commands="true" if commands else None,
    )


def list_notes(
    session_id: str, *, limit: int = 100, cursor: str | None = None, newest_first: bool = False
) -> Operation[Page[Note]]:
    """One page of what happened to a session besides its executions, oldest first or newest first."""
    query = omit_none(limit=limit, cursor=cursor, newest_first="true" if newest_first else None)
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/notes", query)
    return decode((yield from exchange(ask)), Page[Note])


def interrupt_execution(session_id: str, execution_id: str) -> Operation[Execution]:
    """Interrupt one execution, queued or running, or stop a shell command."""
    ask = Ask("POST", f"{SESSIONS}/{quote(session_id)}/executions/{quote(execution_id)}/interrupt")
    return decode((yield from exchange(ask, repeatable=True)), Execution)


def move_widget(
    session_id: str,
    execution_id: str,
    model_id: str,
    state: dict[str, Any] | None = None,
    *,
    event: Literal["click"] | None = None,
    lease: str | None = None,
) -> Operation[WidgetMoved]:
    """Set values of a widget that an execution shows, or click it; the answer has what its callbacks did.

    `model_id` is that of the widget's model, or of one that it is made of, as its output says. Raises `Conflict` while
    code runs, `NotFound` for a widget that the kernel does not display. It is never sent twice.
    """
    body = omit_none(model_id=model_id, state=state, event=event)
    address = f"{SESSIONS}/{quote(session_id)}/executions/{quote(execution_id)}/widgets"
    ask = Ask("POST", address, json=body, headers=lease_header(lease))
    return decode((yield from exchange(ask, repeatable=False)), WidgetMoved)


def command(
    session_id: str,
    command: str,
    *,
    timeout_seconds: float | None = None,
    background: bool = False,
    merge_output: bool = False,
    sync: SyncMode | None = None,
    stop_when_gone: bool = False,
    idempotency_key: str | None = None,
) -> Operation[Command]:
    """Run a shell command to its end, or start it as a background task. Without an `idempotency_key` never sent twice.

    With one it is found again when its answer was lost, as code is in `run`; a service from before there were such
    keys would run it a second time. With `merge_output` what it writes to stderr is in `stdout`, where it was written.
    `sync` is as of `run`. With `stop_when_gone` the service stops it when this connection is closed before its end.
    """
    body = omit_none(
        command=command,
        timeout_seconds=timeout_seconds,
        background=background,
        merge_output=merge_output or None,
        sync=sync,
        stop_when_gone=stop_when_gone or None,
    )
    patience = (timeout_seconds or EXECUTION_SECONDS) + MARGIN_SECONDS + _flush_seconds(sync)
    headers = omit_none(**{"Idempotency-Key": idempotency_key})
    address = f"{SESSIONS}/{quote(session_id)}/commands"
    ask = Ask("POST", address, json=body, headers=headers, timeout_seconds=patience)
    return decode((yield from exchange(ask, repeatable=idempotency_key is not None)), Command)


def get_task(session_id: str, task_id: str) -> Operation[Command]:
    """A background task and its output so far."""
    return decode((yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/tasks/{quote(task_id)}"))), Command)


def stop_task(session_id: str, task_id: str) -> Operation[Command]:
    """Stop a background task."""
    ask = Ask("DELETE", f"{SESSIONS}/{quote(session_id)}/tasks/{quote(task_id)}")
    return decode((yield from exchange(ask)), Command)


def notebook(session_id: str, format: Literal["ipynb", "html", "py"] = "ipynb") -> Operation[bytes]:  # noqa: A002
    """The session as a notebook: as an `.ipynb`, an HTML page or a plain Python script."""
    query = {} if format == "ipynb" else {"format": format}
    ask = Ask("GET", f"{SESSIONS}/{quote(session_id)}/notebook", query=query, timeout_seconds=VIEW_SECONDS)
    return (yield from exchange(ask))


def manifest(session_id: str) -> Operation[bytes]:
    """What `sandcell notebook verify` holds against the notebook: the ids and hashes of its cells, as JSON."""
    return (yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/notebook/manifest")))


def make_run_options(  # noqa: PLR0917 - all that a session's two methods were called with
    timeout: float | None,
    on_busy: OnBusy,
    expect_generation: int | None,
    clear_context: bool,  # noqa: FBT001
    language: Language,
    runtime: LanguageRuntime | None,
    idempotency_key: str | None,
    lease: str | None,
    sync: SyncMode | None,
) -> RunOptions:
    """The options of `run` and `submit` as a session's methods take them."""
    return RunOptions(
        timeout_seconds=timeout,
        on_busy=on_busy,
        expect_generation=expect_generation,
        clear_context=clear_context,
        language=language,
        runtime=runtime,
        idempotency_key=idempotency_key,
        lease=lease,
        sync=sync,
    )
