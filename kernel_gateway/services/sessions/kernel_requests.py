"""The way to a session's kernels for what is no execution: attached clients' messages, completion, inspection."""

from __future__ import annotations

from kernel_gateway.errors import LimitReached, SandboxUnavailable, translated
from kernel_gateway.services.sessions.live_session import LiveSession
from kernels.execution.hub import Hub
from kernels.kernelspec import Kernelspec

RETRY_SECONDS = 1.0


async def reach_kernel(live: LiveSession, *, whole: bool = True, declared: Kernelspec | None = None) -> Hub:
    """The connections to the Python kernel, or to the `declared` one, once there is one.

    If `whole`, and for a declared one, once all files of the workspace are there too. A session that has no sandbox
    gets one, so a caller that stops waiting must not cancel this: it would end the start.
    """
    with translated():
        kernel = await (live.sandbox.ready() if whole or declared else live.sandbox.ensure_started())
        if declared is not None:
            return await kernel.reach_declared(declared)
        await kernel.ready()
    if kernel.hub is None:
        raise SandboxUnavailable("the kernel has just ended: try again")
    return kernel.hub


def require_read(hub: Hub, channel: str, size_bytes: int, most_bytes: int) -> None:
    """Raises LimitReached for a message that would have to wait, with others before it, for a kernel that reads none.

    One message is always taken, however large: its own bound holds for it.
    """
    waiting = hub.unsent_bytes(channel)
    if waiting and waiting + size_bytes > most_bytes:
        raise LimitReached(
            f"the kernel has not read {waiting:,} bytes of earlier messages", retry_after_seconds=RETRY_SECONDS
        )
