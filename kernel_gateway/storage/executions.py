"""Queries on executions and on the notes between them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from kernel_gateway.storage.columns import micros, micros_or_none, page, seconds, seconds_or_none, to_json
from kernel_gateway.storage.tables import executions, notes
from kernels.execution.runs import MOST_RUNS, Durable, PastRun
from sandcell.models.executions import Death, ExecutionError, MemoryShortage, Truncated
from sandcell.models.sync import SyncMode

CODE: Final = ("code",)
WITH_COMMANDS: Final = ("code", "command")
"""Kinds of executions that callers see. Those of kind `late` are output without one, in the notebook alone."""


class StoredUpdate(msgspec.Struct, frozen=True):
    """What an execution made of displays of earlier ones: `places` are executions, each with one of its outputs."""

    display_id: str
    data: dict[str, Any]
    metadata: dict[str, Any]
    places: list[tuple[str, int]]


class StoredOutcome(msgspec.Struct):
    """What is stored of an execution's outcome."""

    stdout: str = ""
    stderr: str = ""
    outputs: list[dict[str, Any]] = msgspec.field(default_factory=list)
    error: ExecutionError | None = None
    death: Death | None = None
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    why: str | None = None
    """What else there is to say of how it ended."""
    late: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Outputs that came after it had ended."""
    exit_code: int | None = None
    """Of a command, as is `task`: the id of one that was started in the background."""
    task: str | None = None
    updates: list[StoredUpdate] = msgspec.field(default_factory=list)
    originals: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Those of `outputs` that later executions have updated, as they were when this one ended."""
    memory: MemoryShortage | None = None


class Said(msgspec.Struct, frozen=True):
    """By what its kernel names it, and up to which number in the stream what it said is in this row.

    Late output is `of` an execution, empty for that of none that is known.
    """

    msg_id: str
    session: str
    number: int
    of: str | None = None


class ToldEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that is not of what the kernel said, under the number that followers have it by."""

    number: int
    event: str
    data: dict[str, Any]


class UnderWay(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next process of the service has to know of an execution that has not ended."""

    told: tuple[ToldEvent, ...] = ()
    merge_output: bool = False
    """Of a command that its guest keeps, as is the next."""
    stop_when_gone: bool = False
    program: bool = False
    """Whether it is a program that callers follow."""
    unfollowed_seconds: float = 0.0
    """Such a program ends when nobody has followed it for so long; 0: it does not."""
    task: bool = False
    """Whether it has started a background task whose end is not on record: this is kept when its own is."""


class ExecutionRow(msgspec.Struct, frozen=True):
    """An execution as it is stored. A struct: it is copied several times in each short execution."""

    id: str
    session_id: str
    status: str
    language: str
    code: str
    generation: int
    timeout_seconds: float
    expect_generation: int | None
    idempotency_key: str | None
    request_digest: str | None
    queued: float
    clear_context: bool = False
    runtime: str = "python"
    kind: str = "code"
    author: str = ""
    face: str = ""
    provenance: dict[str, Any] | None = None
    execution_count: int | None = None
    last_sequence: int | None = None
    outcome: StoredOutcome | None = None
    started: float | None = None
    ended: float | None = None
    sync: SyncMode = "async"
    ended_number: int | None = None
    stream: str | None = None
    """Of what its kernel says, with the number in it up to which all is durable once this is."""
    heard: int | None = None
    said: Said | None = None
    under_way: UnderWay | None = None

    @property
    def unfollowed_seconds(self) -> float:
        """See `UnderWay`; 0 for what has ended, too."""
        return 0.0 if self.under_way is None else self.under_way.unfollowed_seconds


class NoteRow(msgspec.Struct, frozen=True):
    """Something that happened to a session: a Markdown cell of its notebook."""

    session_id: str
    generation: int
    at: float
    kind: str
    body: str
    number: int = 0


