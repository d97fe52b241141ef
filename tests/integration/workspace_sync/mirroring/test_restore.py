"""A restore that takes its time: what comes first, what an outage costs, what is left out, what is never flushed."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import boto3
import msgspec
import pytest

from tests.doubles.faulty_s3 import FaultyS3, Reset, Stall
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.workspace_sync.mirroring.test_mirror import QUICK, Bench, picture
from workspace_sync import Mirror, TransferLimits
from workspace_sync.errors import FlushIncomplete, MirrorClosed, NotRestored, RestoreIncomplete
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120.0
PATIENT = replace(QUICK, restore_seconds=DEADLINE_SECONDS, concurrency=1)
Scenario = Callable[[Mirror, Path], Awaitable[None]]


@pytest.fixture
def faulty(moto_endpoint: str) -> Iterator[FaultyS3]:
    with FaultyS3(moto_endpoint) as proxy:
        yield proxy


@pytest.fixture
def bench(faulty: FaultyS3, open_s3: Callable[..., S3Store], executor: ThreadPoolExecutor, tmp_path: Path) -> Bench:
    return Bench(open_s3(faulty.endpoint), executor, tmp_path)


def filled(bench: Bench) -> Path:
    """A workspace of three files, the large one first by name, in the store."""
    live = bench.directory()
    (live / "a large one").write_bytes(os.urandom(300_000))
    (live / "d").mkdir()
    (live / "d" / "middling").write_bytes(b"m" * 3_000)
    (live / "small").write_bytes(b"s")
    (live / "small").chmod(0o755)
    (live / "d").chmod(0o500)
    asyncio.run(bench.flush(live))
    return live


def run(bench: Bench, scenario: Scenario, limits: TransferLimits = PATIENT) -> None:
    async def with_mirror() -> None:
        directory = bench.directory()
        mirror = bench.mirror(directory, limits)
        try:
            await scenario(mirror, directory)
        finally:
            await mirror.aclose()

    asyncio.run(with_mirror())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


def fetched(faulty: FaultyS3) -> list[str]:
    names = [each.key.rpartition("/workspace/")[2] for each in faulty.requests if each.operation == "GetObject"]
    return [name for name in names if not name.endswith("manifest.json")]


def test_small_files_come_first_and_an_outage_costs_none_of_them(bench: Bench, faulty: FaultyS3) -> None:
    live = filled(bench)
    faulty.fail(Reset(), "GetObject", key=lambda key: key.endswith("large one"))
    faulty.requests.clear()

    async def scenario(mirror: Mirror, directory: Path) -> None:
        await mirror.begin_restore()
        assert (directory / "d").is_dir(), "directories are there at once"

        def all_but_one() -> bool:
            left = mirror.state.restoring
            return left is not None and (left.files_left, left.bytes_left) == (1, 300_000) and bool(left.error)

        await until(all_but_one)
        assert sorted(fetched(faulty)[:2]) == ["d/middling", "small"]
        with pytest.raises(RestoreIncomplete, match=r"1 files with 300,000 bytes .*does not answer") as told:
            await mirror.wait_restored(0.1)
        assert told.value.retryable
        with pytest.raises(NotRestored):
            await mirror.flush(DEADLINE_SECONDS)
        ticket = mirror.request_flush()
        faulty.heal()
        report = await mirror.wait_restored(DEADLINE_SECONDS)
        assert (report.files, report.directories, report.size_bytes, report.skipped) == (3, 1, 303_001, ())
        assert picture(directory) == picture(live)
        assert mirror.state.restoring is None
        assert [fetched(faulty).count(name) for name in ("small", "d/middling")] == [1, 1]
        assert (await mirror.wait_flushed(ticket, DEADLINE_SECONDS)).removed == 0, (
            "what was asked for meanwhile is done now"
        )

    run(bench, scenario)
    assert {one.path for one in bench.workspace.list()} == {"a large one", "d", "d/middling", "small"}


def test_a_restore_that_gave_up_is_begun_again_by_who_waits_next(bench: Bench, faulty: FaultyS3) -> None:
    live = filled(bench)
    faulty.fail(Reset(), "GetObject", key=lambda key: "/workspace/" in key)

    async def scenario(mirror: Mirror, directory: Path) -> None:
        await mirror.begin_restore()
        for _ in range(2):
            with pytest.raises(RestoreIncomplete, match="3 files with 303,001 bytes are still to come; try again"):
                await mirror.wait_restored(DEADLINE_SECONDS)
        faulty.heal()
        await asyncio.gather(*(mirror.wait_restored(DEADLINE_SECONDS) for _ in range(3)))
        assert picture(directory) == picture(live)

    run(bench, scenario, QUICK)


def test_closing_a_restore_fails_who_waits_and_changes_nothing_in_the_store(bench: Bench, faulty: FaultyS3) -> None:
    filled(bench)
    before = bench.objects()
    faulty.fail(Stall(), "GetObject", key=lambda key: key.endswith("large one"))

    async def scenario(mirror: Mirror, _: Path) -> None:
        await mirror.begin_restore()
        waiting = asyncio.create_task(mirror.wait_restored())
        await until(lambda: (left := mirror.state.restoring) is not None and left.files_left == 1)
        ticket = mirror.request_flush()
        await mirror.aclose()
        with pytest.raises(MirrorClosed):
            await waiting
        with pytest.raises((MirrorClosed, NotRestored, FlushIncomplete)):
            await mirror.wait_flushed(ticket, 1.0)
        faulty.heal()

    run(bench, scenario)
    assert bench.objects() == before


def test_an_object_that_vanishes_meanwhile_is_told_and_the_rest_comes(bench: Bench, faulty: FaultyS3) -> None:
    filled(bench)
    faulty.fail(Reset(), "GetObject", key=lambda key: key.endswith("large one"), times=1)

    async def scenario(mirror: Mirror, directory: Path) -> None:
        faulty.done = lambda request: vanish() if request.key.endswith("middling") else None
        await mirror.begin_restore()
        report = await mirror.wait_restored(DEADLINE_SECONDS)
        assert [(one.path, one.reason.split(" while ")[0]) for one in report.skipped] == [
            ("a large one", "was removed from the store")
        ]
        assert sorted(each.name for each in directory.iterdir()) == ["d", "small"]

    def vanish() -> None:
        bench.store.delete([f"{bench.prefix}/workspace/a large one"])

    run(bench, scenario)


@pytest.mark.parametrize("size", [0, 1, 65_536, 131_073, 5_000_000])
def test_zeros_take_no_room(executor: ThreadPoolExecutor, tmp_path: Path, size: int) -> None:
    bench = Bench(LocalStore(str(tmp_path / "store")), executor, tmp_path)
    live = bench.directory()
    content = {"zeros": bytes(size), "between": b"a" + bytes(size) + b"b", "end": b"a" * 70_000 + bytes(size)}
    for name, each in content.items():
        (live / name).write_bytes(each)
    asyncio.run(bench.flush(live))
    again = asyncio.run(bench.restored())
    assert {each.name: each.read_bytes() for each in again.iterdir()} == content
    assert sum(each.stat().st_blocks * 512 for each in again.iterdir()) < 800_000
    asyncio.run(bench.flush(again))


HOSTILE = {
    "two/%61": b"first", "two/a": b"ours", "both": b"file", "both/below": b"file below", "%2E%2E/up": b"x",
    "%2Fabsolute": b"x", "nul%00": b"x", "twice//slashed": b"x", "%long/" + "0" * 64: b"x", "n" * 256: b"x",
    "folder/": b"", "d/" * 300 + "f": b"deep",
}  # fmt: skip
KEPT = {b"two/a": b"ours", b"both/below": b"file below", b"d/" * 300 + b"f": b"deep"}


def test_keys_that_collide_or_climb_are_left_out_and_told(bench: Bench, moto_endpoint: str, faulty: FaultyS3) -> None:
    client = boto3.client(
        "s3", endpoint_url=moto_endpoint, region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY[0], aws_secret_access_key=ACCESS_KEY[1],
    )  # fmt: skip
    assert isinstance(bench.store, S3Store)
    asyncio.run(bench.flush(bench.directory()))
    written = next(each.key for each in faulty.requests if each.key.endswith("manifest.json"))
    top = written.removesuffix("manifest.json").removeprefix(f"{BUCKET}/")
    for key, content in HOSTILE.items():
        client.put_object(Bucket=BUCKET, Key=f"{top}workspace/{key}", Body=content)
    rows = [
        {"path": "d/" * 10_000 + "f", "kind": "directory"}, {"path": "../up", "kind": "link", "target": "/etc"},
        {"path": "/absolute", "kind": "directory"}, {"path": "l" * 256, "kind": "link", "target": "x"},
        {"path": "link", "kind": "link", "target": "/etc/passwd"},
    ]  # fmt: skip
    document = {"version": 1, "as_of": "then", "entries": [{"mtime_ns": 1, "mode": 0o755} | row for row in rows]}
    client.put_object(Bucket=BUCKET, Key=f"{top}manifest.json", Body=msgspec.json.encode(document))

    async def scenario(mirror: Mirror, directory: Path) -> None:
        await mirror.begin_restore()
        report = await mirror.wait_restored(DEADLINE_SECONDS)
        found = picture(directory)
        assert {path: content for path, (mode, _, content) in found.items() if content is not None} == {
            **KEPT, b"link": b"/etc/passwd",
        }  # fmt: skip
        assert len(report.skipped) == 8 + 4, report.skipped
        assert all(stat.S_ISDIR(each.lstat().st_mode) for each in directory.parent.iterdir()), "nothing beside it"
        await mirror.flush(DEADLINE_SECONDS)

    run(bench, scenario)
    again = {one.path for one in bench.workspace.list()}
    assert {os.fsdecode(path) for path in KEPT} <= again
    client.close()
