"""Memory, processes, disk and processor time: reached inside, refused there, harmless outside."""

from __future__ import annotations

import dataclasses
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.environment import Resources
from kernels.errors import SandboxFailed, SandboxGone
from kernels.sandbox import SandboxSpec
from tests import control_groups
from tests.integration.kernels.oci.conftest import Sandboxes, Test

GREEDY = "python3 -c 'x = b\"1\" * (1 << 30)'"
PAGES_IN_FLIGHT = 1 << 20
"""By which the highest use that is counted may pass the limit: each processor charges some pages ahead."""


def test_memory_ends_the_program_and_spares_the_guest(in_sandboxes: Callable[[Test], None], runtime_name: str) -> None:
    """Under gVisor all memory of a sandbox is one process's to the host, and running out of it ends the sandbox."""

    async def test(sandboxes: Sandboxes) -> None:
        small = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=256))
        info = await sandboxes.create(small)
        usage, running = sandboxes.runtime.usage, sandboxes.runtime.running
        await sandboxes.run(info, "true")
        before = await usage(info.sandbox_id)
        if runtime_name == "runsc":
            with pytest.raises((SandboxFailed, SandboxGone)):
                await sandboxes.run(info, GREEDY)
            assert not await running(info.sandbox_id)
        else:
            assert (await sandboxes.run(info, GREEDY)).exit_code in (137, -9)
            assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"
        after = await usage(info.sandbox_id)
        assert after.oom_kills > before.oom_kills
        assert after.memory_limit_bytes == 256 << 20
        assert after.memory_peak_bytes <= (256 << 20) + PAGES_IN_FLIGHT

    in_sandboxes(test)


def test_shared_memory_counts_too(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        small = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=256))
        result = await sandboxes.run(
            await sandboxes.create(small), "head -c 1G /dev/zero > /dev/shm/x; stat -c %s /dev/shm/x"
        )
        assert result.exit_code != 0 or int(result.stdout) <= 128 << 20

    in_sandboxes(test)


def test_a_fork_bomb_fills_its_own_process_table_only(in_sandboxes: Callable[[Test], None], runtime_name: str) -> None:
    bomb = (
        "import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60)\n"
        "except OSError as error: print(error)"
    )

    async def test(sandboxes: Sandboxes) -> None:
        few = dataclasses.replace(sandboxes.environment, resources=Resources(pids=64))
        info = await sandboxes.create(few)
        assert (
            "temporarily unavailable" in (await sandboxes.run(info, f"python3 -c '{bomb}'", timeout_seconds=120)).stdout
        )
        if runtime_name != "runsc":  # whose processes are not the host's
            assert (await sandboxes.runtime.usage(info.sandbox_id)).pids <= 64
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)


def test_a_full_disk_is_full_inside_only(in_sandboxes: Callable[[Test], None], tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free

    async def test(sandboxes: Sandboxes) -> None:
        small = dataclasses.replace(sandboxes.environment, resources=Resources(storage_mb=128))
        info = await sandboxes.create(small)
        for place in ("/workspace", "/home/user", "/tmp"):
            result = await sandboxes.run(info, f"head -c 2G /dev/zero > {place}/big; rm -f {place}/big", 120)
            assert "No space left" in result.stderr or "File size limit" in result.stderr
        usage = await sandboxes.runtime.usage(info.sandbox_id)
        assert usage.storage_limit_bytes < 128 << 20
        assert (await sandboxes.run(info, "echo x > /workspace/small && cat /workspace/small")).stdout == "x\n"
        assert shutil.disk_usage(tmp_path).free > free - (1 << 30)

    in_sandboxes(test)


def test_the_socket_directory_is_bounded(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        result = await sandboxes.run(await sandboxes.create(), "head -c 10M /dev/zero > /run/sandcell/kernel/big")
        assert "No space left" in result.stderr

    in_sandboxes(test)


def test_processor_time_is_held_to_the_environment(in_sandboxes: Callable[[Test], None]) -> None:
    """The quota that the kernel enforces is the one that memory gives."""

    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        groups = sandboxes.runtime.cgroups
        quota = [
            int(path.read_text().split()[0])
            for one in groups.hierarchies
            for path in control_groups.find(f"{info.sandbox_id}/cpu.cfs_quota_us", one.mount)
        ]
        assert quota
        left, _ = groups.processors_left(top=sandboxes.runtime.settings.runtime == "crun")
        assert set(quota) == {min(round(2048 / 1769 * 100_000 + 0.5), left * 100_000)}

    in_sandboxes(test)


def test_more_processor_time_is_there_only_until_code_may_run(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        runtime = sandboxes.runtime

        def find_bursts(sandbox_id: str) -> set[str]:
            name = f"{sandbox_id}/cpu.max.burst" if runtime.cgroups.unified else f"{sandbox_id}/cpu.cfs_burst_us"
            found = (control_groups.find(name, one.mount) for one in runtime.cgroups.hierarchies)
            return {path.read_text().strip() for paths in found for path in paths}

        new = (await sandboxes.create()).sandbox_id
        assert find_bursts(new) not in ({"0"}, set())
        await runtime.mark_workspace_ready(new)
        assert find_bursts(new) == {"0"}
        spare = str(uuid.uuid4())
        await runtime.create(SandboxSpec(spare, sandboxes.environment, spare=True))
        assert find_bursts(spare) not in ({"0"}, set())
        await runtime.claim(spare)
        assert find_bursts(spare) == {"0"}

    in_sandboxes(test)
