"""A launcher that was not started as root: what it starts is to have no privileges, and some things it does not do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernels.errors import LauncherRefused
from kernels.launcher.confine import require_no_privileges
from kernels.launcher.plan import ViewerPlan
from kernels.launcher.viewers import Viewers, refuse

STATUS = """Name:\tpython
Uid:\t1000\t1000\t1000\t1000
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t000001ffffffffff
CapAmb:\t0000000000000000
"""


def test_a_process_without_capabilities_may_go_on() -> None:
    require_no_privileges(STATUS)


@pytest.mark.parametrize(
    "status",
    [
        STATUS.replace("1000\t1000\nCapInh", "0\t1000\nCapInh"),
        STATUS.replace("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000400"),
        STATUS.replace("CapEff:\t0000000000000000", "CapEff:\t0000000000200000"),
        STATUS.replace("CapAmb:\t0000000000000000", "CapAmb:\t8000000000000000"),
        "",
        Path("/proc/self/status").read_text(),  # the tests are root's
    ],
    ids=range(6),
)
def test_one_with_any_is_refused(status: str) -> None:
    with pytest.raises(PermissionError, match="without any capability"):
        require_no_privileges(status)


def test_it_makes_no_views() -> None:
    async def run() -> None:
        viewers = Viewers(ViewerPlan(1, [], [], 1.0, 1), refuse)
        for _ in range(3):  # each gives its place back
            with pytest.raises(LauncherRefused, match="not started as root"):
                await viewers.start("html")

    asyncio.run(run())
