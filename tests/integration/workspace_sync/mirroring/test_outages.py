"""The store is away, throttles, breaks off, fills up or refuses us: files wait, the state says why, all arrives later.

Each outage is made in front of both S3 servers. Nothing here measures time: limits are short, deadlines are long.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.doubles.faulty_s3 import Fault, FaultyS3, Refusal, Reset, Slow, Stall, Torn
from workspace_sync import DurableWorkspace, Mirror, TransferLimits
from workspace_sync.errors import NotRestored, StoreUnavailable, WorkspaceSyncError
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120.0
LIMITS = TransferLimits(settle_seconds=0.01, retry_seconds=0.05, retry_max_seconds=0.1, close_seconds=2.0)
PAGE = Refusal(502, "", body=b"<html>bad gateway</html>")
Opener = Callable[..., S3Store]


class Place:
    """A workspace in the store, and directories mirrored to it."""

    def __init__(self, store: S3Store, executor: ThreadPoolExecutor, top: Path) -> None:
        self.store = store
        self.executor = executor
        self.top = top
        self.prefix = f"workspaces/sessions/{uuid.uuid4()}"
        self.live = self.directory()

    def directory(self) -> Path:
        path = self.top / uuid.uuid4().hex
        path.mkdir()
        return path

    @asynccontextmanager
    async def mirror(self, directory: Path, limits: TransferLimits = LIMITS) -> AsyncIterator[Mirror]:
        mirror = Mirror(str(directory), self.store, self.prefix, limits=limits, executor=self.executor)
        try:
            yield mirror
        finally:
            await mirror.aclose()

    async def durable(self) -> dict[str, bytes]:
        """What a session that starts now finds."""
        directory = self.directory()
        async with self.mirror(directory) as mirror:
            await mirror.restore()
        return content(directory)


@pytest.fixture
def place(faulty: FaultyS3, open_s3: Opener, executor: ThreadPoolExecutor, tmp_path: Path) -> Place:
    return Place(open_s3(faulty.endpoint), executor, tmp_path)


def content(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


OUTAGES: dict[str, tuple[Fault, str]] = {
    "errors": (Refusal(500, "InternalError"), "cannot serve now"),
    "throttling": (Refusal(503, "SlowDown"), "cannot serve now"),
    "gateway": (PAGE, "cannot serve now"),
    "page": (Refusal(200, "", body=b"<html>log in</html>"), "does not speak S3"),
    "reset": (Reset(), "broke off"),
    "reset-when-done": (Reset(after=True), "broke off"),
    "stall": (Stall(), "takes too long"),
    "expired": (Refusal(400, "ExpiredToken"), "Renew them"),
    "bucket-gone": (Refusal(404, "NoSuchBucket"), "no such bucket"),
    "no-space": (Refusal(507, "InsufficientStorage"), "Free space"),
    "quota": (Refusal(403, "QuotaExceeded"), "Free space"),
    "clock": (Refusal(403, "RequestTimeTooSkewed"), "clock"),
    "damaged": (Refusal(400, "BadDigest"), "sent again"),
    "forbidden": (Refusal(403, "AccessDenied"), "do not allow s3:"),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_what_changes_in_an_outage_waits_and_arrives_whole_after_it(
    outage: str, faulty: FaultyS3, place: Place
) -> None:
    fault, said = OUTAGES[outage]
    (place.live / "before").write_bytes(b"1")
    (place.live / "changed").write_bytes(b"old")
    (place.live / "removed").write_bytes(b"2")

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
            faulty.fail(fault)
            (place.live / "changed").write_bytes(b"new and longer")
            (place.live / "during").write_bytes(b"3" * 100_000)
            (place.live / "removed").unlink()
            mirror.request_flush()
            await until(lambda: mirror.state.error)
            assert mirror.state.pending
            assert said in str(mirror.state.error)
            assert place.store.description in str(mirror.state.error)
            faulty.heal()
            await mirror.flush(DEADLINE_SECONDS)
            assert (mirror.state.pending, mirror.state.error) == (False, None)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


def test_a_long_outage_is_tried_again_and_again_and_ends_by_itself(faulty: FaultyS3, place: Place) -> None:
    (place.live / "file").write_bytes(b"1")

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            faulty.fail(Refusal(500, "InternalError"), times=40)
            mirror.request_flush()
            await until(lambda: mirror.state.error)
            assert mirror.state.pending
            await until(lambda: not mirror.state.pending)  # nobody asks again
            assert mirror.state.error is None
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


def test_whichever_request_of_a_flush_fails_it_is_completed(faulty: FaultyS3, place: Place) -> None:
    """Every request in turn is carried out and its answer lost, for as long as the store's own attempts go on."""
    large = os.urandom(1 << 20) * 17

    async def flush(number: int) -> None:
        (place.live / "small").write_bytes(b"%d" % number)
        (place.live / "large").write_bytes(large + b"%d" % number)
        (place.live / f"new-{number}").write_bytes(b"1")
        (place.live / f"new-{number - 1}").unlink(missing_ok=True)
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
        assert await place.durable() == content(place.live)

    faulty.requests.clear()
    asyncio.run(flush(0))
    steps = sorted(set(faulty.operations()))
    assert {"PutObject", "ListObjectsV2", "UploadPart", "CompleteMultipartUpload"} <= set(steps)
    for number, step in enumerate(steps, start=1):
        faulty.fail(Reset(after=True), step, times=4)
        asyncio.run(flush(number))
        faulty.heal()


