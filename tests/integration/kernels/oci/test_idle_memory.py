"""A sandbox that is stopped with its memory in swap: on every runtime it goes on as it was, and it can be removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.kernels.oci.conftest import Sandboxes, Test
from tests.swap_file import swap_file


@pytest.fixture
def swap() -> Iterator[Path]:
    with swap_file(256) as file:
        yield file


def test_a_stopped_sandbox_holds_little_and_goes_on(swap: Path, in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info, runtime = await sandboxes.create(), sandboxes.runtime
        assert (await sandboxes.run(info, "echo there")).stdout == "there\n"
        held = runtime.cgroups.held_bytes(info.sandbox_id)
        moved = await runtime.page_out(info.sandbox_id)
        print(held, moved, runtime.cgroups.held_bytes(info.sandbox_id))
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
