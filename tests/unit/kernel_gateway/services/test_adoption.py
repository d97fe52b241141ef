"""A takeover of sandboxes that are reached from here too: what the sweep and passing errors do meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_gateway.services import adoption
from kernel_gateway.services.adoption import TAKE_PAUSES, Adoption
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.reconciler import Reconciler
from kernel_gateway.settings import Settings
from kernels.errors import SandboxFailed, SandboxGone
from kernels.sandbox import SandboxInfo

Rows = list[SimpleNamespace]


class Pods:
    """A runtime whose pods are this gateway's once they are reopened. `faults` are raised, one at each question."""

    def __init__(self, *pods: str) -> None:
        self.pods = set(pods)
        self.ours: set[str] = set()
        self.asked: set[str] = set()
        self.faults: dict[str, list[Exception]] = {}
        self.before_list: Callable[[], Awaitable[None]] | None = None

    async def running(self, sandbox_id: str) -> bool:
        self.asked.add(sandbox_id)
        self._fail(sandbox_id)
        return sandbox_id in self.pods

    async def reopen(self, sandbox_id: str) -> None:
        if sandbox_id not in self.pods:
            raise SandboxGone(sandbox_id)
        self.ours.add(sandbox_id)
        self._fail(sandbox_id)

    async def list(self) -> tuple[SandboxInfo, ...]:
        if self.before_list is not None:
            await self.before_list()
        return self.find()

    def find(self) -> tuple[SandboxInfo, ...]:
        return tuple(SandboxInfo(each, "/w") for each in sorted(self.ours & self.pods))

    async def destroy(self, sandbox_id: str) -> None:
        if sandbox_id in self.ours:
            self.pods.discard(sandbox_id)

    def _fail(self, sandbox_id: str) -> None:
        if self.faults.get(sandbox_id):
            raise self.faults[sandbox_id].pop(0)


class Database:
    """Sessions, each named as its sandbox is at first."""

    def __init__(self, *names: str) -> None:
        self.rows = [SimpleNamespace(id=each, sandbox_id=each, status="READY") for each in names]

    async def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self)


class Stage:
    """An adoption and a sweep on pods; `adopted` is what the sessions that were taken up had of them."""

    def __init__(self, pods: Pods, monkeypatch: pytest.MonkeyPatch, *sessions: str) -> None:
        self.adopted: set[str] = set()
        self.registered: list[Any] = []
        database = Database(*sessions)
        settings = Settings(data_dir="/x", gateway_lease_seconds=0.01)
        shared = {"settings": settings, "clock": SystemClock(), "database": database, "runtime": pods}
        self.adoption: Adoption = _make(Adoption, **shared)
        self._reconciler: Reconciler = _make(Reconciler, adoption=self.adoption, registry=self.registered, **shared)
        self._pods = pods
        monkeypatch.setattr(adoption.sessions, "list_some", lambda connection, _: connection.rows)
        monkeypatch.setattr(adoption, "_load_taken", lambda connection, *_: (connection.rows, {}))
        monkeypatch.setattr(self.adoption, "_adopt_all", self._adopt_all)

    async def sweep(self) -> None:
        await self._reconciler._remove_orphans(self._pods.find())

    async def _adopt_all(self, rows: Rows, _: object, infos: Mapping[str, SandboxInfo], **__: object) -> None:
        self.adopted |= set(infos)
        for row in rows:
            if row.sandbox_id in infos:
                self.registered.append(SimpleNamespace(sandbox=SimpleNamespace(id=row.sandbox_id)))
        await self.sweep()


def _make(kind: type[Any], **given: object) -> Any:
    """All that is not given is a set that holds nothing."""
    return kind(**{name: given.get(name, ()) for name in inspect.signature(kind).parameters})


def test_a_sweep_amid_a_takeover_leaves_what_is_being_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        stage = Stage(pods, monkeypatch, "a", "b")
        pods.before_list = stage.sweep
        await stage.adoption.take_over(["a", "b"])
        assert (pods.pods, stage.adopted) == ({"a", "b"}, {"a", "b"})
        assert not stage.adoption.taking
        stage.registered.clear()
        await stage.sweep()
        assert pods.pods == set(), "afterwards nothing protects what no session owns"

    asyncio.run(run())


@pytest.mark.parametrize("faults", [1, len(TAKE_PAUSES)])
def test_a_passing_error_costs_no_sandbox(monkeypatch: pytest.MonkeyPatch, faults: int) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        pods.faults["a"] = [OSError(104, "reset"), *[SandboxFailed("no answer")] * (faults - 1)]
        stage = Stage(pods, monkeypatch, "a", "b")
        await stage.adoption.take_over(["a", "b"])
        assert (pods.pods, stage.adopted) == ({"a", "b"}, {"a", "b"})

    asyncio.run(run())


def test_what_cannot_be_taken_goes_with_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        pods.faults["a"] = [SandboxFailed("no answer")] * (len(TAKE_PAUSES) + 1)
        stage = Stage(pods, monkeypatch, "a", "b", "gone")
        await stage.adoption.take_over(["a", "b", "gone"])
        assert (pods.pods, stage.adopted) == ({"a", "b"}, {"b"})
        await stage.sweep()
        assert pods.pods == {"b"}

    asyncio.run(run())


def test_a_takeover_that_fails_leaves_nothing_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise SandboxFailed("no list")

    async def run() -> None:
        pods = Pods("a")
        pods.before_list = fail
        stage = Stage(pods, monkeypatch, "a")
        with pytest.raises(SandboxFailed):
            await stage.adoption.take_over(["a"])
        assert not stage.adoption.taking

    asyncio.run(run())


@pytest.mark.parametrize("several", [True, False])
def test_a_start_takes_the_pods_of_a_takeover_that_the_last_process_did_not_finish(
    monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    async def run() -> None:
        pods = Pods("ours", "of-the-other")
        pods.ours.add("ours")
        stage = Stage(pods, monkeypatch, "ours", "of-the-other", "gone", "asleep")
        stage.adoption._database.rows[-1].status = "HIBERNATED"  # type: ignore[attr-defined]
        monkeypatch.setattr(adoption, "_load", lambda connection: (connection.rows, {}))
        monkeypatch.setattr(adoption.sessions, "list_some", lambda c, ids: [each for each in c.rows if each.id in ids])
        stage.adoption._database.lease = object() if several else None  # type: ignore[misc,assignment]
        found = {info.sandbox_id for info in await stage.adoption.run()}
        assert found == stage.adopted == ({"ours", "of-the-other"} if several else {"ours"})
        assert pods.asked == ({"of-the-other", "gone"} if several else set())
        assert not stage.adoption.taking

    asyncio.run(run())
