"""A session's notebook as a page or a script, made in a process of its own that has bounds.

What makes a view are other people's parsers, and what they read is hostile: text that is slow to match would hold up
the whole service if it were matched here, and code that breaks a parser would have all that the service has. So it
happens in a process that may take so much memory and so long, and that the launcher starts apart from all else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from kernel_gateway.errors import DeadlinePassed, InternalError, InvalidRequest, PayloadTooLarge
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.settings import Settings
from kernel_gateway.viewers import VIEW_MEMORY_BYTES, VIEWS_AT_ONCE, viewer_plan
from kernel_gateway.views.__main__ import DONE, FAILED, REFUSED
from kernels.errors import LauncherRefused
from kernels.launcher.viewers import Form, Viewers, start_here

MOST_VIEW_BYTES: Final = 300_000_000
_PIECE_BYTES: Final = 1 << 20
_SIZE_DIGITS: Final = 12
_SHOWN: Final = 100

log = structlog.get_logger(__name__)
Start = Callable[[Form], Awaitable[socket.socket]]
"""Starts a process that makes a view, and gives its stream."""


class Views:
    """Makes them one after another, a few at once; nothing is kept."""

    def __init__(self, notebooks: Notebooks, settings: Settings, start: Start | None = None) -> None:
        """`start` is the launcher's way; without a launcher it is a process of our own user."""
        self._notebooks = notebooks
        self._settings = settings
        self._start = start or Viewers(viewer_plan(settings, memory_bytes=VIEW_MEMORY_BYTES), start_here).start
        self._turns = FairShares("a process to make a page or a script", VIEWS_AT_ONCE)

    async def view(self, principal: Principal, session_id: str, form: Form) -> bytes:
        """The page or the script of a session, live or ended."""
        seconds = self._settings.view_seconds
        try:
            # Who waits for a place holds no notebook in memory, and has all of the time once it has the place.
            async with self._turns.place(principal.id), asyncio.timeout(seconds):
                return await self._render(await self._notebook(principal, session_id), form)
        except LauncherRefused as error:
            raise InvalidRequest(f"{error}: get the notebook as ipynb") from None
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

    async def _render(self, notebook: bytes, form: Form) -> bytes:
        with await self._start(form) as stream:
            reader, writer = await asyncio.open_connection(sock=stream, limit=_PIECE_BYTES)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_feed(writer, notebook))
                    answer = group.create_task(_read(reader))
            finally:
                writer.transport.abort()  # with what is still to be sent: the process ends when its reader is gone
        word, content = answer.result()
        if word == REFUSED:
            raise InvalidRequest(content.decode("utf-8", "replace"))
        if word != DONE:
            said, error = (each.decode("ascii", "replace") for each in (word, content[:_SHOWN]))
            log.warning("view_failed", form=form, answer=said, error=error, notebook_bytes=len(notebook))
            if word == FAILED:
                raise InternalError("the view could not be made; the service's log has the particulars")
            raise PayloadTooLarge("the notebook is too large to be made into a view: get it as ipynb")
        return content


async def _feed(writer: asyncio.StreamWriter, notebook: bytes) -> None:
    try:
        writer.write(notebook)
        await writer.drain()
        writer.write_eof()
    except ConnectionError:
        return  # it has ended, and says why


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The word that an answer begins with and what follows it; no word when it is cut off or longer than a view."""
    try:
        word, _, size = (await reader.readuntil(b"\n")).rstrip(b"\n").partition(b" ")
        if not size.isdigit() or len(size) > _SIZE_DIGITS or int(size) > MOST_VIEW_BYTES:
            return b"", b""
        return word, await reader.readexactly(int(size))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return b"", b""
