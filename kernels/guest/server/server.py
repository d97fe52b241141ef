"""The guest's loop: signals, the reaper, the kernel's life after boot, its HTTP server and its loopback ports."""

from __future__ import annotations

import asyncio
import os
import signal

from tornado.httpserver import HTTPServer

from ..options import Options
from ..processes.kernel import Kernel
from ..processes.reaper import Reaper
from .control import Control
from .doors import Doors
from .routes import make_application

MAX_HEADER_BYTES = 32 * 1024
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Of a JSON request. Uploads are streamed and have their own bound."""
CHUNK_BYTES = 256 * 1024
"""Of an upload, what is taken and written at once: about what a socket holds."""


def run(options: Options, reaper: Reaper, kernel: Kernel, ports: dict[str, int]) -> None:
    """Serve until SIGTERM or SIGINT, then kill everything and end, whatever a thread may still be at."""
    asyncio.run(_serve(options, reaper, kernel, ports))
    os._exit(0)


async def _serve(options: Options, reaper: Reaper, kernel: Kernel, ports: dict[str, int]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loop.add_signal_handler(signal.SIGCHLD, reaper.reap)
    _follow_output(loop, kernel)
    reaper.reap()
    control = Control(options, reaper, kernel)
    limits = {"max_header_size": MAX_HEADER_BYTES, "max_body_size": MAX_BODY_BYTES, "chunk_size": CHUNK_BYTES}
    doors = Doors(options, control, lambda: HTTPServer(make_application(control), **limits), ports)
    await doors.open()
    front = lender = None
    if options.tls_port:
        from ..network.front import serve_front  # noqa: PLC0415 - with TLS, which only few sandboxes have
        from ..network.lent import Lender  # noqa: PLC0415

        lender = Lender(options)
        await lender.start()
        if not options.await_keys or await _begin(options, control, stop):
            front = await serve_front(options, lender)
    await stop.wait()
    if front is not None and lender is not None:
        front.close()
        lender.close()
    await doors.close()
    await control.close()


async def _begin(options: Options, control: Control, stop: asyncio.Event) -> bool:
    """Whether the guest has been told its beginning before its end; ends it when it is told anything else."""
    from ..network.beginning import take_beginning  # noqa: PLC0415 - for few sandboxes

    taking, ending = asyncio.ensure_future(take_beginning(options.tls_keys)), asyncio.ensure_future(stop.wait())
    await asyncio.wait({taking, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not taking.done():
        taking.cancel()
        return False
    try:
        generation = taking.result()
    except (OSError, ValueError) as error:
        raise SystemExit(f"guest: no keys were handed over: {error}") from None
    if generation != control.kernel.generation:
        if control.kernel.pid is None:
            raise SystemExit("guest: the kernel died while it waited")
        control.renumber(generation)
    return True


def _follow_output(loop: asyncio.AbstractEventLoop, kernel: Kernel) -> None:
    """Have the loop read what kernels say outside their channels, the present one's included."""
    kernel.follow_output = lambda descriptor: loop.add_reader(descriptor, kernel.drain)
    kernel.leave_output = loop.remove_reader
    if kernel.output >= 0:
        kernel.follow_output(kernel.output)
