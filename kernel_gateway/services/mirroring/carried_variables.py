"""What kernels had written down of their variables, brought from the disk of a lost sandbox to the next of its session.

Between the two it lies in a file in this service's own directory: the next sandbox is made when the session is next
used, and the old disk is not kept until then. The bytes come from a sandbox and go into one. The launcher opens them,
read only and through no link; here they are counted and nothing else. They are on this host alone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO, Final

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, QuotaReached, translated
from kernel_gateway.services.mirroring.snapshots import DIRECTORY, OVERHEAD_BYTES, PIECE_BYTES
from kernel_gateway.storage import executions, hibernations, sessions
from kernel_gateway.storage.database import Database
from kernels.errors import KernelsError, SandboxFailed
from kernels.guest.workspace.batch import head
from kernels.guest_client.client import GuestClient
from kernels.guest_client.packed_directory import MOST_FILES, unpack
from kernels.sandbox import SandboxRuntime

log = structlog.get_logger(__name__)
TAKE_SECONDS: Final = 120.0
"""Longest time they take from a lost sandbox's disk: the session's next use waits for it."""
LAY_SECONDS: Final = 300.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")
"""Of files that kernels make there; what is called otherwise is none of theirs."""
_PART: Final = ".part"


class CarriedVariables:
    """Of all sessions of this service, in `directory`; at most one state of each."""

    def __init__(
        self,
        runtime: SandboxRuntime,
        database: Database,
        directory: Path,
        require_room: Callable[[int], None],
        *,
        most_bytes: int,
    ) -> None:
        """All of one principal's take `most_bytes` with what hibernated sessions take."""
        self._runtime = runtime
        self._database = database
        self._directory = directory
        self._require_room = require_room
        self._most_bytes = most_bytes

    async def take(self, session_id: str, sandbox_id: str, generation: int, most_bytes: int) -> str | None:
        """Copy what kernels of a lost sandbox have kept, before its disk goes; in a sentence why that is not possible.

        `generation` is that of the kernel whose variables are wanted. What it may write is `most_bytes`, and as much
        again: while it writes new files the old ones stay.
        """
        unfinished = self._directory / f"{session_id}{_PART}"
        try:
            async with asyncio.timeout(TAKE_SECONDS):
                self._directory.mkdir(parents=True, exist_ok=True)
                with unfinished.open("wb") as file:
                    await self._copy(sandbox_id, file, 2 * most_bytes + OVERHEAD_BYTES)
                    if file.tell():
                        await asyncio.to_thread(_sync, file)
                if unfinished.stat().st_size:
                    with suppress(DatabaseUnavailable):  # the database is away: what cannot be counted is kept
                        own, hibernated = await self._database.run(lambda c: _find_own(c, session_id))
                        # Nothing waits from here on: others that are taken meanwhile see this one.
                        self._require_quota(own - {session_id}, hibernated + unfinished.stat().st_size)
                    for older in self._list(session_id):
                        older.unlink()
                    unfinished.replace(self._directory / f"{session_id}.{generation}")
        except (GatewayError, KernelsError, OSError, TimeoutError) as error:
            log.warning("variables_not_carried", session=session_id, error=str(error) or repr(error))
            if isinstance(error, OSError) and error.strerror:
                return error.strerror  # without the place on this host
            return str(error) or f"that took longer than {TAKE_SECONDS:g} s"
        finally:
            unfinished.unlink(missing_ok=True)
        return None

    def sum_bytes(self, connection: Connection, principal_id: str) -> int:
        """What all of one principal's take on this host; their room is that of hibernated sessions."""
        return self._sum(sessions.list_own_ids(connection, principal_id))

    def _sum(self, session_ids: set[str]) -> int:
        return sum(_measure(each) for each in self._list("*") if each.stem in session_ids)

    def _require_quota(self, others: set[str], taken: int) -> None:
        """`others`: the other sessions of its principal."""
        taken += self._sum(others)
        if taken > self._most_bytes:
            raise QuotaReached(
                f"with your hibernated sessions and those of other lost sandboxes they take {taken:,} bytes, which is"
                f" more than {self._most_bytes:,} (hibernated_mb): use or stop such a session",
                quota=self._most_bytes,
            )

    async def _copy(self, sandbox_id: str, file: BinaryIO, most_bytes: int) -> None:
        try:
            directory = await self._runtime.open_kept(sandbox_id, "")
        except FileNotFoundError:
            return  # no kernel has kept anything
        try:
            names = await asyncio.to_thread(_list, directory)
        finally:
            os.close(directory)
        for name in names:
            try:
                source = await self._runtime.open_kept(sandbox_id, name)
            except OSError as error:  # no file, or one that the disk has lost: the others are not
                log.warning("kept_file_not_opened", sandbox=sandbox_id, error=str(error))
                continue
            try:
                await asyncio.to_thread(self._append, file, name, source, most_bytes)
            finally:
                os.close(source)

    def _append(self, file: BinaryIO, name: str, source: int, most_bytes: int) -> None:
        """One file, but not what its disk does not give: then the kernel that is to have it says what it misses."""
        found, begins_at = os.fstat(source), file.tell()
        if not stat.S_ISREG(found.st_mode):
            return
        begin = head(f"{DIRECTORY}/{name}", found.st_size)
        if begins_at + len(begin) + found.st_size > most_bytes:
            raise SandboxFailed(f"there is more than {most_bytes:,} bytes")
        self._require_room(found.st_size)
        file.write(begin)
        left = found.st_size
        while left and (piece := _read_some(source, left)):
            file.write(piece)
            left -= len(piece)
        if left:
            file.seek(begins_at)
            file.truncate()

    def find(self, session_id: str) -> int | None:
        """Of which generation there is something for a session's next kernel."""
        for each in self._list(session_id):
            return int(each.suffix[1:])
        return None

    async def is_next(self, session_id: str, generation: int) -> bool:
        """Whether no code has run in a later kernel, on whichever host, which would have newer variables."""
        return not await self._database.run(lambda c: executions.has_run_after(c, session_id, generation))

    async def lay(self, guest: GuestClient, session_id: str) -> None:
        """Write it down in a sandbox, as it was in the one before; raises our errors."""
        with translated():
            for place in self._list(session_id):
                async with asyncio.timeout(LAY_SECONDS), aclosing(_read(place)) as chunks:
                    await unpack(guest, chunks)

    def remove(self, session_id: str) -> None:
        """It is not to be given to any kernel any more; absent is fine."""
        try:
            for each in self._directory.glob(f"{session_id}.*"):  # what a killed process has left unfinished, too
                each.unlink(missing_ok=True)
        except OSError as error:  # `remove_ended` tries again
            log.warning("carried_variables_not_removed", session=session_id, error=str(error))

    async def remove_ended(self) -> None:
        """Called again and again: remove those of sessions that have ended, or are another gateway's."""
        found = {each.stem for each in self._directory.glob("*")}
        if found:
            live = await self._database.run(lambda c: {row.id for row in sessions.list_live(c)})
            for session_id in found - live:
                self.remove(session_id)

    def _list(self, session_id: str) -> list[Path]:
        return [each for each in self._directory.glob(f"{session_id}.*") if each.suffix[1:].isdecimal()]


