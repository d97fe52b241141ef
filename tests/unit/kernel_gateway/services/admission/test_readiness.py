"""Whether new work is taken, and that who asks often costs little."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernel_gateway import errors
from kernel_gateway.services.admission import readiness
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.storage.database import Database


class Disk:
    """One that is full when told so."""

    def __init__(self) -> None:
        self.full, self.looks = False, 0

    def require(self) -> None:
        self.looks += 1
        if self.full:
            raise errors.NoSpace("17 bytes are free", free_bytes=17)


def test_it_is_ready_while_it_accepts_its_disk_has_room_and_its_database_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        database, disk = Database(f"sqlite:///{tmp_path}/sandcell.db"), Disk()
        await database.open()
        ready = Readiness(database, disk.require)
        await asyncio.gather(*(ready.require_ready() for _ in range(50)))
        assert disk.looks == 1, "an answer stands for a while"
        monkeypatch.setattr(readiness, "LOOK_SECONDS", -1.0)
        disk.full = True
        with pytest.raises(errors.NoSpace) as refused:
            await ready.require_ready()
        assert (refused.value.message, refused.value.details) == ("the service's disk is full", {}), "no figures"
        disk.full = False
        await ready.require_ready()
        monkeypatch.setattr(database, "run", lambda _query: asyncio.sleep(3600))
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.01)
        with pytest.raises(errors.DatabaseUnavailable):
            await ready.require_ready()
        ready.accepting = False
        with pytest.raises(errors.ShuttingDown):
            await ready.require_ready()
        await database.aclose()

    asyncio.run(check())
