"""Memory, measured against what was promised: nearly all of it can be used, no more than all of it ever is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from kernels.environment import Resources
from tests.integration.oci.conftest import Sandboxes, Test

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


@pytest.mark.parametrize("runtime", ["runc"])
def test_memory_that_hides_from_the_killer_does_not_have_the_guest_killed(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        small = dataclasses.replace(sandboxes.environment, resources=Resources(memory_mb=512))
        info = await sandboxes.create(small)
        assert (await sandboxes.python(info, HIDE_MEMORY)).split("\n")[:2] == ["Read-only file system", "500"]
        assert (await sandboxes.runtime.usage(info.sandbox_id)).oom_kills > 0
        assert (await sandboxes.run(info, "echo alive")).stdout == "alive\n"

    in_sandboxes(test)
