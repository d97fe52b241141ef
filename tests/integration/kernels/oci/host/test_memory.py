"""Memory, measured against what was promised: nearly all of it can be used, no more than all of it ever is."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

import pytest

from kernels.environment import Resources
from kernels.errors import KernelsError
from kernels.sandbox import SandboxInfo
from tests import control_groups
from tests.integration.kernels.oci.conftest import Sandboxes, Test

HIDE_MEMORY = """
import os
try:
    open("/proc/self/oom_score_adj", "w").write("0")
except OSError as refused:
    print(refused.strerror)
print(open("/proc/self/oom_score_adj").read(), flush=True)
for _ in range(200):
    held = os.memfd_create("held")
    os.set_inheritable(held, True)
    if os.fork() == 0:
        for _ in range(8):
            os.write(held, bytes(1 << 20))
        os.execv("/bin/sleep", ["sleep", "20"])
    os.close(held)
"""
"""Fills the memory with pages that count for no process, held by processes smaller than the guest."""


@pytest.mark.long  # the killer needs half a minute, and minutes on a busy machine
@pytest.mark.parametrize("runtime", ["runc"])
def test_memory_that_hides_from_the_killer_does_not_have_the_guest_killed(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        small = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=512))
        info = await sandboxes.create(small)
        assert (await sandboxes.python(info, HIDE_MEMORY, 240)).split("\n")[:2] == ["Read-only file system", "500"]
        assert (await sandboxes.runtime.usage(info.sandbox_id)).oom_kills > 0
        async with asyncio.timeout(120):  # while others hold the memory a shell is the largest process, and killed
            while (await sandboxes.run(info, "echo alive")).stdout != "alive\n":
                await asyncio.sleep(0.5)

    in_sandboxes(test)


GROW = """
import sys, time
held = []
for megabyte in range(1, 4096):
    held.append(bytearray(b"x") * (1 << 20))
    print(megabyte, flush=True)
"""


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_most_of_the_memory_can_be_used_and_no_more_than_all(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        limit, info = await small(sandboxes)
        result = await sandboxes.run(info, f"python3 -c '{GROW}' | tail -1")
        usage = await sandboxes.runtime.usage(info.sandbox_id)
        print(f"{int(result.stdout)} MB could be used of {limit >> 20} MB; peak {usage.memory_peak_bytes / limit:.4f}")
        assert usage.oom_kills > 0
        assert 0.75 * limit < int(result.stdout) << 20 < limit  # the guest and an idle kernel have the rest
        assert 0.98 * limit < usage.memory_peak_bytes <= limit + (1 << 20)  # pages charged ahead
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)


def test_processes_share_one_limit(in_sandboxes: Callable[[Test], None]) -> None:
    """Four that are each content with less than half of it."""
    program = f"{GROW.replace('4096', '200')}\ntime.sleep(2)"

    async def test(sandboxes: Sandboxes) -> None:
        limit, info = await small(sandboxes)
        four = f"for n in 1 2 3 4; do (python3 -c '{program}' > /dev/null; echo ended $?) & done; wait"
        with contextlib.suppress(KernelsError):  # gVisor's sandbox ends as a whole
            assert "ended 137" in (await sandboxes.run(info, four)).stdout
        usage = await sandboxes.runtime.usage(info.sandbox_id)
        assert usage.oom_kills > 0
        assert 0.98 * limit < usage.memory_peak_bytes <= limit + (1 << 20)  # pages charged ahead

    in_sandboxes(test)


def test_files_in_memory_count(in_sandboxes: Callable[[Test], None]) -> None:
    """/dev/shm takes half of the memory at most; what is in it counts as used."""

    async def test(sandboxes: Sandboxes) -> None:
        limit, info = await small(sandboxes)
        before = await sandboxes.runtime.usage(info.sandbox_id)
        filled = await sandboxes.run(info, "dd if=/dev/zero of=/dev/shm/x bs=1M; wc -c < /dev/shm/x")
        usage = await sandboxes.runtime.usage(info.sandbox_id)
        assert "No space left" in filled.stderr
        assert int(filled.stdout) == limit // 2
        assert usage.memory_bytes - before.memory_bytes > 0.95 * limit // 2
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)


def test_swap_is_no_second_memory(in_sandboxes: Callable[[Test], None]) -> None:
    """By the group itself: hosts of tests have no swap to use."""

    async def test(sandboxes: Sandboxes) -> None:
        limit, info = await small(sandboxes)
        allowed = {
            name: int(file.read_text())
            for name in ("memory.memsw.limit_in_bytes", "memory.swap.max")
            for one in sandboxes.runtime.cgroups.hierarchies
            for file in control_groups.find(f"{info.sandbox_id}/{name}", one.mount)
        }
        assert allowed in ({"memory.memsw.limit_in_bytes": limit}, {"memory.swap.max": 0})

    in_sandboxes(test)


async def small(sandboxes: Sandboxes) -> tuple[int, SandboxInfo]:
    """A sandbox of little memory, and how much, in bytes."""
    resources = Resources(memory_mb=512)
    info = await sandboxes.create(dataclasses.replace(sandboxes.environment, resources=resources))
    await sandboxes.run(info, "true")
    return resources.memory_bytes, info
