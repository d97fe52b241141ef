"""Interrupts what a session runs, and reports code that goes on all the same."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from kernel_gateway.errors import GatewayError, translated
from kernel_gateway.services.background import Background
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.sessions.live_session import LiveSession

BEFORE_IT_BEGAN: Final = "it was interrupted before it began"
NO_EFFECT: Final = (
    "the interrupt has had no effect within {grace:g} s: the code catches KeyboardInterrupt, or is in a call that does"
    " not return to Python. What ends it is its timeout of {timeout:g} s, after which its kernel is killed, or now a"
    " restart of the kernel, which costs its globals"
)
LATER: Final = "it was interrupted while it ran, which had no effect"


async def interrupt_code(live: LiveSession, background: Background, grace_seconds: float) -> asyncio.Task[None] | None:
    """Send the interrupt; the task ends when the code has, or when it has been said that it goes on.

    Raises GatewayError. None: no code runs.
    """
    job, kernel = live.running, live.sandbox.kernel
    if kernel is None:
        return None
    with translated():
        await kernel.interrupt(job.row.id if job is not None and job.executing else "")
    if job is None or not job.executing:
        return None
    return background.spawn(_watch_interrupt(live, job, grace_seconds), f"interrupt of {job.row.id}")


async def _watch_interrupt(live: LiveSession, job: Job, grace: float) -> None:
    await job.executes_within(grace)
    if not job.executing:
        with contextlib.suppress(TimeoutError, GatewayError):  # its outcome is being stored
            async with asyncio.timeout(grace):
                await job.wait()
        return
    why = NO_EFFECT.format(grace=grace, timeout=job.row.timeout_seconds)
    await job.ignore_interrupt(why)
    live.say(f"[{why}]\n")