# The statements of every execution are built once: building one costs as much as running it.
_ADD, _ADD_NOTE = insert(executions), insert(notes)
_BEGIN = (
    update(executions)
    .where(executions.c.id == bindparam("execution"))
    .values(status="running", generation=bindparam("kernel"), started=bindparam("now"))
)
_FINISH = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.ended.is_(None))
    .values(
        {
            name: bindparam(f"its_{name}")
            for name in (
                "status",
                "code",
                "generation",
                "execution_count",
                "last_sequence",
                "outcome",
                "provenance",
                "started",
                "ended",
                "ended_number",
                "stream",
                "heard",
                "said",
                "under_way",
            )
        }
    )
)
_END_TASK = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.under_way.is_not(None))
    .values(outcome=bindparam("its_outcome"), under_way=None)
)
_UNDER_WAY = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.ended.is_(None))
    .values(under_way=bindparam("its_under_way"))
)

_FIND = select(executions).where(
    executions.c.id == bindparam("execution"), executions.c.session_id == bindparam("session")
)
_FIND_SOME = select(executions).where(
    executions.c.session_id == bindparam("session"), executions.c.id.in_(bindparam("executions", expanding=True))
)
_NOTE = select(notes).where(notes.c.number == bindparam("note"))
_PROVENANCE = (
    update(executions).where(executions.c.id == bindparam("execution")).values(provenance=bindparam("its_provenance"))
)
_OUTCOME = update(executions).where(executions.c.id == bindparam("execution")).values(outcome=bindparam("its_outcome"))


def add(connection: Connection, row: ExecutionRow, *, begun: int | None = None) -> None:
    """Store a row; one that a kernel of generation `begun` takes at once is stored as running, as `begin` does."""
    running = begun is not None
    values = {
        "id": row.id,
        "session_id": row.session_id,
        "status": "running" if running else row.status,
        "language": row.language,
        "code": row.code.encode(),
        "generation": begun if running else row.generation,
        "started": micros(row.queued) if running else None,
        "timeout_seconds": row.timeout_seconds,
        "expect_generation": row.expect_generation,
        "idempotency_key": row.idempotency_key,
        "request_digest": row.request_digest,
        "clear_context": row.clear_context,
        "runtime": row.runtime,
        "kind": row.kind,
        "author": row.author,
        "face": row.face,
        "sync": row.sync,
        "queued": micros(row.queued),
        "under_way": None if row.under_way is None else to_json(row.under_way),
    }
    connection.execute(_ADD, values)


def begin(connection: Connection, execution_id: str, generation: int, now: float) -> None:
    """The execution is about to run: from here on it is never run again."""
    connection.execute(_BEGIN, {"execution": execution_id, "kernel": generation, "now": micros(now)})


def set_under_way(connection: Connection, execution_id: str, under_way: UnderWay) -> None:
    """What is to be known of an execution for as long as it has not ended."""
    connection.execute(_UNDER_WAY, {"execution": execution_id, "its_under_way": to_json(under_way)})


def finish(connection: Connection, row: ExecutionRow) -> None:
    """Store how it ended, its code as it is kept; an execution that has ended stays as it ended."""
    values = {
        "execution": row.id,
        "its_status": row.status,
        "its_code": row.code.encode(),
        "its_generation": row.generation,
        "its_execution_count": row.execution_count,
        "its_last_sequence": row.last_sequence,
        "its_outcome": to_json(row.outcome),
        "its_provenance": None if row.provenance is None else to_json(row.provenance),
        "its_started": micros_or_none(row.started),
        "its_ended": micros_or_none(row.ended),
        "its_ended_number": row.ended_number,
        "its_stream": row.stream,
        "its_heard": row.heard,
        "its_said": None if row.said is None else to_json(row.said),
        "its_under_way": None if row.under_way is None or not row.under_way.task else to_json(row.under_way),
    }
    connection.execute(_FINISH, values)


def add_ended(connection: Connection, row: ExecutionRow) -> None:
    """Something that was over when it was first heard of."""
    add(connection, row)
    finish(connection, row)


def set_outcome(connection: Connection, execution_id: str, outcome: StoredOutcome) -> None:
    """What an execution has shown, as more of it has come or another has changed it."""
    connection.execute(_OUTCOME, {"execution": execution_id, "its_outcome": to_json(outcome)})


def end_task(connection: Connection, execution_id: str, outcome: StoredOutcome) -> bool:
    """The background task that it has started has ended; whether nobody had stored that before."""
    found = connection.execute(_END_TASK, {"execution": execution_id, "its_outcome": to_json(outcome)})
    return found.rowcount > 0


