"""What a kernel said that another has replaced: its guest keeps that until how its code ended is durable.

A kernel that dies, or is killed after the deadline of what it runs, is replaced within a second. A service that ends in
that second has not stored how the code ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import Death, KernelDied, KernelsError
from kernels.execution.execution import OUTLIVED
from kernels.execution.hub import Hub
from kernels.execution.runs import Durable
from kernels.wire.connection import KernelConnection
from kernels.wire.dialing import Dial
from kernels.wire.relay_link import TakenRun

log = logging.getLogger(__name__)

_OPEN_SECONDS: Final = 10.0
_DRAIN_SECONDS: Final = 60.0


@asynccontextmanager
async def hub_of(
    present: Hub, execution_id: str, dial: Dial, heard: Mapping[str, Durable] | None
) -> AsyncIterator[Hub]:
    """The hub for an execution: `present`, or that of the kernel before it, which ends by itself, when it ran there."""
    taken = present.find_taken(execution_id)
    former = None if taken is None or present.runs_here(taken) else await _open(taken, dial, heard)
    if former is None:
        yield present
        return
    present.flow()
    ending = asyncio.create_task(_end(former))
    try:
        yield former
    finally:
        await cancel_all([ending])
        await former.aclose()


async def _open(taken: TakenRun, dial: Dial, heard: Mapping[str, Durable] | None) -> Hub | None:
    """None where the guest does not have it any more."""
    connection = KernelConnection(dial, taken.generation, taken.key.encode(), relay=taken.kernel)
    hub = Hub(connection, heard=heard)
    hub.is_former = True
    try:
        await hub.open(_OPEN_SECONDS)
    except KernelsError as error:
        log.warning("former_kernel_not_read: %s", error)
        await hub.aclose()
        return None
    return hub


async def _end(hub: Hub) -> None:
    await hub.drain(_DRAIN_SECONDS)
    hub.fail(KernelDied(Death("exit", OUTLIVED)))