@pytest.mark.parametrize("fault", [Refusal(501, "NotImplemented"), Refusal(403, "AccessDenied"), Torn(20)])
def test_where_a_server_does_not_copy_a_renamed_file_is_sent(fault: Fault, faulty: FaultyS3, place: Place) -> None:
    (place.live / "before").write_bytes(os.urandom(2 << 20))

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
            (place.live / "before").rename(place.live / "after")
            faulty.requests.clear()
            faulty.fail(fault, "CopyObject")
            report = await mirror.flush(DEADLINE_SECONDS)
        assert "CopyObject" in faulty.operations()
        assert (report.copied, report.sent) == (0, 1)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", [Reset(), Torn(50), Refusal(500, "InternalError"), Refusal(200, "", body=b"<html>")])
def test_a_restore_waits_out_a_short_outage_and_takes_nothing_short(
    fault: Fault, faulty: FaultyS3, place: Place
) -> None:
    for number in range(5):
        (place.live / f"file-{number}").write_bytes(os.urandom(200_000))

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
        faulty.fail(fault, "GetObject", times=1, key=lambda key: key.endswith("file-2"))
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


@pytest.mark.parametrize("outage", ["reset", "expired", "bucket-gone", "forbidden", "page"])
def test_a_restore_that_fails_says_why_and_nothing_is_flushed_over_it(
    outage: str, faulty: FaultyS3, place: Place
) -> None:
    fault, said = OUTAGES[outage]
    (place.live / "kept").write_bytes(b"1")

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
        faulty.fail(fault, "ListObjectsV2")
        directory = place.directory()
        async with place.mirror(directory) as mirror:
            with pytest.raises(WorkspaceSyncError, match=said) as caught:
                await mirror.restore()
            assert caught.value.retryable == isinstance(caught.value, StoreUnavailable)
            with pytest.raises(NotRestored):
                await mirror.flush(DEADLINE_SECONDS)
            faulty.heal()
            await mirror.wait_restored()
        assert content(directory) == content(place.live)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


@pytest.mark.parametrize("outage", ["bucket-gone", "expired", "reset"])
def test_a_store_that_refuses_everything_is_not_asked_for_every_file(
    outage: str, faulty: FaultyS3, place: Place
) -> None:
    for number in range(300):
        (place.live / f"file-{number}").write_bytes(b"1")

    async def scenario() -> None:
        calm = TransferLimits(settle_seconds=0.01, retry_seconds=60, retry_max_seconds=60, close_seconds=2.0)
        async with place.mirror(place.live, calm) as mirror:
            faulty.fail(OUTAGES[outage][0], "PutObject")
            faulty.requests.clear()
            mirror.request_flush()
            await until(lambda: mirror.state.error)
            assert faulty.operations().count("PutObject") < 150
            await until(lambda: mirror.state.retry_at)
            assert mirror.state.pending_files > 100

    asyncio.run(scenario())


def test_one_file_without_room_keeps_no_other_from_the_store(faulty: FaultyS3, place: Place) -> None:
    for name in ("a", "large", "z"):
        (place.live / name).write_bytes(name.encode())

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            faulty.fail(Refusal(507, "InsufficientStorage"), key=lambda key: key.endswith("/large"))
            mirror.request_flush()
            await until(lambda: mirror.state.error)
            assert "Free space" in str(mirror.state.error)
            assert str(mirror.state.error).endswith("left to write: large")
            assert set(await place.durable()) == {"a", "z"}
            faulty.heal()
            await mirror.flush(DEADLINE_SECONDS)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


def test_flushes_that_nobody_waits_for_keep_their_distance(place: Place) -> None:
    async def scenario() -> None:
        async with place.mirror(place.live, TransferLimits(settle_seconds=0.0, between_seconds=3600.0)) as mirror:
            flushed: list[object] = []
            mirror.on_flushed = flushed.append
            for number in range(20):
                (place.live / f"file-{number}").write_bytes(b"1")
                ticket = mirror.request_flush()
                await asyncio.sleep(0.02)
            await until(lambda: flushed)
            assert len(flushed) == 1
            await mirror.wait_flushed(ticket, DEADLINE_SECONDS)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


def test_one_slow_answer_holds_no_other_file_back(faulty: FaultyS3, place: Place) -> None:
    for number in range(20):
        (place.live / f"file-{number}").write_bytes(b"1")

    async def scenario() -> None:
        async with place.mirror(place.live) as mirror:
            faulty.fail(Stall(), "PutObject", key=lambda key: key.endswith("file-0"))
            mirror.request_flush()
            workspace = DurableWorkspace(place.store, place.prefix)
            async with asyncio.timeout(DEADLINE_SECONDS):
                while len(await asyncio.to_thread(workspace.list)) < 19:
                    await asyncio.sleep(0.05)
            faulty.heal()
            await mirror.flush(DEADLINE_SECONDS)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())


def test_slow_answers_are_waited_for(faulty: FaultyS3, place: Place) -> None:
    for number in range(8):
        (place.live / f"file-{number}").write_bytes(os.urandom(50_000))

    async def scenario() -> None:
        faulty.fail(Slow(before_seconds=0.1, pause_seconds=0.05, piece_bytes=20_000))
        async with place.mirror(place.live) as mirror:
            await mirror.flush(DEADLINE_SECONDS)
        assert await place.durable() == content(place.live)

    asyncio.run(scenario())
