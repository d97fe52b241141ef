"""A request's body: room for it first, then its bytes as they come, then all of it at once.

A client that sends slowly, or many that do, must not fill the service's memory: a small body is kept as it comes, what
a larger one has beyond a bound goes to a file without a name, and only a body that is whole is brought into memory, in
its turn.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import IO, Final

from kernel_gateway.errors import NoSpace
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.admission.fair_shares import Share

SMALL_BODY: Final = 65_536
"""A body of up to this many bytes needs no room: the number of connections bounds those."""
IN_MEMORY_BYTES: Final = 1_000_000
WHOLE_FACTOR: Final = 2.5
"""A body that is read takes its own size, and that of what is decoded from it."""


class Body:
    """One request's. `release` lets go of everything, at any time."""

    def __init__(self, room: BodyRoom) -> None:
        self.size = 0
        self._made_bytes = 0
        self._room = room
        self._buffer = bytearray()
        self._file: IO[bytes] | None = None
        self._writing = False
        self._released = False
        self._arriving: list[Share] = []
        self._whole: Share | None = None

    async def expect(self, owner: str, size: int) -> None:
        """Wait for room for a body of at most this size to arrive; raises LimitReached, NoSpace."""
        if size <= SMALL_BODY:
            return
        self._hold(await self._room.arriving.take(owner, min(size, IN_MEMORY_BYTES)))
        if size > IN_MEMORY_BYTES:
            self._room.require_disk(size)
            self._hold(await self._room.spooled.take(owner, size))

    def _hold(self, held: Share) -> None:
        if self._released:  # while it waited
            held.release()
        else:
            self._arriving.append(held)

    async def add(self, chunk: bytes) -> None:
        """Keep a piece of it; raises NoSpace."""
        self._buffer += chunk
        self.size += len(chunk)
        if len(self._buffer) > IN_MEMORY_BYTES:
            buffer, self._buffer = self._buffer, bytearray()
            await self._spool(buffer)

    async def _spool(self, data: bytearray) -> None:
        self._writing = True
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as error:
            raise NoSpace(f"the body cannot be kept on the host's disk: {error.strerror}") from None
        finally:
            self._writing = False
            if self._released:
                self._close()

    def _write(self, data: bytearray) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._room.directory)  # noqa: SIM115 - closed by `release`
        self._file.write(data)

    async def whole(self, owner: str, made_bytes: int = 0) -> bytearray:
        """All of it, in memory, when there is room for it; raises LimitReached. The body is not kept any longer.

        `made_bytes` is what will be unpacked from it once it is read. Room for that is taken at once with its own:
        a request that held the one and waited for the other could wait for itself.
        """
        self._made_bytes = made_bytes
        if self.size + made_bytes > SMALL_BODY:
            most = max(int(self.size * WHOLE_FACTOR), self.size + made_bytes)
            self._whole = await self._room.whole.take(owner, most)
        data = self._buffer if self._file is None else await asyncio.to_thread(self._read, self._file)
        self._leave()
        return data

    def _read(self, file: IO[bytes]) -> bytearray:
        data, spooled = bytearray(self.size), self.size - len(self._buffer)
        file.seek(0)
        with memoryview(data) as view:
            done = 0
            while done < spooled:
                read = file.readinto(view[done:spooled])  # type: ignore[attr-defined]
                if not read:
                    raise OSError("the file of the body is shorter than what was written")
                done += read
            view[spooled:] = self._buffer
        return data

    def note_decoded(self) -> None:
        """What was read is not needed any more, only what was made of it."""
        if self._whole is not None:
            self._whole.shrink(self.size + self._made_bytes)

    def hand_over(self) -> Share | None:
        """The memory is the caller's to release from now on."""
        held, self._whole = self._whole, None
        return held

    def release(self) -> None:
        """Let go of the body, and of the room for it."""
        self._released = True
        self._leave()
        if self._whole is not None:
            self._whole.release()

    def _leave(self) -> None:
        self._buffer = bytearray()
        for held in self._arriving:
            held.release()
        self._arriving.clear()
        if not self._writing:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
