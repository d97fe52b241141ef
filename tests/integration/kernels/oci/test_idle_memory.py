"""A sandbox that is stopped with its memory in swap: on every runtime it goes on as it was, and it can be removed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.host_memory import read_meminfo
from kernels.oci.idle_memory import IdleMemory
from tests.integration.kernels.oci.conftest import Sandboxes, Test
from tests.swap_file import swap_file


@pytest.fixture
def swap() -> Iterator[Path]:
    with swap_file() as file:
        yield file


def test_a_stopped_sandbox_holds_little_and_goes_on(swap: Path, in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info, runtime = await sandboxes.create(), sandboxes.runtime
        assert (await sandboxes.run(info, "echo there")).stdout == "there\n"
        held = runtime.cgroups.held_bytes(info.sandbox_id)
        moved = await runtime.page_out(info.sandbox_id)
        assert moved.moved_bytes > held // 2, moved
        assert await runtime.running(info.sandbox_id)
        for _ in range(2):
            await runtime.thaw(info.sandbox_id)
        assert (await sandboxes.run(info, "echo again")).stdout == "again\n"
        assert (await runtime.page_out(info.sandbox_id)).moved_bytes > 0
        await runtime.destroy(info.sandbox_id)
        assert (await runtime.page_out(info.sandbox_id)).moved_bytes == 0
        await runtime.thaw(info.sandbox_id)

    in_sandboxes(test)


@pytest.mark.parametrize("runtime_name", ["runc"])
def test_without_room_in_swap_it_runs_on(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info, runtime = await sandboxes.create(), sandboxes.runtime
        assert (await sandboxes.run(info, "echo there")).stdout == "there\n"
        if read_meminfo()["SwapTotal"] == 0:
            assert "swap free" in (await runtime.page_out(info.sandbox_id)).why
        with swap_file(4):
            if read_meminfo()["SwapTotal"] > 5 << 20:
                pytest.skip("this host has swap of its own, which is not full")
            assert "swap free" in (await runtime.page_out(info.sandbox_id)).why
            # Others fill it between the look at it and the move.
            first = iter([{"SwapFree": 1 << 40}])
            unwanted = IdleMemory(runtime.cgroups, read=lambda: next(first, None) or read_meminfo())
            said = await asyncio.to_thread(unwanted.page_out, info.sandbox_id, threading.Event())
            assert (said.moved_bytes, "took" in said.why) == (0, True)
            assert (await sandboxes.run(info, "echo again")).stdout == "again\n"

    in_sandboxes(test)
