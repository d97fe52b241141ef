"""Which starts a pool serves."""

from __future__ import annotations

import pytest

from kernel_gateway.services.pools.pools import find_obstacle
from kernels.environment import Environment, PoolSize

WARM = Environment("python", "/root", "sha256:0", pool=PoolSize(1, 1))
KEEPING = Environment("python", "/root", "sha256:0", pool=PoolSize(1, 1), keep_packages=True)
COLD = Environment("python", "/root", "sha256:0")


@pytest.mark.parametrize(
    ("environment", "has_files", "why"),
    [
        (WARM, False, ""),
        (WARM, True, ""),
        (COLD, False, "has no pool"),
        (KEEPING, False, ""),
        (KEEPING, True, "packages"),
    ],
)
def test_what_a_sandbox_is_born_with_needs_one_of_its_own(environment: Environment, has_files: bool, why: str) -> None:
    found = find_obstacle(environment, has_files=has_files)
    assert why in found if why else not found
