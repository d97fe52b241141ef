"""A command while it runs, for those who follow it: that it began, what it puts out, how it ended; and its stop.

Its guest keeps what it puts out, and is asked for more once a second while somebody follows: a command at which nobody
looks costs nothing.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from kernel_gateway.errors import translated
from kernel_gateway.services.background import Background
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.outcomes import closing_event
from kernel_gateway.storage.executions import ExecutionRow
from kernels.errors import GuestRefused, KernelsError
from kernels.guest_client.client import GuestClient
from kernels.guest_client.programs import ProgramOutput
from sandcell.models.executions import Event
from sandcell.models.sync import ExecutionSync

log = structlog.get_logger(__name__)
LOOK_SECONDS: Final = 1.0
LAST_LOOK_SECONDS: Final = 2.0
"""How long its end waits for what its followers have not got yet."""
STOP_SECONDS: Final = 15.0
START_LOOK_SECONDS: Final = 0.1
MORE: Final = "\n[... it goes on; head and tail show once it has ended ...]\n"


class RunningCommand:
    """A command, background task or program of a live session, from its start until its last row is stored."""

    def __init__(
        self,
        row: ExecutionRow,
        guest: Callable[[], GuestClient | None],
        background: Background,
        *,
        log_bytes: int,
        output_bytes: int,
        base: int = 0,
    ) -> None:
        """Followers get `output_bytes` of each stream. `base` is as `EventLog` has it, where another process began."""
        self._row = row
        self._guest = guest
        self._background = background
        self._output_bytes = output_bytes
        self._log = EventLog(log_bytes, base)
        self._log.append("started", {"execution_id": row.id, "generation": row.generation})
        self._streams = {name: _Stream() for name in ("stdout", "stderr")}
        self._followers = 0
        self._reading: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._over = False
        self._ended = asyncio.Event()
        self.caller_gone = asyncio.Event()
        """Set once nobody waits for its end any more."""
        self.found_again = False
        """Whether its caller, whose answer was lost, has asked for it again."""

    async def follow(self, after: int) -> AsyncIterator[Event]:
        """Events past sequence `after`; `ended` is the last."""
        self._followers += 1
        try:
            if self._reading is None and not self._over:
                self._reading = self._background.spawn(self._read(), f"output of {self._row.id}")
            async for event in self._log.follow(after):
                yield event
        finally:
            self._followers -= 1

    async def wait_ended(self) -> None:
        """Return when how it ended is stored, or its session has ended."""
        await self._ended.wait()

    async def stop(self) -> None:
        """End it, and wait a while for that to be on record; raises our errors when its guest cannot be asked."""
        guest = self._guest()
        if guest is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                with translated(), contextlib.suppress(GuestRefused):  # it has ended meanwhile
                    if self._row.under_way is not None and self._row.under_way.program:
                        await self._stop_program(guest)
                    else:
                        await guest.stop_command(self._row.id)
                await self._ended.wait()

    async def _stop_program(self, guest: GuestClient) -> None:
        """Tell it to end, once its guest has started it: its row comes first."""
        while not self._ended.is_set():
            found = next((each for each in await guest.list_programs() if each.execution == self._row.id), None)
            if found is not None:
                if not found.ended:
                    await guest.tell_program(found.pid, "signal", signal="SIGTERM")
                return
            await asyncio.sleep(START_LOOK_SECONDS)

    async def read_last(self) -> int:
        """It has ended: tell its followers what they have not got yet. The number of the event that tells its end."""
        self._over = True
        if self._reading is not None:
            self._reading.cancel()
        if self._followers:
            with contextlib.suppress(TimeoutError, KernelsError):
                async with asyncio.timeout(LAST_LOOK_SECONDS):
                    await self._look()
        return self._log.last_sequence + 1

    def end(self, row: ExecutionRow, sync: ExecutionSync) -> None:
        """How it ended is stored."""
        self._log.append("ended", closing_event(row, sync))
        self.close()

    def close(self) -> None:
        """Nothing comes any more."""
        self._over = True
        self._log.finish()
        self._ended.set()
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            while self._followers:
                await self._look()
                await asyncio.sleep(LOOK_SECONDS)
        except KernelsError as error:  # its guest is of an older release, or gone: followers get its end all the same
            log.debug("output_not_read", session=self._row.session_id, execution=self._row.id, error=str(error))
        finally:
            self._reading = None

    async def _look(self) -> None:
        """Ask its guest for more, one after another: what was told is not told again."""
        async with self._looking:
            guest = self._guest()
            if guest is None:
                return
            positions = {name: each.position for name, each in self._streams.items()}
            try:
                parts = await guest.read_output(self._row.id, positions)
            except GuestRefused as error:
                if error.status != 410:
                    raise
                return  # it has not begun yet
            for part in parts:
                stream = self._streams[part.stream]
                if text := stream.take(part, self._output_bytes):
                    self._log.append("stream", {"name": part.stream, "text": text})


class _Stream:
    """How much of one stream was told. Pure."""

    def __init__(self) -> None:
        self.position = 0
        self._told_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, part: ProgramOutput, most_bytes: int) -> str:
        """The text that followers get of the next part; once they have had `most_bytes`, none."""
        begin = self.position if part.at is None else part.at
        missed, self.position = begin - self.position, begin + len(part.data)
        if self._told_bytes >= most_bytes:
            return ""
        text = ""
        if missed > 0:
            text = f"{self._decoder.decode(b'', final=True)}\n[... {missed} bytes cut ...]\n"
            self._decoder.reset()
        room = most_bytes - self._told_bytes
        self._told_bytes += len(part.data)
        text += self._decoder.decode(part.data[:room], final=len(part.data) > room)
        return text + MORE if len(part.data) > room else text
