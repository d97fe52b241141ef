"""A takeover of sandboxes that are reached from here too: what the sweep and passing errors do meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_gateway.services import adoption
from kernel_gateway.services.adoption import TAKE_PAUSES, Adoption
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.reconciler import Reconciler
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import Record, SessionRow
from kernels.errors import SandboxFailed, SandboxGone
from kernels.sandbox import SandboxInfo


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
    """Sessions of a gateway, each named as its sandbox and its workspace are at first."""

    def __init__(self, *names: str) -> None:
        self.lease: object | None = object()
        self.rows = [
            SessionRow(each, "p", each, each, "python", 1, 0, 0, 9, 9, 9, None, {}, record=Record()) for each in names
        ]

    async def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    def require_lease(self) -> None:
        """It has it."""


class Stage:
    """An adoption and a sweep on pods; `adopted` is what the sessions that were taken up had of them."""

    def __init__(self, pods: Pods, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.adopted: set[str] = set()
        self.registered: list[Any] = []
        self.database = Database(*names)
        self.background = Background()
        self.failures: list[str] = []
        settings = Settings(data_dir="/x", gateway_lease_seconds=0.01)
        shared = {"settings": settings, "clock": SystemClock(), "database": self.database, "runtime": pods}
        shared |= {"background": self.background, "builder": SimpleNamespace(build=self._build)}
        let_go = partial(self.failures.append, "let go")
        self.adoption: Adoption = _make(Adoption, let_go=let_go, **shared)
        self._reconciler: Reconciler = _make(Reconciler, adoption=self.adoption, registry=self.registered, **shared)
        self._pods = pods
        rows = self.database.rows
        monkeypatch.setattr(adoption, "_load", lambda _: (rows, {}))
        monkeypatch.setattr(adoption, "_load_taken", lambda _, ids: ([row for row in rows if row.id in ids], {}))
        monkeypatch.setattr(adoption.sessions, "set_record", lambda *_: None)
        monkeypatch.setattr(adoption.sessions, "list_sandboxes", lambda *_: set())
        monkeypatch.setattr(self.adoption, "_adopt", self._adopt)

    async def take_over(self, *names: str) -> None:
        await self.adoption.take_over(names)
        for each in names:
            await self.adoption.wait_arrived(each)

    async def sweep(self) -> None:
        await self._reconciler._remove_orphans(self._pods.find())

    def _build(self, row: SessionRow) -> Any:
        live = SimpleNamespace(id=row.id, sandbox=SimpleNamespace(id=row.sandbox_id))
        self.registered.append(live)
        return live

    async def _adopt(self, _live: object, info: SandboxInfo | None, _gone: object) -> None:
        self.adopted |= {info.sandbox_id} if info is not None else set()
        await self.sweep()


def _make(kind: type[Any], **given: object) -> Any:
    """All that is not given is a set that holds nothing."""
    return kind(**{name: given.get(name, ()) for name in inspect.signature(kind).parameters})


def test_a_sweep_amid_a_takeover_leaves_what_is_being_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        stage = Stage(pods, monkeypatch, "a", "b")
        pods.before_list = stage.sweep
        await stage.take_over("a", "b")
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
        await stage.take_over("a", "b")
        assert (pods.pods, stage.adopted) == ({"a", "b"}, {"a", "b"})

    asyncio.run(run())


def test_what_cannot_be_taken_goes_with_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        pods.faults["a"] = [SandboxFailed("no answer")] * (len(TAKE_PAUSES) + 1)
        stage = Stage(pods, monkeypatch, "a", "b", "gone")
        await stage.take_over("a", "b", "gone")
        assert stage.adopted == {"b"}
        await stage.sweep()
        assert pods.pods == {"b"}

    asyncio.run(run())


@pytest.mark.parametrize("verb", ["running", "reopen"])
def test_more_that_hang_than_have_places_hold_up_no_other(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    hung = [f"hung-{number}" for number in range(2 * Settings(data_dir="/x").starts_at_once)]
    monkeypatch.setattr(adoption, "ATTEMPT_SECONDS", (0.5, 60.0))  # enough at first, on a busy machine too
    monkeypatch.setattr(adoption, "START_SECONDS", 0.0)

    async def run(*, at_start: bool) -> None:
        pods, let_answer = Pods(*hung, "well"), asyncio.Event()
        answer = getattr(pods, verb)

        async def hang(sandbox_id: str) -> Any:
            if sandbox_id in hung:
                await let_answer.wait()
            return await answer(sandbox_id)

        setattr(pods, verb, hang)
        stage = Stage(pods, monkeypatch, *hung, "well")
        if at_start:
            await stage.adoption.run()
        else:
            await stage.adoption.take_over([*hung, "well"])
        await stage.adoption.wait_arrived("well")
        assert stage.adopted == {"well"}
        assert [each for each in hung if not stage.adoption.is_arriving(each)] == []
        let_answer.set()
        for each in hung:
            await stage.adoption.wait_arrived(each)
        assert stage.adopted == {*hung, "well"}

    asyncio.run(run(at_start=True))
    asyncio.run(run(at_start=False))


def test_one_that_cannot_be_served_here_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise RuntimeError("nobody thought of this")

    async def run() -> None:
        pods = Pods("a")
        pods.before_list = fail
        stage = Stage(pods, monkeypatch, "a")
        await stage.take_over("a")
        assert stage.failures == ["let go"]
        assert not stage.adoption.is_arriving("a")

    asyncio.run(run())


@pytest.mark.parametrize("several", [True, False])
def test_a_start_takes_the_pods_of_a_takeover_that_the_last_process_did_not_finish(
    monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    async def run() -> None:
        pods = Pods("ours", "of-the-other")
        pods.ours.add("ours")
        stage = Stage(pods, monkeypatch, "ours", "of-the-other", "gone", "asleep")
        stage.database.rows[-1] = dataclasses.replace(stage.database.rows[-1], status="HIBERNATED")
        if not several:
            stage.database.lease = None
        assert {info.sandbox_id for info in await stage.adoption.run()} == {"ours"}
        assert stage.adopted == ({"ours", "of-the-other"} if several else {"ours"})
        assert pods.asked == ({"of-the-other", "gone"} if several else set())
        assert {live.id for live in stage.registered} == {"ours", "of-the-other", "gone", "asleep"}
        assert not stage.adoption.taking

    asyncio.run(run())


def test_what_a_session_of_another_gateway_has_is_no_orphan(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pods = Pods("a", "b")
        pods.ours |= pods.pods  # until the other one has made it its own
        stage = Stage(pods, monkeypatch)
        monkeypatch.setattr(adoption.sessions, "list_sandboxes", lambda _, ids: {"a"} & set(ids))
        await stage.sweep()
        assert pods.pods == {"a"}

    asyncio.run(run())
