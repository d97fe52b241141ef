"""What waits on this host: one thing that the store does not take holds no other back, a store that is away does."""

from __future__ import annotations

import asyncio
import io
import shutil
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.services.background import Background
from kernel_gateway.services.mirroring.mirrors import Mirrors, prefix
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.settings import Settings
from kernels.notebook.transcript import BLOB_DIRECTORY, Blob
from kernels.sandbox import SandboxInfo
from tests.doubles.away_store import AwayStore
from tests.integration.kernel_gateway.services.conftest import House
from workspace_sync import Mirror, open_store
from workspace_sync.errors import (
    PermissionMissing,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    StoreUnusable,
)

NAMES = ["a", "b", "c", "d", "e"]
ONE = [
    StoreRefused("no"),
    PermissionMissing("not that", ("s3:PutObject",)),
    StoreFull("no room"),
    StoreUnavailable("?"),
]
THREADS = 4
WEEK = 7 * 86_400
ALL = [StoreUnavailable("away"), StoreUnusable("no such bucket")]


@dataclass
class Waiting:
    """A service's deliveries, without the service."""

    store: AwayStore
    outputs: KeptOutputs
    spool: Spool
    directory: Path
    mirrors: Mirrors

    def refuse(self, error: StoreError, *names: str) -> list[str]:
        """Let the store refuse what belongs to these; gives the list of what it is asked for from here on."""
        asked: list[str] = []

        def before(key: str) -> None:
            owner = key.split("/")[2]
            asked.append(owner)
            if owner in names:
                raise error

        self.store.before_put = before
        return asked

    def keys(self) -> set[str]:
        return {each.key for each in self.store.list("workspaces/")}

    async def keep_outputs(self) -> None:
        place = self.directory / "outputs"
        for name in NAMES:
            (place / name).mkdir(parents=True)
            for blob in (Blob("blobs/1.txt", b"one"), Blob("blobs/2.txt", b"two")):
                (place / name / blob.name.rpartition("/")[2]).write_bytes(blob.data)

    async def keep_workspaces(self) -> None:
        for name in NAMES:
            live = self.directory / "live" / name
            live.mkdir(parents=True)
            (live / "file").write_text(name)
            spooled = open_store(f"file://{self.directory / 'spool' / name}")
            mirror = Mirror(str(live), spooled, prefix(name), executor=self.mirrors.executor)
            try:
                await mirror.flush(90)
            finally:
                await mirror.aclose()

    def outputs_left(self) -> list[str]:
        return sorted(each.name for each in (self.directory / "outputs").iterdir())


Scenario = Callable[[Waiting], Awaitable[None]]


@pytest.fixture
def on_waiting(tmp_path: Path) -> Callable[[Scenario], None]:
    async def run(scenario: Scenario) -> None:
        settings = Settings(data_dir=str(tmp_path), disk_reserve_bytes=0)
        store = AwayStore(open_store(f"file://{tmp_path / 'store'}"))
        mirrors = Mirrors(store, THREADS, cast("Callable[[str, bytes], Awaitable[int]]", None))
        background = Background()
        outputs = KeptOutputs(settings, mirrors, background, Redaction(Patterns.of_lines("")))
        try:
            await scenario(
                Waiting(store, outputs, Spool(settings.state_path / "spool", mirrors), settings.state_path, mirrors)
            )
        finally:
            await background.aclose()
            mirrors.close()

    return lambda scenario: asyncio.run(run(scenario))


@pytest.mark.parametrize("error", ONE, ids=lambda error: type(error).__name__)
def test_outputs_of_one_session_hold_no_others_back(error: StoreError, on_waiting: Callable[[Scenario], None]) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_outputs()
        waiting.refuse(error, "b")
        await waiting.outputs.deliver_all()
        assert waiting.outputs_left() == ["b"]
        waiting.refuse(error)
        await waiting.outputs.deliver_all()
        assert waiting.outputs_left() == []
        assert waiting.keys() == {
            f"{prefix(name)}/{BLOB_DIRECTORY}/{file}" for name in NAMES for file in ("1.txt", "2.txt")
        }

    on_waiting(scenario)


def test_one_output_that_is_refused_holds_no_other_of_its_session_back(
    on_waiting: Callable[[Scenario], None],
) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_outputs()

        def before(key: str) -> None:
            if key.endswith("1.txt"):
                raise StoreRefused("not this one")

        waiting.store.before_put = before
        with pytest.raises(StoreRefused, match="not this one"):
            await waiting.outputs.deliver("a")
        assert waiting.keys() == {f"{prefix('a')}/{BLOB_DIRECTORY}/2.txt"}

    on_waiting(scenario)


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_a_store_that_is_away_is_not_asked_for_everything(
    error: StoreError, on_waiting: Callable[[Scenario], None]
) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_outputs()
        asked = waiting.refuse(error, *NAMES)
        await waiting.outputs.deliver_all()
        assert set(asked) == {"a", "b"}
        assert waiting.outputs_left() == NAMES

    on_waiting(scenario)


