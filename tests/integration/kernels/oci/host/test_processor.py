"""Processor time, measured against the quota that memory gives; and what programs can read of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from kernels.environment import Environment, Resources
from kernels.guest.processors import VARIABLES
from kernels.oci.cgroups import Cgroups
from kernels.oci.host import shares as host_shares
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo
from tests.integration.kernels.oci.conftest import Sandboxes, Test

SPIN = 'for n in 1 2 3 4; do sh -c "while :; do :; done" & done; wait'
SECONDS = 2

ASK = f"""
import json, multiprocessing, os, subprocess
words = lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
plain = {{name: value for name, value in os.environ.items() if name not in {VARIABLES!r}}}
print(json.dumps([
    os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0)), int(words("getconf", "_NPROCESSORS_ONLN")[0]),
    int(words("getconf", "_NPROCESSORS_CONF")[0]), int(words("nproc")[0]),
    int(subprocess.run(["nproc"], capture_output=True, env=plain).stdout),
    *(int(os.environ[name]) for name in {VARIABLES!r}),
]))
"""  # noqa: E501


@pytest.mark.parametrize("memory_mb", [885, 1769, 1770, 8000])
def test_programs_are_told_of_the_processors_that_they_have(
    in_sandboxes: Callable[[Test], None], memory_mb: int
) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        sized = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=memory_mb))
        told = json.loads(await sandboxes.python(await sandboxes.create(sized), ASK))
        left, _ = sandboxes.runtime.cgroups.processors_left(top=sandboxes.runtime.settings.runtime == "crun")
        assert set(told) == {math.ceil(min(memory_mb / 1769, len(os.sched_getaffinity(0)), left))}

    in_sandboxes(test)


def test_threads_that_spin_get_the_quota_and_no_more(in_sandboxes: Callable[[Test], None]) -> None:
    """Half a processor, within a tenth over two seconds, by the group's own count.

    Never more; less only while others keep the host busy, so it is measured again then, for as long as that may last.
    Of a host that is busy all the while nothing more can be said.
    """

    async def test(sandboxes: Sandboxes) -> None:
        half = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=885))
        promised = half.resources.vcpus
        info = await sandboxes.create(half)
        await sandboxes.run(info, "true")
        spinning = asyncio.create_task(sandboxes.run(info, SPIN, timeout_seconds=200))
        await asyncio.sleep(1)
        for _ in range(25):
            share = await share_of_a_processor(sandboxes, info)
            print(f"share {share:.3f} of a processor, promised {promised:.3f}")
            assert share < 1.1 * promised
            if share > 0.9 * promised:
                break
        else:
            assert os.getloadavg()[0] > len(os.sched_getaffinity(0)), "an idle host, and less than what was promised"
        spinning.cancel()
        await asyncio.gather(spinning, return_exceptions=True)

    in_sandboxes(test)


@pytest.fixture
def half_a_processor() -> Iterator[str]:
    """Groups with a quota of half a processor, below those that sandboxes' groups lie in; their name."""
    cgroups, name = Cgroups(""), f"half-{uuid.uuid4().hex[:8]}"
    made = [
        one.mount / group.lstrip("/") / name
        for one in cgroups.hierarchies
        for group in ({str(Path(one.own).parent)} if cgroups.unified else {one.own, "/"})
    ]
    for group in made:
        group.mkdir()
        for file, quota in (("cpu.cfs_quota_us", "50000"), ("cpu.max", "50000 100000")):
            if (group / file).exists():
                (group / file).write_text(quota)
    yield name
    for group in made:
        group.rmdir()


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_sandbox_below_a_smaller_quota_starts_and_is_held_to_that(
    settings: RuntimeSettings, environment: Environment, half_a_processor: str
) -> None:
    """On cgroup v1 the kernel refuses a group more than the one above it has."""

    async def test() -> None:
        below = structs.replace(settings, cgroup_parent=f"{half_a_processor}/sandcell")
        sandboxes = Sandboxes(OciRuntime(below), environment)
        runtime, vcpus = sandboxes.runtime, environment.resources.vcpus
        found = host_shares.processor_quota(runtime.cgroups, vcpus, top=settings.runtime == "crun")
        try:
            assert vcpus > 1
            assert not found.ok
            assert half_a_processor in found.detail
            info = await sandboxes.create()
            assert set(json.loads(await sandboxes.python(info, ASK))) == {1}
            config = json.loads((runtime.places.of(info.sandbox_id).bundle / "config.json").read_text())
            assert config["linux"]["resources"]["cpu"] == {"period": 100_000, "quota": 50_000}
        finally:
            for each in await runtime.list():
                await runtime.destroy(each.sandbox_id)
            await runtime.aclose()

    asyncio.run(test())


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_the_guest_goes_before_all_that_it_starts(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        guest = sandboxes.runtime.places.of(info.sandbox_id).first_process()
        assert guest is not None
        assert os.getpriority(os.PRIO_PROCESS, guest) == -20
        assert set((await sandboxes.run(info, "nice; ps -o ni= -u user")).stdout.split()) == {"19"}
        assert "ermission denied" in (await sandboxes.run(info, "nice -n -1 true")).stderr

    in_sandboxes(test)


async def share_of_a_processor(sandboxes: Sandboxes, info: SandboxInfo) -> float:
    begun, before = time.monotonic(), await sandboxes.runtime.usage(info.sandbox_id)
    await asyncio.sleep(SECONDS)
    after, ended = await sandboxes.runtime.usage(info.sandbox_id), time.monotonic()
    return (after.cpu_seconds - before.cpu_seconds) / (ended - begun)
