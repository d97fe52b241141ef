"""What kernels have written down of their variables, and home directories, copied from sandboxes to the store and back.

One object for each snapshot, under a prefix beside the workspaces', where no list of files shows it. Its bytes come
from a sandbox and go into one: here they are counted and nothing else.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from kernel_gateway.errors import translated
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernels.errors import SandboxFailed
from kernels.guest_client.client import GuestClient
from kernels.guest_client.packed_directory import list_packed, unpack
from workspace_sync.store import FileSource

DIRECTORY: Final = "home/user/.cache/sandcell/variables"
"""Where `kernels/guest/in_kernel/kept_variables.py` has them, from the sandbox's root."""
HOME: Final = "home/user"
"""Whose files go with them, but for those in hidden directories: caches, packages, histories."""
NO_HOME: Final = "they are not kept with it"
OVERHEAD_BYTES: Final = 16 << 20
"""What the index and the files' heads may take besides the values."""
PIECE_BYTES: Final = 4 << 20
"""What a thread reads or writes of a snapshot at once: on a busy host each change of threads is waited for."""
COPY_SECONDS: Final = 300.0
"""Longest time one snapshot takes from the sandbox to this host, or into a sandbox."""


class Put(msgspec.Struct, frozen=True):
    """What was copied: its size, and in a sentence why the home directory is not in it, if it is not."""

    size: int
    without_home: str | None = None


class Snapshots:
    """`directory` is this service's own: a snapshot is there, under no name, while it is on its way to the store."""

    def __init__(self, mirrors: Mirrors, directory: Path, require_room: Callable[[int], None]) -> None:
        self._mirrors = mirrors
        self._directory = directory
        self._require_room = require_room

    async def put(self, guest: GuestClient, name: str, most_bytes: int, *, home: bool = True) -> Put:
        """Copy what the kernel has written down, and the home directory; the store has them, whole, when this returns.

        Without `home` it is left out: what is laid into a sandbox that goes on must not undo its files there.

        Raises SandboxUnavailable, NoSpace, StoreUnavailable, DeadlinePassed.
        """
        with translated():
            async with asyncio.timeout(COPY_SECONDS):
                variables = await list_packed(guest, DIRECTORY, most_bytes + OVERHEAD_BYTES)
                if isinstance(variables, str):
                    raise SandboxFailed(variables)
                files = await list_packed(guest, HOME, most_bytes, below=True) if home else NO_HOME
                parts = [variables] if isinstance(files, str) else [variables, files]
                self._require_room(sum(part.size for part in parts))
                file = await asyncio.to_thread(self._open)
                try:
                    for part in parts:
                        async with aclosing(part.chunks(guest)) as chunks:
                            await _write(file, chunks)
                    size = file.tell()
                    file.seek(0)
                except BaseException:
                    file.close()
                    raise
            await self._make(name, lambda: self._put(name, file, size))
        return Put(size, files if isinstance(files, str) else None)

    def _open(self) -> BinaryIO:
        self._directory.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._directory)

    def _put(self, name: str, file: BinaryIO, size: int) -> None:
        with file:
            self._mirrors.store.put(_key(name), cast("BinaryIO", FileSource(file, size)), size)

    async def lay(self, guest: GuestClient, name: str) -> None:
        """Write it down in a sandbox, as it was in the one before; raises as `put` does, and NotFound."""
        with translated():
            stream = await self._mirrors.run(lambda: self._mirrors.store.get(_key(name)))
            async with asyncio.timeout(COPY_SECONDS), aclosing(self._read(stream)) as chunks:
                await unpack(guest, chunks)

    async def _read(self, stream: BinaryIO) -> AsyncGenerator[bytes]:
        try:
            while chunk := await self._mirrors.run(lambda: stream.read(PIECE_BYTES)):
                yield chunk
        finally:
            stream.close()

    async def copy(self, name: str, other: str) -> None:
        """Have it a second time, inside the store; raises NotFound, StoreUnavailable."""
        with translated():
            await self._make(other, lambda: self._mirrors.store.copy(_key(name), _key(other)))

    async def _make(self, name: str, make: Callable[[], object]) -> None:
        """Have the store make it. What is there only after it was given up goes again: nobody looks for it then."""
        made, given_up = threading.Event(), threading.Event()

        def remove() -> None:
            self._mirrors.store.delete([_key(name)])

        def make_unless_given_up() -> None:
            make()
            made.set()
            if given_up.is_set():
                remove()

        try:
            await self._mirrors.run(make_unless_given_up)
        except BaseException:
            given_up.set()
            if made.is_set():  # that may have come too late for the thread to see
                with suppress(RuntimeError):  # the service ends
                    self._mirrors.executor.submit(remove)
            raise

    async def remove(self, name: str) -> None:
        """Remove it from the store; an absent one is fine. Raises StoreUnavailable."""
        with translated():
            await self._mirrors.run(lambda: self._mirrors.store.delete([_key(name)]))


async def _write(file: BinaryIO, chunks: AsyncIterator[bytes]) -> None:
    gathered = bytearray()
    async for chunk in chunks:
        gathered += chunk
        if len(gathered) >= PIECE_BYTES:
            await asyncio.to_thread(file.write, gathered)
            gathered = bytearray()
    await asyncio.to_thread(file.write, gathered)


def _key(name: str) -> str:
    return f"variables/{name}"
