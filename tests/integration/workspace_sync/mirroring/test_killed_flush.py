"""A flush is killed before, within and after each call of the store that it makes; what a reader then finds.

The steps are not listed: the first is killed, then the second, until a flush comes to its end. Whatever the step, every
object is whole, the manifest names one of both states and what differs from it shows by ETag, nothing of the state that
was acknowledged is lost, and a new mirror over the directory makes all of it whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from tests.doubles.faulty_s3 import Fault, FaultyS3, Request
from tests.doubles.forked import Forked
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.workspace_sync.killed_flush import AFTER, BEFORE, LIMITS, RENAMED, Tree, plant
from workspace_sync import AsOf, Mirror, ObjectStore
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120.0
STATES = {1: BEFORE, 2: AFTER}


class KillingS3(FaultyS3):
    """In front of an S3 server: once that has carried out one of the requests that count, their sender is killed."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.killed_at: set[str] = set()
        self._known = threading.Event()
        self.expect(0, Path())
        self.done = self._done

    def expect(self, step: int, armed: Path) -> None:
        """Requests count from when the file `armed` is there."""
        self._left, self._armed, self._victim, self._last = step, armed, 0, None
        self._known.clear()

    def name(self, victim: int) -> None:
        """Whom to kill."""
        self._victim = victim
        self._known.set()

    def fault_of(self, request: Request) -> Fault | None:
        if self._armed.is_file():
            with self.guard:
                self._left -= 1
                if not self._left:
                    self._last = request
        return None

    def _done(self, request: Request) -> None:
        if self._last is request:
            assert self._known.wait(DEADLINE_SECONDS)
            self.killed_at.add(request.operation)
            os.kill(self._victim, signal.SIGKILL)


@dataclass
class Stage:
    """A store, and the process in which the flushes that are killed run."""

    kind: str
    store: ObjectStore
    address: str
    top: Path
    process: Forked
    proxy: KillingS3 | None = None
    runs: int = 0
    prefix: str = ""
    directory: Path = field(default_factory=Path)

    def flush(self, step: int, moment: str) -> bool:
        """Flush both states of a fresh directory into a fresh prefix; whether that came to its end."""
        self.runs += 1
        self.prefix = f"workspaces/sessions/{self.kind}-{self.runs}"
        self.directory = self.top / f"live-{self.runs}"
        self.directory.mkdir()
        armed = self.top / f"armed-{self.runs}"
        if self.proxy is not None:
            self.proxy.expect(step, armed)
        order = {
            "store": self.address,
            "prefix": self.prefix,
            "directory": str(self.directory),
            "armed": str(armed),
            "step": step,
            "moment": moment,
        }
        return self.process.carry_out(order, (lambda _: None) if self.proxy is None else self.proxy.name)

    def objects(self) -> dict[str, tuple[str, bytes]]:
        """What is there: ETag and content of each file's object, by path."""
        prefix = f"{self.prefix}/workspace/"
        return {each.key.removeprefix(prefix): (each.etag, self._read(each.key)) for each in self.store.list(prefix)}

    def manifest(self) -> tuple[int, dict[str, dict[str, str]]]:
        """The number of the execution that the manifest is as of, and its rows by path."""
        document = msgspec.json.decode(self._read(f"{self.prefix}/manifest.json"))
        return document["execution"]["number"], {row["path"]: row for row in document["entries"]}

    async def mirror_again(self, number: int) -> None:
        """As a service does that starts again: a mirror over the directory as it is."""
        with ThreadPoolExecutor(4) as pool:
            mirror = Mirror(str(self.directory), self.store, self.prefix, limits=LIMITS, executor=pool)
            try:
                await mirror.wait_flushed(mirror.request_flush(AsOf("again", number)), DEADLINE_SECONDS)
            finally:
                await mirror.aclose()

    async def restored(self) -> dict[str, bytes]:
        """The files that a session on another host begins with."""
        directory = self.top / f"restored-{self.runs}"
        directory.mkdir()
        with ThreadPoolExecutor(4) as pool:
            mirror = Mirror(str(directory), self.store, self.prefix, limits=LIMITS, executor=pool)
            try:
                await mirror.restore()
            finally:
                await mirror.aclose()
        found = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(directory)): path.read_bytes() for path in found}

    def _read(self, key: str) -> bytes:
        with self.store.get(key) as stream:
            return stream.read()


@pytest.fixture(scope="module")
def process() -> Iterator[Forked]:
    forked = Forked("tests.integration.workspace_sync.killed_flush")
    yield forked
    forked.close()


