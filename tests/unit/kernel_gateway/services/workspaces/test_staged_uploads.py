"""Uploads in parts on the service's disk: what is kept of them, how much there may be, and that nothing is left."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kernel_gateway.errors import (
    ChecksumMismatch,
    Conflict,
    IdempotencyConflict,
    InvalidRequest,
    NoSpace,
    NotFound,
    PayloadTooLarge,
    QuotaReached,
    WrongOffset,
)
from kernel_gateway.services.workspaces.staged_uploads import Staged, StagedUploads
from kernel_gateway.settings import Settings
from tests.doubles.turned_clock import TurnedClock

ME, HERE = "me", "sessions/s"
CONTENT = b"0123456789"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ENTRY = {"path": "f", "kind": "file", "size": 10, "modified_at": "t"}


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test, run to its end."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


async def send(*chunks: bytes, broken: bool = False) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if broken:
        raise ConnectionResetError


class Desk:
    """A service's staged uploads, what it wrote of them, and the files that lie on its disk."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.clock = TurnedClock()
        self.directory = directory
        self.settings = Settings(data_dir=str(directory), **settings)
        self.written: list[bytes] = []
        self.free = 10**12
        self.uploads = self.restart()

    def restart(self) -> StagedUploads:
        self.uploads = StagedUploads(self.settings, self.clock, self._require_disk)
        self.uploads.load()
        return self.uploads

    def _require_disk(self, size: int) -> None:
        if size > self.free:
            raise NoSpace("full")

    @property
    def files(self) -> list[str]:
        return sorted(each.suffix for each in self.directory.glob("state/uploads/*"))

    async def create(
        self, size: int | None = None, key: str | None = None, owner: str = HERE, principal: str = ME
    ) -> Staged:
        return await self.uploads.create(principal, owner, "f", size, key)

    async def put(self, file: BinaryIO, size: int) -> dict[str, Any]:
        self.written.append(file.read())
        assert len(self.written[-1]) == size
        return ENTRY


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@in_a_loop
async def test_parts_become_one_file_and_leave_nothing(desk: Desk) -> None:
    staged = await desk.create(10)
    await desk.uploads.append(staged, 0, send(b"0123", b"4"))
    with pytest.raises(Conflict, match="5 bytes are missing"):
        await desk.uploads.complete(staged, DIGEST, desk.put)
    await desk.uploads.append(staged, 5, send(b"56789"))
    assert [await desk.uploads.complete(staged, DIGEST, desk.put) for _ in range(2)] == [ENTRY, ENTRY]
    assert (desk.written, desk.files) == ([CONTENT], [".json"])
    with pytest.raises(Conflict, match="is complete"):
        await desk.uploads.append(staged, 10, send(b"x"))
    assert desk.uploads.list_open(ME) == []
    await desk.uploads.give_up(staged)
    assert desk.files == []


@in_a_loop
async def test_what_has_come_of_a_broken_part_stays_also_after_a_kill(desk: Desk) -> None:
    staged = await desk.create(None, "key")
    with pytest.raises(NoSpace):  # as any failure of the disk; the first chunk has been written
        await desk.uploads.append(staged, 0, send(b"012", broken=True))
    (desk.directory / "state" / "uploads" / f"{staged.id}.part").write_bytes(b"half a note")
    (desk.directory / "state" / "uploads" / "stranger.bytes").write_bytes(b"bytes of nothing")
    desk.restart()
    assert desk.files == [".bytes", ".json", ".part"]  # the next note takes the place of the half one
    again = await desk.create(None, "key")
    assert (again.id, again.offset) == (staged.id, 3)
    with pytest.raises(WrongOffset) as caught:
        await desk.uploads.append(again, 0, send(CONTENT))
    assert caught.value.details == {"offset_bytes": 3}
    await desk.uploads.append(again, 3, send(CONTENT[3:]))
    await desk.uploads.complete(again, DIGEST, desk.put)
    assert (desk.written, desk.files) == ([CONTENT], [".json"])
    desk.restart()
    assert desk.uploads.find(ME, HERE, staged.id).result == ENTRY
    assert (await desk.create(None, "key")).offset == 0  # a key counts until its upload is complete


@in_a_loop
async def test_a_part_whose_client_is_gone_adds_nothing_to_what_follows(desk: Desk) -> None:
    staged, going_on = await desk.create(), asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield b"012"
        await going_on.wait()
        yield b"xxx"

    stalled = asyncio.ensure_future(desk.uploads.append(staged, 0, stalls()))
    while staged.offset < 3:
        await asyncio.sleep(0)
    await desk.uploads.append(staged, 3, send(CONTENT[3:]))
    going_on.set()
    with pytest.raises(Conflict, match="another request"):
        await stalled
    await desk.uploads.complete(staged, DIGEST, desk.put)
    assert desk.written == [CONTENT]


@in_a_loop
async def test_bytes_that_are_not_those_of_the_checksum_go(desk: Desk) -> None:
    staged = await desk.create(10)
    await desk.uploads.append(staged, 0, send(b"012345678x"))
    with pytest.raises(ChecksumMismatch):
        await desk.uploads.complete(staged, DIGEST, desk.put)
    assert (desk.written, desk.files) == ([], [])
    with pytest.raises(NotFound):
        desk.uploads.find(ME, HERE, staged.id)


