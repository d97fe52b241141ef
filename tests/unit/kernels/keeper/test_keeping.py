"""What a keeper does about requests that cannot be carried out."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernels.keeper.keeping import SandboxProcess
from kernels.keeper.wire import LaunchRequest, Report, Request


def test_a_signal_that_a_guest_does_not_take_does_not_end_the_keeper(tmp_path: Path, short_directory: Path) -> None:
    order = LaunchRequest(
        environment="python",
        environments_directory=str(tmp_path),
        data_directory=str(tmp_path / "data"),
        run_directory=str(short_directory / "run"),
        runtime="runc",
        memory_mb=2048,
        storage_mb=512,
        pids=512,
        uid_base=1_200_000_000,
        uid_ranges=16,
        cgroup_parent="sandcell-test",
    )
    told: list[Report] = []

    async def ask() -> None:
        keeping = SandboxProcess(order, told.append)
        for signal in ("interrupt", "kill"):
            await keeping.do(Request(signal))  # type: ignore[arg-type]
        assert told == []
        await keeping.do(Request("start"))
        await keeping.remove()

    asyncio.run(ask())
    assert [each.event for each in told] == ["failed"]
