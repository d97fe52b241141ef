"""Bytes of files that arrive in parts, on this host's disk until the file is whole; knows nothing of sessions.

Each upload has two files under `<data_dir>/state/uploads`: `<id>.json` says what it is, `<id>.bytes` has what has come
of it, and its length is where the next part begins. So a process that is killed loses no byte that it has written, and
what it has written after its last answer counts as well: a client asks how far it is before it goes on.

Nothing here counts as a file of a session or workspace. What is finished keeps its `<id>.json` for a while, for clients
that have lost the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import structlog

from kernel_gateway.errors import (
    ChecksumMismatch,
    Conflict,
    IdempotencyConflict,
    InvalidRequest,
    NoSpace,
    NotFound,
    PayloadTooLarge,
    QuotaReached,
    WrongOffset,
)
from kernel_gateway.services.clock import Clock
from kernel_gateway.settings import Settings

log = structlog.get_logger(__name__)
ABOUT: Final = ".json"
BYTES: Final = ".bytes"
READ_BYTES: Final = 1_000_000
"""Of a staged file in memory, while its checksum is made."""
PART: Final = ".part"
"""What an `<id>.json` is called until it is whole."""
NOTED: Final = ("id", "owner", "principal_id", "path", "size_bytes", "key", "created", "touched", "result")


@dataclass
class Staged:
    """One upload. `owner` is what the file will be in, `result` what was written, once it is complete."""

    id: str
    owner: str
    principal_id: str
    path: str
    size_bytes: int | None
    key: str | None
    created: float
    touched: float
    offset: int = 0
    result: dict[str, Any] | None = None
    writer: object = None
    """The request that adds to it now: an earlier one, whose client is gone, adds nothing any more."""
    completing: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def reserved(self) -> int:
        """Bytes that it has, or will have."""
        return 0 if self.result is not None else max(self.offset, self.size_bytes or 0)


class StagedUploads:
    """Uploads of one service, by their ids. Those whose time is over are as if they were not there."""

    def __init__(self, settings: Settings, clock: Clock, require_disk: Callable[[int], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._require_disk = require_disk
        self._directory = settings.state_path / "uploads"
        self._all: dict[str, dict[str, Staged]] = {}
        """By principal and id."""

    def load(self) -> None:
        """Take up what an earlier process left, and remove what it left half made; called once at start."""
        if not self._directory.is_dir():
            return
        for each in self._directory.glob("*" + ABOUT):
            staged = self._read(each)
            if staged is not None:
                self._of(staged.principal_id)[staged.id] = staged
        _remove(self._find_unknown(self._list_files()))

    def _list_files(self) -> Sequence[Path]:
        return tuple(self._directory.iterdir()) if self._directory.is_dir() else ()

    def _find_unknown(self, files: Sequence[Path]) -> Sequence[Path]:
        """Files of no upload, and bytes of those that are complete. An upload is known before it has any."""
        known = {each.id: each for each in self._each()}
        return [
            file
            for file in files
            if file.stem not in known or (file.suffix == BYTES and known[file.stem].result is not None)
        ]

    def _of(self, principal_id: str) -> dict[str, Staged]:
        return self._all.setdefault(principal_id, {})

    def _each(self) -> list[Staged]:
        return [staged for mine in self._all.values() for staged in mine.values()]

    def _is_known(self, staged: Staged) -> bool:
        return staged.id in self._all.get(staged.principal_id, ())

    def _read(self, file: Path) -> Staged | None:
        try:
            staged = Staged(**json.loads(file.read_bytes()))
            if staged.id != file.stem:
                raise ValueError("it has another id")
            if staged.result is None:
                found = file.with_suffix(BYTES).stat()
                staged.offset, staged.touched = found.st_size, max(staged.touched, found.st_mtime)
        except (OSError, ValueError, TypeError) as error:
            log.warning("upload_not_taken_up", upload=file.stem, error=str(error))
            return None
        return staged

    def expires(self, staged: Staged) -> float:
        """When it is removed, if nothing more comes of it."""
        return staged.touched + self._settings.upload_kept_seconds

    def find(self, principal_id: str, owner: str, upload_id: str) -> Staged:
        """Raises NotFound, for another principal's as well."""
        staged = self._all.get(principal_id, {}).get(upload_id)
        if staged is None or staged.owner != owner or self._is_over(staged):
            raise NotFound("there is no such upload: it was given up, has expired, or was never begun")
        return staged

    def list_open(self, principal_id: str, owner: str | None = None) -> list[Staged]:
        """A principal's that are not complete, all or those of a session or workspace, in the order they were begun."""
        mine = self._all.get(principal_id, {}).values()
        wanted = [each for each in mine if each.result is None and owner in (None, each.owner)]
        return sorted((each for each in wanted if not self._is_over(each)), key=lambda each: (each.created, each.id))

    def _is_over(self, staged: Staged) -> bool:
        return self.expires(staged) <= self._clock.now() and not staged.completing

    async def create(self, principal_id: str, owner: str, path: str, size: int | None, key: str | None) -> Staged:
        """Begin an upload, or go on with the one that was begun with this key.

        Raises PayloadTooLarge, QuotaReached, NoSpace, IdempotencyConflict.
        """
        before = next(
            (each for each in self.list_open(principal_id, owner) if key is not None and each.key == key), None
        )
        if before is not None:
            if (before.path, before.size_bytes) != (path, size):
                raise IdempotencyConflict("the idempotency key was used with another upload", upload_id=before.id)
            return before
        self._require_number(principal_id, owner)
        now = self._clock.now()
        staged = Staged(str(uuid.uuid4()), owner, principal_id, path, size, key, now, now)
        self._require_bytes(staged, size or 0)
        self._require_disk(size or 0)
        self._of(principal_id)[staged.id] = staged  # counted before the disk is waited for
        try:
            await asyncio.to_thread(self._make, staged)
        except OSError as error:
            await self._drop([staged])
            raise _no_space(error) from None
        return staged

    def _require_number(self, principal_id: str, owner: str) -> None:
        settings = self._settings
        mine = self.list_open(principal_id)
        for quota, count in (
            (settings.uploads_per_session, sum(each.owner == owner for each in mine)),
            (settings.uploads_per_principal, len(mine)),
        ):
            if count >= quota:
                raise QuotaReached(f"{quota} uploads are open already: complete or give up one", quota=quota)

    def _require_bytes(self, staged: Staged, reserved: int) -> None:
        """Room for an upload of so many bytes, beside what others of its owner and its principal reserve."""
        settings = self._settings
        if reserved > settings.upload_session_bytes:
            most = settings.upload_session_bytes
            raise PayloadTooLarge(f"an upload has at most {most:,} bytes", limit_bytes=most)
        others = [each for each in self.list_open(staged.principal_id) if each is not staged]
        for quota, taken in (
            (settings.upload_session_bytes, sum(each.reserved for each in others if each.owner == staged.owner)),
            (settings.upload_principal_bytes, sum(each.reserved for each in others)),
        ):
            if taken + reserved > quota:
                raise QuotaReached(
                    f"open uploads have {taken:,} of {quota:,} bytes already: complete or give up one", quota=quota
                )

    def _make(self, staged: Staged) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._place(staged, BYTES), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._note(staged)

    def _note(self, staged: Staged) -> None:
        """Write down what it is, in one step; from here on it outlives the process, and the host's power."""
        about = json.dumps({name: getattr(staged, name) for name in NOTED}).encode()
        part = self._place(staged, PART)
        part.write_bytes(about)
        _sync(part)
        part.replace(self._place(staged, ABOUT))
        _sync(self._directory)

    async def append(self, staged: Staged, offset: int, chunks: AsyncIterator[bytes]) -> None:
        """Add bytes as they come; all that have come stay, also when the rest of them does not.

        Raises WrongOffset, Conflict, InvalidRequest, PayloadTooLarge, QuotaReached, NoSpace, NotFound.
        """
        me, place = object(), self._place(staged, BYTES)
        self._require_open(staged)  # before the lock as well, which is held for as long as a file is being written
        async with staged.lock:
            self._require_open(staged)
            if offset != staged.offset:
                raise WrongOffset(f"the next part begins at {staged.offset:,}", offset_bytes=staged.offset)
            staged.writer = me
        try:
            async for chunk in chunks:
                await self._write(staged, me, chunk)
            await asyncio.to_thread(_sync, place)
        except FileNotFoundError:
            raise NotFound("the upload was given up") from None
        except OSError as error:
            raise _no_space(error) from None

    async def _write(self, staged: Staged, writer: object, chunk: bytes) -> None:
        self._require_open(staged)
        async with staged.lock:
            self._require_open(staged)
            if staged.writer is not writer:
                raise Conflict("another request goes on with this upload", reason="superseded")
            end = staged.offset + len(chunk)
            if staged.size_bytes is None:
                self._require_bytes(staged, end)
            elif end > staged.size_bytes:
                raise InvalidRequest(f"the file was to have {staged.size_bytes:,} bytes, and there are more")
            self._require_disk(len(chunk))  # each time: what others have begun is not reserved, and grows meanwhile
            # At its place and not at the end: a thread that a cancelled request has left behind writes the same again.
            await asyncio.to_thread(_write_at, self._place(staged, BYTES), chunk, staged.offset)
            staged.offset, staged.touched = end, self._clock.now()

    def _require_open(self, staged: Staged) -> None:
        if not self._is_known(staged):
            raise NotFound("the upload was given up")
        if staged.completing or staged.result is not None:
            raise Conflict("the upload is complete: its file is written, or is being written", reason="complete")

    async def complete(
        self, staged: Staged, sha256: str | None, put: Callable[[BinaryIO, int], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Have the file written by `put`, and forget the bytes; once it has been, the same answer again.

        Raises what `put` raises, which changes nothing, and Conflict, ChecksumMismatch (the bytes go), NotFound.
        """
        async with staged.lock:
            if staged.result is not None:
                return staged.result
            self._require_open(staged)
            if staged.size_bytes is not None and staged.offset != staged.size_bytes:
                missing = staged.size_bytes - staged.offset
                raise Conflict(f"{missing:,} bytes are missing", reason="incomplete", offset_bytes=staged.offset)
            staged.writer, staged.completing = None, True
            try:
                result = await self._put(staged, sha256, put)
            finally:
                staged.completing = False
            await self._finish(staged, result)
            return result

    async def _put(
        self, staged: Staged, sha256: str | None, put: Callable[[BinaryIO, int], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        with await asyncio.to_thread(_open, self._place(staged, BYTES), staged.offset) as file:
            if sha256 is not None and await asyncio.to_thread(_digest, file) != sha256:
                await self._drop([staged])
                raise ChecksumMismatch("the bytes are not those of the checksum: upload the file again")
            file.seek(0)
            return await put(file, staged.offset)

    async def _finish(self, staged: Staged, result: dict[str, Any]) -> None:
        staged.result, staged.touched = result, self._clock.now()
        if not self._is_known(staged):  # its session has ended meanwhile
            return
        finished = [each for each in self._of(staged.principal_id).values() if each.result is not None]
        finished.sort(key=lambda each: each.touched, reverse=True)
        await self._drop(finished[max(self._settings.uploads_per_principal, 1) :])
        with contextlib.suppress(OSError):  # the file is written: without a note it is only not known after a restart
            await asyncio.to_thread(self._note, staged)
            await asyncio.to_thread(self._place(staged, BYTES).unlink, missing_ok=True)

    async def forget(self, owner: str) -> None:
        """Remove all of a session or workspace that has ended; a request that still adds to one is refused."""
        await self._drop([each for each in self._each() if each.owner == owner])

    async def give_up(self, staged: Staged) -> None:
        """Remove one, with what has come of it; raises Conflict while its file is being written."""
        if staged.completing:
            raise Conflict("its file is being written", reason="complete")
        await self._drop([staged])

    def owners(self) -> set[str]:
        """What there are uploads of."""
        return {each.owner for each in self._each()}

    async def expire(self) -> None:
        """Remove those whose time is over, and what is left of others."""
        await self._drop([each for each in self._each() if self._is_over(each)])
        files = await asyncio.to_thread(self._list_files)
        await asyncio.to_thread(_remove, self._find_unknown(files))

    async def _drop(self, gone: Sequence[Staged]) -> None:
        for each in gone:
            mine = self._of(each.principal_id)
            mine.pop(each.id, None)
            if not mine:
                del self._all[each.principal_id]
        if gone:
            files = [self._place(each, ending) for each in gone for ending in (ABOUT, BYTES, PART)]
            await asyncio.to_thread(_remove, files)

    def _place(self, staged: Staged, ending: str) -> Path:
        return self._directory / (staged.id + ending)


def _remove(files: Sequence[Path]) -> None:
    for each in files:
        each.unlink(missing_ok=True)


def _write_at(file: Path, chunk: bytes, position: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        view = memoryview(chunk)
        while view:
            written = os.pwrite(descriptor, view, position)
            view, position = view[written:], position + written
    finally:
        os.close(descriptor)


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(place: Path, size: int) -> BinaryIO:
    """The file with just these bytes: the write of a request that was cut off may have left more."""
    os.truncate(place, size)
    return place.open("rb")


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(READ_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _no_space(error: OSError) -> NoSpace:
    return NoSpace(f"the upload cannot be kept on the host's disk: {error.strerror}")
