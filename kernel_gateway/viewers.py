"""The processes that make pages and scripts of notebooks, as the launcher starts them: how many, with what bounds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from kernel_gateway.settings import Settings
from kernels.launcher.plan import ViewerPlan

VIEWS_AT_ONCE: Final = 2
VIEW_MEMORY_BYTES: Final = 4_000_000_000


def viewer_plan(settings: Settings, reach: Sequence[str] = (), *, memory_bytes: int = VIEW_MEMORY_BYTES) -> ViewerPlan:
    """The plan; `reach` is what such a process runs on. It bounds its own processor time, the launcher its life."""
    seconds = max(1, round(settings.view_seconds))
    bounds = (settings.notebook_bytes, memory_bytes, seconds)
    return ViewerPlan(
        uid=settings.viewer_uid,
        command=[sys.executable, "-I", "-m", "kernel_gateway.views", *map(str, bounds)],
        reach=list(reach),
        seconds=2 * seconds,
        at_once=VIEWS_AT_ONCE,
    )