@pytest.fixture
def local(tmp_path: Path, process: Forked) -> Stage:
    address = str(tmp_path / "store")
    return Stage("local", LocalStore(address), address, tmp_path, process)


@pytest.fixture
def s3(tmp_path: Path, moto_endpoint: str, process: Forked) -> Iterator[Stage]:
    store = S3Store(BUCKET, endpoint_url=moto_endpoint, access_key=ACCESS_KEY)
    with KillingS3(moto_endpoint) as proxy:
        yield Stage("s3", store, proxy.endpoint, tmp_path, process, proxy)
    store.close()


def files(tree: Tree) -> dict[str, bytes]:
    return {path: content for path, content in tree.items() if isinstance(content, bytes)}


def check_what_a_reader_sees(stage: Stage) -> int:
    """Every object is whole, and what the manifest does not name as it is shows; returns which state it names."""
    objects = stage.objects()
    number, rows = stage.manifest()
    assert {path for path, row in rows.items() if row["kind"] != "directory"} == {
        path for path, content in STATES[number].items() if content is not None
    }
    assert {path: row["target"] for path, row in rows.items() if row["kind"] == "link"} == {
        path: target for path, target in STATES[number].items() if isinstance(target, str)
    }
    for path, (_, content) in objects.items():
        assert content in [files(tree)[path] for tree in STATES.values() if path in files(tree)], path
    for path, content in files(STATES[number]).items():
        assert rows[path]["sha256"] == hashlib.sha256(content).hexdigest()
        if path in objects:
            assert "etag" not in rows[path] or (objects[path][0] == rows[path]["etag"]) == (
                objects[path][1] == content
            ), path
    if number == 2:
        assert {path: content for path, (_, content) in objects.items()} == files(AFTER)
    return number


def check_that_nothing_acknowledged_is_lost(found: dict[str, bytes]) -> None:
    """What the first flush had stored, and the code has not removed since, is there in one state or the other."""
    for path, content in files(BEFORE).items():
        if path in RENAMED:
            assert content in (found.get(path), found.get(RENAMED[path])), path
        elif path in files(AFTER):
            assert found[path] in (content, files(AFTER)[path]), path


def check_that_it_is_whole(stage: Stage, tree: Tree, *, unnamed: Tree | None = None) -> None:
    """The store has that state and says so; `unnamed` is what may be there beside it, named by no manifest."""
    number, rows = stage.manifest()
    objects = stage.objects()
    assert (number, set(rows)) == (3, set(tree))
    named = {path: content for path, (_, content) in objects.items() if path in rows}
    beside = {path: content for path, (_, content) in objects.items() if path not in rows}
    assert named == files(tree)
    assert beside.items() <= files(unnamed or {}).items()
    assert {path: rows[path]["etag"] for path in named} == {path: objects[path][0] for path in named}


def killed_at_every_step(stage: Stage, moment: str, then: Callable[[], None]) -> int:
    """How many steps a flush was killed at, one after another."""
    step = 1
    while not stage.flush(step, moment):
        check_what_a_reader_sees(stage)
        check_that_nothing_acknowledged_is_lost({path: content for path, (_, content) in stage.objects().items()})
        then()
        step += 1
    assert check_what_a_reader_sees(stage) == 2
    return step - 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_at_each_step_with_a_local_store(local: Stage, moment: str) -> None:
    def then() -> None:
        check_that_nothing_acknowledged_is_lost(asyncio.run(local.restored()))
        asyncio.run(local.mirror_again(3))
        check_that_it_is_whole(local, AFTER)

    assert killed_at_every_step(local, moment, then) > 5


@pytest.mark.sample("kills")
def test_at_each_request_to_s3(s3: Stage) -> None:
    """After each: what the store has before a request it has after the one before."""

    def then() -> None:
        asyncio.run(s3.mirror_again(3))
        check_that_it_is_whole(s3, AFTER)

    assert killed_at_every_step(s3, "after", then) > 8
    assert s3.proxy is not None
    assert s3.proxy.killed_at > {"UploadPart", "CompleteMultipartUpload", "CopyObject", "PutObject", "DeleteObjects"}


def test_code_that_goes_back_to_what_was_before_is_stored_as_that(local: Stage) -> None:
    """The store may have newer bytes of the same size than the manifest says, and the directory the older ones.

    What was added in between, and no manifest named, might as well be another client's: it stays.
    """

    def then() -> None:
        plant(local.directory, BEFORE)
        asyncio.run(local.mirror_again(3))
        check_that_it_is_whole(local, BEFORE, unnamed=AFTER)

    assert killed_at_every_step(local, "after", then) > 5
