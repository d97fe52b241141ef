"""A session's notebook as a page or a script, made in a process of its own that has bounds.

What makes a view are other people's parsers, and what they read is hostile: text that is slow to match would hold up
the whole service if it were matched here. So it happens in a process that may take so much memory and so long.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from typing import Final, Literal

import structlog

from kernel_gateway.errors import DeadlinePassed, InternalError, InvalidRequest, PayloadTooLarge
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.fair_shares import FairShares
from kernel_gateway.services.notebooks import Notebooks
from kernel_gateway.settings import Settings
from kernel_gateway.views.__main__ import REFUSED, TOO_LARGE

VIEWS_AT_ONCE: Final = 2
"""Further ones wait, and a principal's for those of others: nobody has all of these places."""
MOST_VIEW_BYTES: Final = 300_000_000
VIEW_MEMORY_BYTES: Final = 4_000_000_000
_PIECE_BYTES: Final = 1 << 20
_MOST_ERROR_BYTES: Final = 4096

log = structlog.get_logger(__name__)
Form = Literal["html", "py"]


class Views:
    """Makes them one after another, a few at once; nothing is kept."""

    def __init__(self, notebooks: Notebooks, settings: Settings) -> None:
        self._notebooks = notebooks
        self._settings = settings
        self._turns = FairShares("a process to make a page or a script", VIEWS_AT_ONCE)

    async def view(self, principal: Principal, session_id: str, form: Form) -> bytes:
        """The page or the script of a session, live or ended."""
        seconds = self._settings.view_seconds
        try:
            # Who waits for a place holds no notebook in memory, and has all of the time once it has the place.
            async with self._turns.place(principal.id), asyncio.timeout(seconds):
                return await self._made(await self._notebook(principal, session_id), form)
        except TimeoutError:
            raise DeadlinePassed(
                f"the view could not be made within {seconds:g} seconds (view_seconds): get the notebook as ipynb"
            ) from None

    async def _notebook(self, principal: Principal, session_id: str) -> bytes:
        notebook, most = await self._notebooks.notebook(principal, session_id), self._settings.notebook_bytes
        if len(notebook) > most:
            raise PayloadTooLarge(
                f"the notebook has {len(notebook):,} bytes, and those up to {most:,} are shown: get it as ipynb"
            )
        return notebook

    async def _made(self, notebook: bytes, form: Form) -> bytes:
        bounds = (self._settings.notebook_bytes, VIEW_MEMORY_BYTES, max(1, round(self._settings.view_seconds)))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-m", "kernel_gateway.views", form, *map(str, bounds)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"},
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_feed(process, notebook))
                made = group.create_task(_read(process.stdout, MOST_VIEW_BYTES))
                said = group.create_task(_read(process.stderr, _MOST_ERROR_BYTES))
            status = await process.wait()
        finally:
            await _end(process)
        if status == REFUSED:
            raise InvalidRequest((said.result() or b"").decode("utf-8", "replace"))
        content = made.result()
        if status != 0 or content is None:
            log.warning("view_failed", form=form, status=status, notebook_bytes=len(notebook))
            raise _failure(status, complete=content is not None)
        return content


async def _feed(process: Process, notebook: bytes) -> None:
    stdin = process.stdin
    if stdin is None:
        raise RuntimeError("the process was started with pipes")
    try:
        stdin.write(notebook)
        await stdin.drain()
        stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # it has ended, and says why


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes | None:
    """All that comes, or None when it is more than `most`; read to its end in any case."""
    if stream is None:
        raise RuntimeError("the process was started with pipes")
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(_PIECE_BYTES):
        size += len(piece)
        if size <= most:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if size <= most else None


async def _end(process: Process) -> None:
    """Whatever happened, it is gone afterwards."""
    if process.returncode is None:
        process.kill()
    await process.wait()


def _failure(status: int, *, complete: bool) -> PayloadTooLarge | InternalError:
    if not complete or status == TOO_LARGE or status < 0:  # killed: out of memory or of time
        return PayloadTooLarge("the notebook is too large to be made into a view: get it as ipynb")
    return InternalError("the view could not be made; the service's log has the particulars")
