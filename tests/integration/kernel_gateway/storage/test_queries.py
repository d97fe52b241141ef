"""Every query of every module, in one story, gives the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import (
    access_keys,
    agent_engine,
    agents,
    attach_tokens,
    audit,
    audit_chain,
    cells,
    client_tokens,
    datasets,
    environments,
    executions,
    hibernations,
    principals,
    revisions,
    sessions,
    tables,
    workspace_usage,
)
from kernel_gateway.storage.agents import AgentRow
from kernel_gateway.storage.attach_tokens import AttachTokenRow
from kernel_gateway.storage.audit import AuditFilter, AuditRow
from kernel_gateway.storage.cells import Head, NewCell
from kernel_gateway.storage.client_tokens import AnsweredRow
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.datasets import DatasetRow
from kernel_gateway.storage.environments import Added, EnvironmentRow
from kernel_gateway.storage.executions import NoteRow, Said, StoredOutcome, UnderWay
from kernel_gateway.storage.hibernations import HibernationRow
from kernel_gateway.storage.sessions import Record, SessionRow
from kernel_gateway.storage.states import checkpoints
from sandcell.models.datasets import DatasetProfile
from tests.integration.kernel_gateway.storage.rows import NOW, an_execution, on_database
from tests.postgresql_server import PostgresqlServer

MODULES = (
    *(access_keys, agent_engine, agents, attach_tokens, audit, audit_chain, cells, client_tokens, datasets),
    *(checkpoints, environments, executions, hibernations, principals, revisions, sessions, workspace_usage),
)
ANN, BOB = Principal("p", "ann", admin=True), Principal("q", "bob", admin=False)
ENVIRONMENT = EnvironmentRow(
    *("e", "p", "ann", "mine", "é", "python", 2048, 512, "SANDBOX", "", 1.5, {"a": "b"}, NOW, NOW),
    added=Added(("a",)),
    build=environments.BUILDING,
)
SESSION = SessionRow("s", "p", "w", "n", "e", 1, NOW, NOW, NOW + 10, 10, 10, None, {"a": "é"})
PROFILE = DatasetProfile("csv", 1, True, 1, True, "all_rows", 0, [], [])  # type: ignore[arg-type]
DATASET = DatasetRow("d", "w", "data", "a.csv", "0" * 64, 5_000_000_000, PROFILE, NOW, NOW)
ENGINE = agent_engine.ResourceRow("1", "engine", "p", "project", "here", NOW, content={"a": 1})
SANDBOX = agent_engine.ResourceRow("2", "sandbox", "p", "project", "here", NOW, engine_id="1", session_id="s")
CHECKPOINT = checkpoints.CheckpointRow("c", "s", "asked", NOW, 3, 2)
SNAPSHOT = HibernationRow("h", "s", "begun", NOW, 6_000_000_000, 3, 1.5)
KEY = ("p", "Start", "token")
RECORD = AuditRow(NOW, "api", "Start", allowed=False, reason="not_found: é", principal_id="p", number=1, hash="0")
Step = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def step(function: Callable[..., Any], *arguments: Any, **named: Any) -> Step:
    return function, arguments, named


def credentials() -> Iterator[Step]:
    yield from (step(principals.add, each, NOW) for each in (ANN, BOB))
    yield step(principals.find_or_add, "ann", NOW)
    yield step(principals.set_quota, "q", 7)
    yield from (step(each, "q", *now) for each, now in ((principals.disable, (NOW,)), (principals.enable, ())))
    yield step(principals.standing, "q")
    yield step(principals.find_enabled, "q")
    yield step(principals.add_token, ANN, token_id="t", name="é", digest="d", now=NOW, expires=NOW + 9)
    yield step(principals.shorten_token, "t", NOW + 5)
    yield step(principals.record_use, tables.tokens, {"t": NOW + 1})
    yield step(principals.has_admin_token, "p", NOW)
    yield from (step(each, "d") for each in (principals.find_by_digest, principals.knows_digest))
    yield step(principals.find_by_token_id, "t")
    yield step(principals.find_token, "t", lock=True)
    yield step(principals.revoke_token, "t", NOW)
    yield step(principals.list_tokens, 1, None)
    yield from (step(each, "bob") for each in (principals.find_row, principals.find_by_name))
    yield step(access_keys.add, ANN, key_id="k", name="", sealed=b"\0\xff", now=NOW)
    yield step(access_keys.replace_secret, "k", b"\xff\0")
    yield step(principals.record_use, tables.access_keys, {"k": NOW + 1})
    yield step(access_keys.find, "k")
    yield step(access_keys.all_live)
    yield step(access_keys.list_keys, 10, None)
    yield step(access_keys.revoke, "k", NOW)
    yield step(client_tokens.remove_old, NOW)
    yield step(client_tokens.keep, KEY, AnsweredRow("digest", b"{}"), NOW)
    yield step(client_tokens.find, KEY, NOW - 1)
    yield step(client_tokens.find, KEY, NOW - 1, lock=True)
    yield step(client_tokens.forget, KEY)


def environments_and_agents() -> Iterator[Step]:
    yield step(environments.add, ENVIRONMENT)
    yield from (step(each, "p") for each in (environments.count, environments.count_built))
    yield step(environments.list_building)
    yield step(environments.begin_build, "e", "sha256:0")
    yield step(environments.list_layers)
    yield step(environments.end_build, "e", "", "log é", NOW)
    yield from (step(environments.list_built, each) for each in ("p", None))
    yield step(environments.read_log, "e")
    yield step(environments.set_tags, "e", {"c": "d"}, NOW)
    yield step(environments.find, "p", "e", lock=True)
    yield step(environments.find_of_anybody, "e")
    yield step(environments.require, "p", "e")
    yield step(environments.find_by_name, "p", "mine")
    yield step(environments.list_of, "p", 10, None)
    agent = AgentRow("a", "p", "planner", "", "e", None, NOW, NOW)
    yield step(agents.add, agent)
    yield step(agents.replace, agent)
    yield step(agents.count, "p")
    yield step(agents.find, "p", "planner", lock=True)
    yield step(agents.list_of, "p", 10, None)
    yield step(agents.detach_all, "p", "e", NOW)
    yield step(agents.find_detached, "p", "e")
    yield step(agents.attach_all, "p", "e", "e", NOW)
    yield step(agents.find_attached, "p", "e")
    yield step(agents.is_named, "p", "e")


def sessions_and_what_runs() -> Iterator[Step]:
    yield step(sessions.add_workspace, "w", "p", NOW)
    yield step(sessions.claim_workspace, "w", "p")
    yield step(sessions.add, SESSION)
    yield step(agents.live_sessions, "p", "e")
    yield from (step(sessions.count_live, each) for each in ("p", None))
    yield step(sessions.count_places, "p")
    for count in (executions.add, executions.add_ended):
        row = an_execution(count.__name__)
        ended = NOW + 1 if count is executions.add_ended else None
        yield step(count, msgspec.structs.replace(row, ended=ended, outcome=StoredOutcome("é\0")))
    yield step(executions.add, an_execution("keyed", "key"), begun=2)
    yield step(executions.begin, "add", 3, NOW)
    yield step(executions.set_under_way, "add", UnderWay())
    said = Said("m", "s", 5)
    done = msgspec.structs.replace(an_execution("add"), status="ok", outcome=StoredOutcome("a"), started=NOW, ended=NOW)
    yield step(executions.finish, msgspec.structs.replace(done, ended_number=1, stream="k", heard=1 << 40, said=said))
    yield step(executions.set_outcome, "add", StoredOutcome("b"))
    yield step(executions.set_provenance, {"add": {"cpu": 1}, "keyed": {}})
    begun = msgspec.structs.replace(an_execution("task"), kind="command", outcome=StoredOutcome(task="t"))
    yield step(executions.add_ended, msgspec.structs.replace(begun, ended=NOW, under_way=UnderWay(task=True)))
    yield step(executions.list_tasks, "s")
    yield step(executions.end_task, "task", StoredOutcome(exit_code=3))
    yield step(executions.end_task, "task", StoredOutcome(exit_code=4))
    yield step(executions.find, "s", "task")
    yield step(executions.find, "s", "add")
    yield step(executions.find_readable, "s", ["add", "keyed", "absent"])
    yield step(executions.find_by_key, "s", "key")
    yield step(executions.list_of, "s", 2, None)
    yield step(executions.list_of, "s", 2, None, outcomes=False)
    yield from (
        step(each, "s")
        for each in (executions.count_of, executions.list_open, executions.last_ended, executions.list_heard)
    )
    yield step(executions.has_run_after, "s", 0)
    yield from (step(executions.find_written_after, "s", each) for each in ("", "add", "absent"))
    yield step(executions.add_note, NoteRow("s", 1, NOW, "started", "**é**"))
    yield step(executions.find_note, 1)
    yield step(executions.list_notes, "s", 2, None)
    yield from (step(each, "s", 0) for each in (cells.executions_without, cells.notes_without))
    new = [NewCell("cell", b"{}", "h0", "add"), NewCell("note", b"{}", "h1", note=1)]
    yield step(cells.append, "s", Head(), new)
    yield from (step(each, "s") for each in (cells.head, cells.links, cells.find_only_runtime))
    yield step(cells.page, "s", Head())
    yield step(cells.read_widgets, "s", 9)
    yield step(cells.read_numbers, [name for name in (each.execution_id for each in new) if name])
    yield step(revisions.find_place, "s", "add")
    yield step(revisions.add, "s", [revisions.NewRevision(0, 0, 1, {"a": "é"}, 3)])
    yield step(revisions.list_revised, "s", 0, 9, 9)
    yield step(revisions.last_of, "s", 0, 9)
    yield step(revisions.count_growth, "s", 9)


def what_becomes_of_a_session() -> Iterator[Step]:
    yield step(sessions.set_generation, "s", 4)
    yield step(sessions.touch, "s", NOW + 2)
    yield step(sessions.count_execution, "s", NOW + 3)
    yield step(sessions.set_record, "s", Record(runtime="runc"))
    yield step(sessions.set_expiry, "s", NOW + 99, 99)
    yield step(sessions.owner_of, "s")
    yield step(sessions.list_own_ids, "p")
    yield step(sessions.list_live)
    yield step(sessions.list_some, ["s", "unknown"])
    yield step(sessions.list_sandboxes, ["s", "unknown"])
    token = AttachTokenRow("at", "s", "laptop", ("run",), NOW, NOW + 9)
    yield step(attach_tokens.add, ANN, token, "ad")
    yield step(attach_tokens.count_live, "s", NOW)
    yield step(attach_tokens.find_by_digest, "ad")
    yield step(attach_tokens.list_of, "s", 10, None)
    yield step(attach_tokens.revoke, "s", "at", NOW)
    yield from (step(agent_engine.add, each) for each in (ENGINE, SANDBOX))
    yield step(agent_engine.count, "p", "engine")
    yield step(agent_engine.find, "p", "sandbox", "2", lock=True)
    yield step(agent_engine.list_of, agent_engine.engines_of("p", "project", "here"), agent_engine.EVERYTHING, 9, None)
    wanted = agent_engine.Wanted(frozenset({"READY"}), frozenset({""}), frozenset({"other"}))
    yield step(agent_engine.list_of, agent_engine.children_of("1", "sandbox"), wanted, 9, None)
    yield step(agent_engine.set_content, "1", {"a": "é"})
    yield step(agent_engine.find, "p", "engine", "1")
    yield step(agent_engine.has_children, "1")
    yield step(agent_engine.delete, "1", NOW)
    yield step(hibernations.put, SNAPSHOT)
    yield step(sessions.change_status, dataclasses.replace(SESSION, status="HIBERNATED"))
    yield step(sessions.set_record, "s", Record(runtime="runc", snapshot_of="s"))
    yield from (step(hibernations.find_snapshot, "p", each) for each in ("s", "n", "é"))
    yield step(hibernations.count_store_alone, SNAPSHOT)
    yield step(hibernations.sum_bytes, "p")
    yield from (step(each, "h") for each in (hibernations.spend_if_begun, hibernations.spend))
    yield step(hibernations.spend_begun)
    yield from (step(each) for each in (hibernations.list_kept, hibernations.list_spent))
    yield step(hibernations.forget, "h")
    yield step(checkpoints.begin, CHECKPOINT)
    yield step(checkpoints.keep, dataclasses.replace(CHECKPOINT, size_bytes=6_000_000_000))
    yield step(checkpoints.find, "s", "c")
    yield step(checkpoints.list_of, "s", 9, None)
    yield from (step(each, of) for each, of in ((checkpoints.list_all_of, "s"), (checkpoints.sum_bytes, "p")))
    yield step(checkpoints.list_largest, "p", 1)
    yield step(checkpoints.list_largest, "p", 5, without=["none"])
    yield step(checkpoints.find_kept, "c")
    yield step(checkpoints.begin, dataclasses.replace(CHECKPOINT, id="c2"))
    for name in ("c3", "c4"):
        passing = dataclasses.replace(CHECKPOINT, id=name, kind="passing", execution_id="e")
        yield from (step(each, passing) for each in (checkpoints.begin, checkpoints.keep))
    yield step(checkpoints.hand_over, dataclasses.replace(CHECKPOINT, id="c3", generation=2, execution_id=None))
    yield step(checkpoints.hand_over, dataclasses.replace(CHECKPOINT, id="c3", kind="passing", execution_id="e"))
    yield step(checkpoints.spend, "c")
    yield step(checkpoints.spend_unfinished, ["c3"])
    yield from (step(checkpoints.find_kept, each) for each in ("c3", "c4"))
    yield step(checkpoints.spend_after, "s", {"e"})
    yield step(checkpoints.list_spent)
    yield from (step(checkpoints.forget, each) for each in ("c", "c2", "c3", "c4"))
    yield step(sessions.end, "s", reason="stopped", detail="", now=NOW, record=Record())
    yield step(sessions.find, "s", "p")
    yield step(sessions.list_of, "p", 9, None, "TERMINATED", environment="e")
    yield step(sessions.list_of, "p", 9, None, "LIVE")
    yield step(sessions.list_ended, "w", 9)
    yield step(sessions.list_all, 9, None, "ann", "TERMINATED")
    yield step(sessions.hand_over, "s", "w", "q")
    yield step(sessions.find_workspace, "w", "q")
    yield step(sessions.list_workspaces, "q", 9, None)


def workspaces_and_audit() -> Iterator[Step]:
    yield step(datasets.add, DATASET)
    yield step(datasets.replace, DATASET)
    yield step(datasets.count, "w")
    yield step(datasets.find, "w", "data")
    yield step(datasets.list_of, "w", 9, None)
    yield step(datasets.remove, "w", "data")
    yield step(workspace_usage.record_first, "w", 3, 7_000_000_000)
    yield step(workspace_usage.record, [("w", NOW + 1, None, None), ("w", NOW, 4, 8_000_000_000)])
    yield from (step(workspace_usage.of_principals, each, 9, None) for each in ("q", None))
    yield step(workspace_usage.list_untouched, NOW + 99, 9)
    yield step(workspace_usage.mark_deleted, "w", NOW, untouched_since=NOW + 99)
    yield step(workspace_usage.is_deleted, "w")
    yield step(principals.list_principals, 1, None)
    yield step(agents.remove, "a")
    yield step(environments.remove, "e", NOW)
    yield step(audit_chain.last_link)
    yield step(audit.add_all, [RECORD])
    for _ in range(2):
        yield step(audit_chain.put_statement, audit_chain.HEAD, b"{}", b"\0\xff")
        yield step(audit_chain.put_position, "file", 1)
    yield step(audit_chain.last_link)
    yield step(audit_chain.find_statement, audit_chain.HEAD)
    every = AuditFilter("p", "ann", None, "api", "Start", "not_found", allowed=False, since=NOW, until=NOW + 1)
    yield step(audit.list_of, every, 9, None)
    yield from (step(each) for each in (audit_chain.newest, audit_chain.has_links, audit_chain.furthest))
    yield step(audit_chain.read_slice, None, 9)
    yield step(audit_chain.read_slice, 0, 1, beside_writers=True)
    yield step(audit_chain.oldest, 9)
    yield step(audit_chain.first_time_after, 0, until=1 << 62)
    yield step(audit_chain.after, 0, 9)
    yield from (step(each, 1) for each in (audit_chain.hash_at, audit_chain.raw_at))
    yield step(audit_chain.position, "file")
    for sink, position in (("http of b", 7), ("http of a", 3), ("https of a", 1)):
        yield step(audit_chain.put_position, sink, position)
    yield from (step(audit_chain.take_positions, "http") for _ in range(2))
    yield step(audit_chain.position, "https of a")
    yield step(audit_chain.remove_until, 1)


def story() -> list[Step]:
    parts = (credentials, environments_and_agents, sessions_and_what_runs, what_becomes_of_a_session)
    return [each for part in (*parts, workspaces_and_audit) for each in part()]


def queries(module: ModuleType) -> set[Callable[..., Any]]:
    """Public functions of a connection that the module itself has."""
    return {
        found
        for name, found in inspect.getmembers(module, inspect.isfunction)
        if found.__module__ == module.__name__
        and not name.startswith("_")
        and next(iter(inspect.signature(found).parameters), "") == "connection"
    }


def plain(answer: Any) -> Any:
    """What can be compared: rows are tuples, and generators lists, while the transaction lasts."""
    if isinstance(answer, Iterator):
        return [plain(each) for each in answer]
    if hasattr(answer, "_mapping"):
        return tuple(answer)
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


def tell(url: str) -> list[tuple[str, Any]]:
    """What each step answers on this database."""
    answers: list[tuple[str, Any]] = []

    async def check(database: Database) -> None:
        for function, arguments, named in story():
            answer = await database.run(lambda c: plain(function(c, *arguments, **named)))  # noqa: B023
            answers.append((f"{function.__module__}.{function.__name__}", answer))

    on_database(url, check)
    return answers


def test_every_query_answers_the_same_on_both(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    asked = {function for function, _, _ in story()}
    assert set[Callable[..., Any]]().union(*map(queries, MODULES)) - asked == set(), "no query is left out"
    here, there = tell(f"sqlite:///{tmp_path}/sandcell.db"), tell(postgresql.create_database())
    for one, other in zip(here, there, strict=True):
        assert one == other
    assert sum(answer not in (None, [], 0, False) for _, answer in here) > len(here) // 2, "most have something to say"
