"""`python -m kernels.keeper`: an order and requests on stdin, reports on stdout; see `kernels.keeper.wire`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import msgspec

from kernels.errors import KernelsError
from kernels.keeper.keeping import SandboxProcess
from kernels.keeper.wire import LINE_BYTES, LaunchRequest, Report, Request


def main() -> None:
    asyncio.run(_main())


async def _main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    leaving = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, leaving.set)
    _follow_parent(loop, leaving)
    try:
        order = msgspec.json.decode(await lines.readline(), type=LaunchRequest)
    except (msgspec.MsgspecError, ValueError) as error:
        _tell(Report("failed", detail=f"that is no order for a keeper: {error}"))
    else:
        await _keep(order, lines, leaving)


async def _keep(order: LaunchRequest, lines: asyncio.StreamReader, leaving: asyncio.Event) -> None:
    """Keep what is ordered until the caller says that it is enough, or can say nothing any more."""
    try:
        keeping = SandboxProcess(order, _tell)
    except KernelsError as error:
        return _tell(Report("failed", detail=str(error)))
    tasks = [asyncio.create_task(each) for each in (_serve(keeping, lines), leaving.wait(), keeping.gone.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await keeping.remove()


async def _serve(keeping: SandboxProcess, lines: asyncio.StreamReader) -> None:
    """Start, then do as asked, until the caller closes the pipe or says `end`."""
    starting = asyncio.create_task(_start(keeping))
    try:
        while line := await lines.readline():
            request = msgspec.json.decode(line, type=Request)
            if request.do == "end":
                return
            await asyncio.wait(
                {starting}
            )  # it ends: the OCI runtime's commands and the guest's first answer have deadlines
            await keeping.do(request)
    finally:
        starting.cancel()
        # To its end, however long that takes: what is half made is made whole and taken back, or it would stay behind.
        await asyncio.gather(starting, return_exceptions=True)


async def _start(keeping: SandboxProcess) -> None:
    try:
        await keeping.start()
    except (KernelsError, OSError) as error:
        _tell(Report("failed", detail=str(error)))
        keeping.gone.set()


def _follow_parent(loop: asyncio.AbstractEventLoop, leaving: asyncio.Event) -> None:
    """Leave when the caller's process ends: a fork of it may hold the pipe open."""
    try:
        parent = os.pidfd_open(os.getppid())
    except OSError:  # gone already; the pipe says so too
        leaving.set()
        return
    loop.add_reader(parent, leaving.set)


def _tell(report: Report) -> None:
    with contextlib.suppress(OSError):  # the caller is gone: the pipe of the requests says so too
        os.write(sys.stdout.fileno(), msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
