"""What Google's service has and this one has not yet: it is answered that, to who may ask, and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from kernel_gateway.faces.agent_engine.calls import Call
from kernel_gateway.faces.agent_engine.engines import find_engine
from kernel_gateway.faces.agent_engine.sandboxes import find_sandbox
from kernel_gateway.faces.errors import NotOffered


async def pause_sandbox(call: Call) -> NoReturn:
    await find_sandbox(call)
    raise NotOffered("a sandbox cannot be paused here yet: it keeps its state until it expires or is deleted")


async def resume_sandbox(call: Call) -> NoReturn:
    await find_sandbox(call)
    raise NotOffered("a sandbox cannot be paused here yet, and so none is resumed: it runs until it expires")


async def snapshot_sandbox(call: Call) -> NoReturn:
    await find_sandbox(call)
    raise NotOffered("there are no snapshots here yet: have code save what matters to files, and take those")


async def use_snapshot(call: Call) -> NoReturn:
    await find_engine(call)
    raise NotOffered("there are no snapshots here yet")