def find(connection: Connection, session_id: str, execution_id: str, *, outcome: bool = True) -> ExecutionRow | None:
    """One execution, without what it put out if that is not wanted."""
    row = connection.execute(_FIND, {"execution": execution_id, "session": session_id}).first()
    return _read_execution(row, outcome=outcome) if row else None


def find_readable(connection: Connection, session_id: str, execution_ids: Sequence[str]) -> dict[str, ExecutionRow]:
    """Several executions by their ids, without those whose outcome cannot be read."""
    found: dict[str, ExecutionRow] = {}
    for row in connection.execute(_FIND_SOME, {"session": session_id, "executions": execution_ids}):
        with contextlib.suppress(Exception):  # told by `find`, which is asked for each that is missing here
            found[row.id] = _read_execution(row)
    return found


def find_by_key(connection: Connection, session_id: str, idempotency_key: str) -> ExecutionRow | None:
    query = select(executions).where(
        executions.c.session_id == session_id, executions.c.idempotency_key == idempotency_key
    )
    row = connection.execute(query).first()
    return _read_execution(row) if row else None


def list_of(
    connection: Connection,
    session_id: str,
    limit: int,
    cursor: str | None,
    *,
    outcomes: bool = True,
    newest_first: bool = False,
    kinds: Collection[str] = CODE,
) -> tuple[list[ExecutionRow], str | None]:
    """One page of what ran in a session, code unless asked for other kinds; oldest first unless asked otherwise."""
    columns = [each for each in executions.c if outcomes or each is not executions.c.outcome]
    query = select(*columns).where(executions.c.session_id == session_id, executions.c.kind.in_(kinds))
    rows, following = page(connection, query, executions, limit, cursor, newest_first=newest_first)
    return [_read_execution(row, outcome=outcomes) for row in rows], following


def count_of(connection: Connection, session_id: str, kinds: Collection[str] = CODE) -> int:
    """How many there are of what `list_of` lists."""
    query = select(func.count()).where(executions.c.session_id == session_id, executions.c.kind.in_(kinds))
    return int(connection.execute(query).scalar_one())


def list_open(connection: Connection, session_id: str) -> list[ExecutionRow]:
    """What has not ended, in the order it was queued."""
    query = (
        select(executions)
        .where(executions.c.session_id == session_id, executions.c.ended.is_(None))
        .order_by(executions.c.number)
    )
    return [_read_execution(row) for row in connection.execute(query)]


def list_tasks(connection: Connection, session_id: str) -> list[ExecutionRow]:
    """The commands that have started background tasks whose ends are not on record."""
    query = (
        select(executions)
        .where(executions.c.session_id == session_id, executions.c.kind == "command")
        .where(executions.c.ended.is_not(None), executions.c.under_way.is_not(None))
        .order_by(executions.c.number)
    )
    return [_read_execution(row) for row in connection.execute(query)]


class WrittenFiles(msgspec.Struct, frozen=True):
    """Files that executions are known to have left, by their paths in the workspace, and whether those are all."""

    paths: frozenset[str] = frozenset()
    complete: bool = False


def find_written_after(connection: Connection, session_id: str, execution_id: str) -> WrittenFiles:
    """What the executions of a session left that came after this one; that of all for an empty id."""
    query = select(executions.c.provenance).where(
        executions.c.session_id == session_id, executions.c.started.is_not(None)
    )
    if execution_id:
        named = executions.c.session_id == session_id, executions.c.id == execution_id
        number = connection.execute(select(executions.c.number).where(*named)).scalar()
        if number is None:
            return WrittenFiles()
        query = query.where(executions.c.number > number)
    paths, complete = set[str](), True
    for stored in connection.execute(query).scalars():
        told = {} if stored is None else msgspec.json.decode(stored)
        if "late_of" in told:  # output of an execution that is among these, or was before them
            continue
        paths.update(each["path"] for each in told.get("files", ()) if each["change"] != "removed")
        complete = complete and "files" in told and not told.get("files_omitted")
    return WrittenFiles(frozenset(paths), complete)