@in_a_loop
async def test_a_file_that_could_not_be_written_can_be_tried_again(desk: Desk) -> None:
    staged = await desk.create(10)
    await desk.uploads.append(staged, 0, send(CONTENT))

    async def full(_file: BinaryIO, _size: int) -> dict[str, Any]:
        with pytest.raises(Conflict):
            await desk.uploads.give_up(staged)
        with pytest.raises(Conflict):
            await desk.uploads.append(staged, 10, send(b"x"))
        raise NoSpace("the workspace is full")

    with pytest.raises(NoSpace):
        await desk.uploads.complete(staged, DIGEST, full)
    await desk.uploads.complete(staged, DIGEST, desk.put)
    assert desk.written == [CONTENT]


@in_a_loop
async def test_the_end_of_a_session_removes_what_is_on_its_way(desk: Desk) -> None:
    staged, other = await desk.create(), await desk.create(owner="sessions/other")

    async def outlives() -> AsyncIterator[bytes]:
        yield b"0"
        await desk.uploads.forget(HERE)
        yield b"1"

    with pytest.raises(NotFound):
        await desk.uploads.append(staged, 0, outlives())
    assert (desk.uploads.owners(), desk.files) == ({other.owner}, [".bytes", ".json"])


@in_a_loop
async def test_anothers_upload_is_not_found(desk: Desk) -> None:
    staged = await desk.create(10, "key")
    for principal, owner in (("other", HERE), (ME, "sessions/other"), (ME, "workspaces/s")):
        with pytest.raises(NotFound):
            desk.uploads.find(principal, owner, staged.id)
        assert (await desk.create(10, "key", owner, principal)).id != staged.id
    with pytest.raises(IdempotencyConflict):
        await desk.create(11, "key")


@in_a_loop
async def test_uploads_are_bounded_in_number(tmp_path: Path) -> None:
    desk = Desk(tmp_path, uploads_per_session=2, uploads_per_principal=3)
    first, _ = await desk.create(), await desk.create()
    with pytest.raises(QuotaReached, match="2 uploads"):
        await desk.create()
    await desk.create(owner="sessions/other")
    with pytest.raises(QuotaReached, match="3 uploads"):
        await desk.create(owner="workspaces/w")
    await desk.create(principal="another")
    await desk.uploads.give_up(first)
    for _ in range(5):  # a complete one is not open; as many as that are remembered
        desk.clock.advance(1)
        staged = await desk.create()
        await desk.uploads.complete(staged, None, desk.put)
    assert len(desk.files) == 2 * 3 + 3


@in_a_loop
async def test_uploads_are_bounded_in_bytes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, upload_session_bytes=10, upload_principal_bytes=15)
    with pytest.raises(PayloadTooLarge, match="at most 10"):
        await desk.create(11)
    await desk.create(8)
    with pytest.raises(QuotaReached, match="8 of 10"):
        await desk.create(3)
    open_end = await desk.create()
    await desk.uploads.append(open_end, 0, send(b"01"))
    with pytest.raises(QuotaReached, match="8 of 10"):
        await desk.uploads.append(open_end, 2, send(b"2"))
    with pytest.raises(QuotaReached, match="10 of 15"):
        await desk.create(6, owner="sessions/other")
    said = await desk.create(5, owner="sessions/other")
    with pytest.raises(InvalidRequest, match="5 bytes"):
        await desk.uploads.append(said, 0, send(b"012", b"345"))
    assert (open_end.offset, said.offset) == (2, 3)
    await desk.create(10, principal="another")


@in_a_loop
async def test_uploads_leave_the_reserve_of_the_disk(desk: Desk) -> None:
    desk.free = 9
    with pytest.raises(NoSpace):
        await desk.create(10)
    assert desk.files == []
    for size in (10, None):  # room that there was at the beginning may be gone later
        desk.free = 10
        staged = await desk.create(size)
        await desk.uploads.append(staged, 0, send(b"012"))
        desk.free = 2
        with pytest.raises(NoSpace):
            await desk.uploads.append(staged, 3, send(CONTENT[3:]))
        assert staged.offset == 3


@in_a_loop
async def test_an_abandoned_upload_goes_and_one_that_is_used_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path, upload_kept_seconds=60, uploads_per_session=2)
    staged, abandoned = await desk.create(), await desk.create()
    desk.clock.advance(59)
    await desk.uploads.append(staged, 0, send(b"0"))
    desk.clock.advance(1)
    await desk.create()  # the abandoned one is not counted any more, swept or not
    with pytest.raises(NotFound):
        desk.uploads.find(ME, HERE, abandoned.id)
    await desk.uploads.expire()
    assert desk.files == [".bytes", ".bytes", ".json", ".json"]
    (tmp_path / "state" / "uploads" / "left.bytes").touch()
    desk.clock.advance(60)
    await desk.uploads.expire()
    assert desk.files == []
