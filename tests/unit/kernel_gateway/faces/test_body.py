"""A body on its way: in bounded memory, in its turn, whole at the end, and nothing is kept of one that is given up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway.errors import LimitReached, NoSpace
from kernel_gateway.faces.body import IN_MEMORY_BYTES, SMALL_BODY, Body
from kernel_gateway.services.admission import body_room
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.settings import Settings

Scene = Callable[[BodyRoom], Awaitable[None]]
LARGE = 5_000_000


def play(scene: Scene, directory: Path, **settings: int) -> None:
    """On a room of 40 MB: 10 for what arrives, 30 for what is whole; nothing is held at the end."""
    (directory / "state").mkdir(exist_ok=True)
    limits = {"body_memory_bytes": 40_000_000, "body_disk_bytes": 40_000_000, **settings}
    room = BodyRoom(replace(Settings(), data_dir=str(directory), **limits), lambda _: None)  # type: ignore[arg-type]
    before = open_files()

    async def run() -> None:
        files = open_files()
        await scene(room)
        assert open_files() == files
        assert (room.arriving.held, room.spooled.held, room.whole.held) == (0, 0, 0)

    asyncio.run(run())
    assert open_files() == before
    assert list((directory / "state").iterdir()) == []


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def sent(room: BodyRoom, size: int, owner: str = "one") -> tuple[Body, bytes]:
    body, content = Body(room), os.urandom(size)
    await body.expect(owner, size)
    for start in range(0, size, 65_536):
        await body.add(content[start : start + 65_536])
    return body, content


@pytest.mark.parametrize("size", [0, 1, SMALL_BODY, SMALL_BODY + 1, IN_MEMORY_BYTES, IN_MEMORY_BYTES + 1, LARGE])
def test_what_was_sent_is_read(size: int, tmp_path: Path) -> None:
    async def scene(room: BodyRoom) -> None:
        body, content = await sent(room, size)
        assert room.arriving.held == (min(size, IN_MEMORY_BYTES) if size > SMALL_BODY else 0)
        assert await body.whole("one") == content
        assert (room.arriving.held, room.spooled.held) == (0, 0)
        assert room.whole.held == (int(size * 2.5) if size > SMALL_BODY else 0)
        body.note_decoded()
        assert room.whole.held == (size if size > SMALL_BODY else 0)
        body.release()
        body.release()

    play(scene, tmp_path)


def test_what_arrives_is_in_memory_up_to_a_bound(tmp_path: Path) -> None:
    async def scene(room: BodyRoom) -> None:
        body, _ = await sent(room, LARGE)
        assert len(body._buffer) <= IN_MEMORY_BYTES
        body.release()
        other, _ = await sent(room, LARGE)
        held = other.hand_over()
        assert held is None
        assert await other.whole("one")
        held = other.hand_over()
        other.release()
        assert held is not None
        assert room.whole.held == int(LARGE * 2.5)
        held.release()

    play(scene, tmp_path)


def test_one_that_stalls_everywhere_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "TURN_SECONDS", 0.05)

    async def scene(room: BodyRoom) -> None:
        stalled = [Body(room) for _ in range(7)]
        for each in stalled:
            await each.expect("one", IN_MEMORY_BYTES)
        with pytest.raises(LimitReached, match="bodies that arrive"):
            await Body(room).expect("one", LARGE)
        body, content = await sent(room, LARGE, "other")
        assert await body.whole("other") == content
        body.release()
        for each in stalled:
            each.release()

    play(scene, tmp_path)


def test_one_that_is_given_up_while_it_is_written_closes_its_file(tmp_path: Path) -> None:
    async def scene(room: BodyRoom) -> None:
        body, _ = await sent(room, LARGE)
        adding = asyncio.create_task(body.add(b"x" * (IN_MEMORY_BYTES + 1)))
        await asyncio.sleep(0)
        body.release()
        await adding

    play(scene, tmp_path)


def test_one_that_is_given_up_while_it_waits_holds_nothing(tmp_path: Path) -> None:
    async def scene(room: BodyRoom) -> None:
        others = [Body(room) for _ in range(7)]
        for each in others:
            await each.expect("one", IN_MEMORY_BYTES)
        body = Body(room)
        waiting = asyncio.create_task(body.expect("one", LARGE))
        await asyncio.sleep(0)
        body.release()
        for each in others:
            each.release()
        await waiting

    play(scene, tmp_path)


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    async def scene(room: BodyRoom) -> None:
        room.directory = str(tmp_path / "absent")
        body = Body(room)
        await body.expect("one", LARGE)
        with pytest.raises(NoSpace):
            await body.add(b"x" * (IN_MEMORY_BYTES + 1))
        body.release()

    play(scene, tmp_path)
