"""Tokens on a real database: expiry, scope, last use, rotation, and those that the previous release gave out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from sqlalchemy import Connection, create_engine, event

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal, hash_token
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.credentials.access_keys import AccessKeys
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.settings import Settings
from kernel_gateway.storage import attach_tokens
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.migrations import schema
from tests.doubles.turned_clock import TurnedClock

GIVEN = "the token of the administrator"


class Opened:
    """Identity and tokens on one database, with a clock that is turned."""

    def __init__(self, directory: Path) -> None:
        self.database = Database(f"sqlite:///{directory}/sandcell.db")
        self.clock = TurnedClock()
        self.identity = Identity(self.database, self.clock.now)
        self.tokens = Tokens(self.database, self.identity, self.clock)
        self.keys = AccessKeys(self.database, Settings(data_dir=str(directory)), self.clock, self.identity.last_use)
        self.admin = Principal("", "", admin=False)

    async def counts(self, token: str | None) -> bool:
        try:
            await self.identity.authenticate(token or "")
        except errors.Unauthorized:
            return False
        return True


def opened(directory: Path, test: Callable[[Opened], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        one = Opened(directory)
        await one.database.open()
        try:
            await one.identity.open(GIVEN, one.clock.now())
            await one.keys.open()
            one.admin = (await one.identity.authenticate(GIVEN)).principal
            await test(one)
        finally:
            await one.database.aclose()

    asyncio.run(run())


def test_a_token_counts_until_it_expires(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        made = await one.tokens.create(one.admin, "me", ttl_seconds=60)
        assert made.expires_at == rfc3339(one.clock.now() + 60)
        key = await one.keys.create(one.admin, "me", ttl_seconds=60)
        assert await one.counts(made.token)
        await one.keys.find(key.id)
        one.clock.advance(61)
        assert not await one.counts(made.token)
        with pytest.raises(Exception, match="revoked"):
            await one.keys.find(key.id)

    opened(tmp_path, test)


def test_a_scope_is_all_that_the_principal_may_unless_less_is_asked_for(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        made = [
            await one.tokens.create(one.admin, "me"),
            await one.tokens.create(one.admin, "admin"),
            await one.tokens.create(one.admin, "admin", scope="read"),
        ]
        assert [each.scope for each in made] == ["run", "admin", "read"]
        callers = [await one.identity.authenticate(each.token or "") for each in made]
        assert [(each.scope, each.principal.admin) for each in callers] == [
            ("run", False),
            ("admin", True),
            ("read", False),
        ]

    opened(tmp_path, test)


def test_a_rotated_token_is_replaced_by_one_like_it(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        old = await one.tokens.create(one.admin, "me", "laptop", scope="read", ttl_seconds=3_600)
        one.clock.advance(1_000)
        new = await one.tokens.rotate(one.admin, old.id, overlap_seconds=60)
        assert (new.principal, new.name, new.scope) == ("me", "laptop", "read")
        assert new.expires_at == rfc3339(one.clock.now() + 3_600)
        assert (await one.counts(old.token), await one.counts(new.token)) == (True, True)
        one.clock.advance(61)
        assert (await one.counts(old.token), await one.counts(new.token)) == (False, True)
        last = await one.tokens.rotate(one.admin, new.id)
        assert (await one.counts(new.token), await one.counts(last.token)) == (False, True)
        for gone in (old, new):
            with pytest.raises(errors.Conflict):
                await one.tokens.rotate(one.admin, gone.id)
        with pytest.raises(errors.NotFound):
            await one.tokens.rotate(one.admin, "none")
        with pytest.raises(errors.Forbidden):
            await one.tokens.rotate((await one.identity.authenticate(last.token or "")).principal, last.id)

    opened(tmp_path, test)


def test_a_token_counts_no_longer_though_whoever_revoked_it_has_left(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        made = await one.tokens.create(one.admin, "me")
        assert await one.counts(made.token)
        run = one.database.run

        async def run_and_leave(query: Any) -> None:
            await run(query)
            raise asyncio.CancelledError

        with patch.object(one.database, "run", run_and_leave), pytest.raises(asyncio.CancelledError):
            await one.tokens.revoke(one.admin, made.id)
        assert not await one.counts(made.token)

    opened(tmp_path, test)


def test_an_overlap_lengthens_no_life(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        old = await one.tokens.create(one.admin, "me", ttl_seconds=60)
        await one.tokens.rotate(one.admin, old.id, overlap_seconds=3_600)
        one.clock.advance(61)
        assert not await one.counts(old.token)

    opened(tmp_path, test)


def test_a_last_use_costs_no_write_until_it_is_flushed(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        made = await one.tokens.create(one.admin, "me")
        statements: list[str] = []
        event.listen(one.database._engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
        for _ in range(5):
            one.clock.advance(1)
            assert await one.counts(made.token)
        assert sum(each.startswith("UPDATE") for each in statements) == 0
        used = {each.id: each.last_used_at for each in (await one.tokens.list(one.admin)).items}
        assert used[made.id] == rfc3339(one.clock.now())
        assert sum(each.startswith("UPDATE") for each in statements) == 1

    opened(tmp_path, test)


def test_what_cannot_be_written_now_is_written_later(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        made = await one.tokens.create(one.admin, "me")
        await one.counts(made.token)
        run, away = one.database.run, AsyncMock(side_effect=errors.DatabaseUnavailable("away"))
        with patch.object(one.database, "run", away), pytest.raises(errors.DatabaseUnavailable):
            await one.identity.last_use.flush()
        assert one.database.run == run
        used = {each.id: each.last_used_at for each in (await one.tokens.list(one.admin)).items}
        assert used[made.id] == rfc3339(one.clock.now())

    opened(tmp_path, test)


def test_with_no_token_left_that_administers_a_start_makes_one(tmp_path: Path) -> None:
    async def test(one: Opened) -> None:
        (given,) = (await one.tokens.list(one.admin)).items
        await one.tokens.create(one.admin, "admin", scope="run")
        await one.tokens.create(one.admin, "admin", ttl_seconds=60)
        await one.tokens.revoke(one.admin, given.id)
        assert await one.identity.open("", one.clock.now()) is None
        one.clock.advance(61)
        assert await one.identity.open("", one.clock.now()) is not None

    opened(tmp_path, test)


def test_what_the_previous_release_gave_out_still_counts(tmp_path: Path) -> None:
    """A database as revision 0005 left it, with tokens, keys, an attach token and audit records."""
    engine = create_engine(f"sqlite:///{tmp_path}/sandcell.db")
    with engine.begin() as connection:
        schema.migrate(connection, "0005")
        _fill(connection)
    engine.dispose()

    async def test(one: Opened) -> None:
        first, somebody = [await one.identity.authenticate(each) for each in (GIVEN, "somebody's token")]
        assert (first.principal.admin, somebody.principal.admin) == (True, False)
        assert all(each.may("run") for each in (first, somebody))
        assert not await one.counts("revoked token")
        caller, secret = await one.keys.find(OLD_KEY)
        assert (caller.principal.name, secret) == ("somebody", OLD_SECRET)
        digest = hash_token("sandcell_attach_old")
        attached = await one.database.run(lambda c: attach_tokens.find_by_digest(c, digest))
        assert attached is not None
        assert attached.row.session_id == "s"
        assert [each.last_used_at is None for each in (await one.tokens.list(one.admin)).items] == [False, False, True]

    opened(tmp_path, test)


OLD_KEY, OLD_SECRET = "SCAKOLD", "a secret of before"
"""As `AccessKeys` of that release stored one: sealed, with the key of `state/secrets.key`."""


def _fill(connection: Connection) -> None:
    from kernel_gateway.identity.sealing import Sealing

    directory = Path(connection.engine.url.database or "").parent
    (directory / "state").mkdir()
    (directory / "state" / "secrets.key").write_text("ab" * 32 + "\n")
    sealed = Sealing("ab" * 32).seal(OLD_SECRET, OLD_KEY)
    run = connection.exec_driver_sql
    run("INSERT INTO principals (id, name, admin, created) VALUES ('1', 'admin', 1, 1), ('2', 'somebody', 0, 1)")
    tokens = ((GIVEN, "1", None), ("somebody's token", "2", None), ("revoked token", "2", 5))
    for number, (token, owner, revoked) in enumerate(tokens):
        run(
            "INSERT INTO tokens (id, principal_id, name, digest, created, revoked) VALUES (?, ?, '', ?, 1, ?)",
            (str(number), owner, hash_token(token), revoked),
        )
    run(
        "INSERT INTO access_keys (id, principal_id, name, secret, created) VALUES (?, '2', '', ?, 1)",
        (OLD_KEY, sealed),
    )
    run("INSERT INTO workspaces (id, principal_id, created) VALUES ('s', '2', 1)")
    columns = "id, principal_id, workspace_id, name, status, environment, generation, created, last_activity, expires"
    run(
        f"INSERT INTO sessions ({columns}, timeout_seconds, idle_timeout_seconds, labels, executions)"
        " VALUES ('s', '2', 's', 'n', 'READY', 'python', 1, 1, 1, 1, 1, 1, X'7B7D', 0)"
    )
    run(
        "INSERT INTO attach_tokens (id, principal_id, session_id, name, digest, can, created, expires)"
        " VALUES ('a', '2', 's', '', ?, '', 1, 9000000000000000)",
        (hash_token("sandcell_attach_old"),),
    )
    run(
        "INSERT INTO audit (at, kind, event, allowed, reason, target, detail)"
        " VALUES (1, 'api', 'StartSession', 1, '', 'POST /v1/sessions', X'7B7D')"
    )