def last_ended(connection: Connection, session_id: str) -> tuple[str, int] | None:
    """The id and the number of what ended last of a session; None when nothing has."""
    query = (
        select(executions.c.id, executions.c.ended_number)
        .where(executions.c.session_id == session_id, executions.c.ended_number.is_not(None))
        .order_by(executions.c.ended_number.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return (row.id, row.ended_number) if row else None


def has_run_after(connection: Connection, session_id: str, generation: int) -> bool:
    """Whether code has come to an end in a kernel of a later generation."""
    query = select(executions.c.id).where(
        executions.c.session_id == session_id,
        executions.c.kind.in_(CODE),
        executions.c.generation > generation,
        executions.c.started.is_not(None),
        executions.c.ended.is_not(None),
    )
    return connection.execute(query.limit(1)).first() is not None


def list_heard(connection: Connection, session_id: str) -> dict[str, Durable]:
    """What is durable of what a session's kernels said, by their streams."""
    rows = select(executions.c.id, executions.c.stream, executions.c.heard, executions.c.said).where(
        executions.c.session_id == session_id, executions.c.stream.is_not(None)
    )
    numbers: dict[str, int] = {}
    runs: dict[str, list[PastRun]] = {}
    for row in reversed(connection.execute(rows.order_by(executions.c.number.desc()).limit(MOST_RUNS)).all()):
        numbers[row.stream] = max(numbers.get(row.stream, 0), row.heard or 0)
        if row.said is not None:
            said = msgspec.json.decode(row.said, type=Said)
            past = PastRun(row.id if said.of is None else said.of, said.msg_id, said.session, said.number)
            runs.setdefault(row.stream, []).append(past)
    return {stream: Durable(number, runs.get(stream, ())) for stream, number in numbers.items()}


def add_note(connection: Connection, note: NoteRow) -> None:
    values = {
        "session_id": note.session_id,
        "generation": note.generation,
        "at": micros(note.at),
        "kind": note.kind,
        "body": note.body,
    }
    connection.execute(_ADD_NOTE, values)


def find_note(connection: Connection, number: int) -> NoteRow | None:
    row = connection.execute(_NOTE, {"note": number}).first()
    return None if row is None else _read_note(row)


def list_notes(
    connection: Connection, session_id: str, limit: int, cursor: str | None, *, newest_first: bool = False
) -> tuple[list[NoteRow], str | None]:
    """One page of a session's notes, oldest first unless asked otherwise."""
    query = select(notes).where(notes.c.session_id == session_id)
    rows, following = page(connection, query, notes, limit, cursor, newest_first=newest_first)
    return [_read_note(row) for row in rows], following


def set_provenance(connection: Connection, provenance: Mapping[str, dict[str, Any]]) -> None:
    """What executions used and changed, by their ids, once that is known."""
    if provenance:
        values = [{"execution": name, "its_provenance": to_json(each)} for name, each in provenance.items()]
        connection.execute(_PROVENANCE, values)


def _read_note(row: Row[Any]) -> NoteRow:
    return NoteRow(row.session_id, row.generation, seconds(row.at), row.kind, row.body, row.number)


def _read_execution(row: Row[Any], *, outcome: bool = True) -> ExecutionRow:
    return ExecutionRow(
        id=row.id,
        session_id=row.session_id,
        status=row.status,
        language=row.language,
        code=row.code.decode(),
        generation=row.generation,
        timeout_seconds=row.timeout_seconds,
        expect_generation=row.expect_generation,
        idempotency_key=row.idempotency_key,
        request_digest=row.request_digest,
        queued=seconds(row.queued),
        clear_context=row.clear_context,
        runtime=row.runtime,
        kind=row.kind,
        author=row.author,
        face=row.face,
        provenance=None if row.provenance is None else msgspec.json.decode(row.provenance),
        execution_count=row.execution_count,
        last_sequence=row.last_sequence,
        outcome=None if not outcome or row.outcome is None else msgspec.json.decode(row.outcome, type=StoredOutcome),
        started=seconds_or_none(row.started),
        ended=seconds_or_none(row.ended),
        sync=row.sync,
        ended_number=row.ended_number,
        stream=row.stream,
        heard=row.heard,
        said=None if row.said is None else msgspec.json.decode(row.said, type=Said),
        under_way=None if row.under_way is None else msgspec.json.decode(row.under_way, type=UnderWay),
    )