def _find_own(connection: Connection, session_id: str) -> tuple[set[str], int]:
    """The sessions of a session's principal, and what its hibernated ones take."""
    owner = sessions.owner_of(connection, session_id)
    principal_id = "" if owner is None else owner[0]
    return sessions.list_own_ids(connection, principal_id), hibernations.sum_bytes(connection, principal_id)


def _measure(place: Path) -> int:
    """Nothing of one that its session's next sandbox was given meanwhile."""
    try:
        return place.stat().st_size
    except FileNotFoundError:
        return 0


def _list(directory: int) -> list[str]:
    """The names in a directory that may be of files of kept variables; raises OSError when they are too many."""
    with os.scandir(directory) as entries:
        names = [each.name for each in itertools.islice(entries, MOST_FILES + 1)]
    if len(names) > MOST_FILES:
        raise SandboxFailed(f"there are more than {MOST_FILES:,} files")
    return sorted(filter(_NAME.fullmatch, names))


def _read_some(source: int, most_bytes: int) -> bytes:
    try:
        return os.read(source, min(most_bytes, PIECE_BYTES))
    except OSError as error:
        log.warning("kept_file_not_read", error=str(error))
        return b""


def _sync(file: BinaryIO) -> None:
    """The disk that it was copied from goes now."""
    file.flush()
    os.fsync(file.fileno())


async def _read(place: Path) -> AsyncGenerator[bytes]:
    with await asyncio.to_thread(place.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