@pytest.mark.parametrize("error", ONE, ids=lambda error: type(error).__name__)
def test_one_workspace_that_cannot_be_delivered_holds_no_others_back(
    error: StoreError, on_waiting: Callable[[Scenario], None]
) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_workspaces()
        waiting.refuse(error, "b")
        await waiting.spool.deliver_all(lambda _: False)
        assert waiting.spool.waiting() == ["b"]
        waiting.refuse(error)
        await waiting.spool.deliver_all(lambda _: False)
        assert waiting.spool.waiting() == []
        for name in NAMES:
            assert b"".join(waiting.mirrors.durable(name).open("file")[1]).decode() == name

    on_waiting(scenario)


def test_workspaces_that_live_sessions_hold_are_left_to_them(on_waiting: Callable[[Scenario], None]) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_workspaces()
        await waiting.spool.deliver_all(lambda name: name in "bd")
        assert waiting.spool.waiting() == ["b", "d"]

    on_waiting(scenario)


def test_a_store_that_is_away_keeps_every_workspace_waiting(on_waiting: Callable[[Scenario], None]) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_workspaces()
        waiting.store.away = True
        await waiting.spool.deliver_all(lambda _: False)
        assert waiting.spool.waiting() == NAMES
        waiting.store.away = False
        await waiting.spool.deliver_all(lambda _: False)
        assert waiting.spool.waiting() == []

    on_waiting(scenario)


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        (["."], {"file": "a", "other": "stored"}),
        (["manifest.json"], {"file": "newer", "more": "newer", "other": "stored"}),
        (["workspace/more"], {"file": "newer", "other": "stored"}),
        (["workspace"], {"file": "a", "other": "stored"}),
        ([], {"file": "newer", "more": "newer"}),
    ],
    ids=["all", "manifest", "one file", "every file", "nothing"],
)
def test_what_the_disk_of_the_spool_has_lost_is_not_removed_from_the_store(
    on_waiting: Callable[[Scenario], None], lost: list[str], left: dict[str, str]
) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.keep_workspaces()
        await waiting.spool.deliver("a")
        for each in ("file", "more"):
            (waiting.directory / "live" / "a" / each).write_text("newer")
        await waiting.spool.take(SandboxInfo("a", str(waiting.directory / "live" / "a")), "a")
        waiting.mirrors.durable("a").put("other", io.BytesIO(b"stored"), 6)  # which the copy says is removed
        for each in lost:
            lose(waiting.directory / "spool" / "a" / ("." if each == "." else f"{prefix('a')}/{each}"))
        assert await waiting.spool.deliver("a")
        durable = waiting.mirrors.durable("a")
        assert {each.path: b"".join(durable.open(each.path)[1]).decode() for each in durable.list()} == left

    on_waiting(scenario)


def lose(place: Path) -> None:
    """Its name stays when it is the copy itself."""
    if place.name == "a":
        for each in place.iterdir():
            lose(each)
    elif place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


def test_the_spool_takes_a_workspace_while_a_store_that_stalls_holds_every_transfer(
    on_waiting: Callable[[Scenario], None],
) -> None:
    async def scenario(waiting: Waiting) -> None:
        stalled, go_on = threading.Semaphore(0), threading.Event()

        def stall(_: str) -> None:
            stalled.release()
            go_on.wait(240)

        waiting.store.before_put = stall
        mirrors = []
        for name in NAMES:
            live = waiting.directory / "live" / name
            live.mkdir(parents=True)
            (live / "file").write_text(name)
            mirrors.append(waiting.mirrors.mirror(SandboxInfo(name, str(live)), name))
            mirrors[-1].request_flush()
        try:
            for _ in range(THREADS):
                assert await asyncio.to_thread(stalled.acquire, timeout=120)
            async with asyncio.timeout(120):
                await waiting.spool.take(SandboxInfo("a", str(waiting.directory / "live" / "a")), "a")
            assert waiting.spool.waiting() == ["a"]
        finally:
            go_on.set()
            for mirror in mirrors:
                await mirror.aclose()

    on_waiting(scenario)


def test_no_sweep_waits_for_a_store_that_stalls(house: House) -> None:
    async def test() -> None:
        stalled, go_on = threading.Event(), threading.Event()

        def stall(key: str) -> None:
            if BLOB_DIRECTORY in key:
                stalled.set()
                go_on.wait(120)

        async with house.gateway() as gateway:
            session = await gateway.start(timeout_seconds=WEEK, idle_timeout_seconds=WEEK)
            live = gateway.services.registry.get(session.id)
            assert live is not None
            gateway.store.before_put = stall
            waits = house.settings.state_path / "outputs" / "earlier"
            waits.mkdir(parents=True)
            (waits / "1.txt").write_text("one")
            try:
                gateway.clock.advance(house.settings.sweep_interval_seconds)
                assert await asyncio.to_thread(stalled.wait, 90)
                gateway.clock.advance(1)
                await gateway.run(session, "1")

                async def swept_again() -> bool:
                    gateway.clock.advance(house.settings.sweep_interval_seconds / 10)
                    return live.stored_activity == live.last_activity

                await gateway.until(swept_again)
            finally:
                go_on.set()

    asyncio.run(test())
