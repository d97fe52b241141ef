"""The service verifies its own audit log in slices, while records are written and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernel_gateway.errors import Forbidden, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.audit import self_check
from kernel_gateway.services.audit.self_check import AuditSelfCheck
from kernel_gateway.services.background import Background
from kernel_gateway.storage import audit_chain as stored
from sandcell.models.audit import AuditVerification
from tests.unit.kernel_gateway.services.audit.test_chain import ADMIN, Log

DEADLINE_SECONDS = 120


class Checked(Log):
    """An audit log and its verification; `between` is called before each slice but the first."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.background = Background()
        self.check = AuditSelfCheck(self.database, self.clock, self.audit, self.background)

    async def verified(self) -> AuditVerification:
        async with asyncio.timeout(DEADLINE_SECONDS):
            begun = await self.check.begin(ADMIN)
            while begun.state == "running":
                await asyncio.sleep(0.01)
        assert begun.ended_at is not None
        return begun


def on(directory: Path, test: Callable[[Checked], Awaitable[None]]) -> None:
    async def whole() -> None:
        log = Checked(directory)
        await log.open()
        try:
            await test(log)
        finally:
            await log.background.aclose()
            await log.close()

    asyncio.run(whole())


def interrupt_slices(monkeypatch: pytest.MonkeyPatch, between: Callable[[int], Awaitable[None]]) -> None:
    """Slices of four records, and something that happens behind each."""
    monkeypatch.setattr(self_check, "MOST_AT_ONCE", 4)
    slept, count = asyncio.sleep, 0

    async def sleep(_seconds: float) -> None:
        nonlocal count
        count += 1
        await between(count)
        await slept(0)

    monkeypatch.setattr(self_check.asyncio, "sleep", sleep)


def test_a_log_as_it_was_written_is_whole_and_said_to_be(tmp_path: Path) -> None:
    async def test(log: Checked) -> None:
        with pytest.raises(NotFound):
            await log.check.get(ADMIN)
        await log.write(*map(str, range(450)))
        found = await log.verified()
        assert (found.state, found.records, found.first, found.last) == ("whole", 450, 1, 450)
        assert (found.newest, found.public_key) == (450, log.key.text)
        assert await log.check.get(ADMIN) is found
        for refused in (log.check.begin, log.check.get):
            with pytest.raises(Forbidden):
                await refused(Principal("2", "me", admin=False))

    on(tmp_path, test)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE audit SET target = 'other' WHERE number = 7", "its columns were changed"),
        ("UPDATE audit SET target = 'other' WHERE number = 4", "its columns were changed"),  # the last of a slice
        ("DELETE FROM audit WHERE number = 9", "record 9 is missing"),
        ("DELETE FROM audit WHERE number > 12", "are missing at the end"),
        ("UPDATE audit_chain SET signature = x'00' WHERE name = 'head'", "head is not signed"),
        ("DELETE FROM audit_chain WHERE name = 'floor'", "floor is gone"),
    ],
)
def test_what_was_tampered_with_is_named_as_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    async def nothing(_slice: int) -> None: ...

    interrupt_slices(monkeypatch, nothing)

    async def test(log: Checked) -> None:
        await log.write(*map(str, range(20)))
        await log.sql(statement)
        begun = await log.check.begin(ADMIN)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while begun.state == "running":
                await asyncio.to_thread(lambda: None)
        assert begun.state == "broken"
        assert said in begun.problems[0].text
        assert [each.text for each in begun.problems] == [each.text for each in log.verify().problems]

    on(tmp_path, test)


def test_what_is_written_and_removed_meanwhile_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(log: Checked) -> None:
        await log.write(*map(str, range(20)))

        async def between(count: int) -> None:
            if count == 1:
                await log.write("new")
                await log.database.run(
                    lambda c: log.audit._chain.prune(c, now=log.clock.now(), before=0, keep=6, at_once=99)
                )
            if count == 2:
                await log.write("newer")

        interrupt_slices(monkeypatch, between)
        begun = await log.check.begin(ADMIN)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while begun.state == "running":
                await asyncio.to_thread(lambda: None)
        with_floor = await log.database.run(lambda c: stored.find_statement(c, stored.FLOOR))
        assert with_floor is not None
        assert (begun.state, begun.problems, begun.last) == ("whole", [], 22)
        assert begun.records == 4 + 7

    on(tmp_path, test)
