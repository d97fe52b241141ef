"""The host's disk is full, or looks so because what was just killed has not let go of its space yet."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_gateway.errors import NoSpace
from kernel_gateway.services.admission import disk_room
from kernel_gateway.services.admission.disk_room import DiskRoom

MEGABYTE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "sandcell-test", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> int:
    """Most of the disk is held by a file that is removed and still open, as by a process on its way out."""
    descriptor = os.open(disk / "held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    os.posix_fallocate(descriptor, 0, 6 * MEGABYTE)
    (disk / "held").unlink()
    return descriptor


async def waiting(disk: Path) -> asyncio.Task[None]:
    found = asyncio.create_task(DiskRoom(str(disk), 4 * MEGABYTE).wait())
    await asyncio.sleep(0)
    assert not found.done()
    return found


def test_room_that_comes_back_a_moment_later_is_waited_for(disk: Path) -> None:
    async def scene() -> None:
        held = fill(disk)
        with pytest.raises(NoSpace):
            DiskRoom(str(disk), 4 * MEGABYTE).require()
        found = await waiting(disk)
        os.close(held)
        await found

    asyncio.run(scene())


def test_a_disk_that_stays_full_is_refused(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_room, "PATIENCE_SECONDS", 0.1)

    async def scene() -> None:
        held = fill(disk)
        found = await waiting(disk)
        with pytest.raises(NoSpace, match="held back") as refused:
            await found
        assert refused.value.details["free_bytes"] == 2 * MEGABYTE
        os.close(held)

    asyncio.run(scene())
