"""Outputs in full, once by their content: on this host's disk until the store has them next to the session's notebook.

Each session has a directory under `<data_dir>/state/outputs`; a file's name is its digest and an ending. A file that is
there is whole and durable; what an earlier process left unfinished is removed at start.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

import structlog

from kernel_gateway.errors import NoSpace
from kernel_gateway.services.background import Background
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.outage_detector import AWAY, OutageDetector
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.settings import Settings
from kernels.capped_text import first_bytes
from kernels.execution.execution import Event
from kernels.notebook.transcript import BLOB_DIRECTORY, Blob
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)

# The text of one execution in full, kept on disk while it arrives: more of it than its stored outcome can hold.
#
# What arrives is written at once, in pieces of at most 64 KB, to files that are not synced: that is as
# fast as memory. What cannot be kept costs the execution nothing: its cell says why.

IN_MEMORY_BYTES = 1_000_000
"""Of a stream, before a file is begun for it."""
STREAMS = ("stdout", "stderr")
CLEARED_BY = ("display", "result", "error", "stream", "beyond")


class FullText:
    """Fed with an execution's events, in order; `finish` makes durable what its stored outcome has not in full."""

    def __init__(self, kept: KeptOutputs, session_id: str) -> None:
        self._kept = kept
        self._session_id = session_id
        self._clear_on_next = False
        self._streams: dict[str, _Stream] = {}
        """By name, those that have had text: most executions print nothing."""

    def take(self, event: Event) -> bool:
        """Take an event in; says whether it is for others too."""
        data = event.data
        if event.kind == "clear" or (event.kind == "beyond" and "clear" in data):
            self._clear(wait=bool(data["wait"]))
        elif event.kind in CLEARED_BY:
            if self._clear_on_next:
                self._clear(wait=False)
            if event.kind in ("stream", "beyond"):
                self._find_stream(data["name"]).take(data.get("text", ""), data.get("size", 0))
        return event.kind != "beyond"

    @property
    def large(self) -> bool:
        """Whether there is more than a stored outcome holds."""
        return any(stream.total > self._kept.stored_text_bytes for stream in self._streams.values())

    def finish(self) -> list[dict[str, Any]]:
        """Blocking: what the execution's cell says of texts that are kept, or could not be."""
        told = []
        for name in STREAMS:
            about = self._streams[name].finish() if name in self._streams else None
            if about is not None:
                told.append({"stream": name, **about})
        return told

    def discard(self) -> None:
        """Keep nothing."""
        for stream in self._streams.values():
            stream.drop()

    def _clear(self, *, wait: bool) -> None:
        self._clear_on_next = wait
        if not wait:
            self.discard()
            self._streams = {}

    def _find_stream(self, name: str) -> _Stream:
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = _Stream(self._kept, self._session_id)
        return found


class _Stream:
    """The text of one stream so far."""

    def __init__(self, kept: KeptOutputs, session_id: str) -> None:
        self._kept = kept
        self._session_id = session_id
        self._pieces: list[bytes] = []
        self._digest = hashlib.sha256()
        self._size = 0
        self._omitted = 0
        self._file: IO[bytes] | None = None
        self._why = ""

    @property
    def total(self) -> int:
        return self._size + self._omitted

    def take(self, text: str, omitted: int) -> None:
        data = text.encode()
        self._omitted += omitted
        left = 0 if self._why or self._omitted else self._kept.most_bytes - self._size
        if len(data) > left:
            fits = first_bytes(text, left).encode()
            self._omitted += len(data) - len(fits)
            data = fits
        if not data:
            return
        self._size += len(data)
        self._digest.update(data)
        try:
            self._write(data)
        except OSError as error:
            self._why = f"the host's disk did not take it: {error.strerror}"
            self.drop()

    def finish(self) -> dict[str, Any] | None:
        """Say where the text is, once it is durable; None when the stored outcome has all of it, or there is none."""
        try:
            if self.total <= self._kept.stored_text_bytes or not self._size:
                return None
            if not self._why and not self._kept.admit(self._session_id, self._size):
                self._why = "the session's outputs in full are as large as they may be together"
            if self._why:
                return {"size": self.total, "lost": self._why}
            about = self._write_whole()
            return {**about, "omitted_bytes": self._omitted} if self._omitted else about
        except OSError as error:
            return {"size": self.total, "lost": f"the host's disk did not take it: {error.strerror}"}
        finally:
            self.drop()

    def drop(self) -> None:
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
            with contextlib.suppress(OSError):
                Path(self._file.name).unlink()
            self._file = None

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._pieces.append(data)
            if self._size <= min(self._kept.stored_text_bytes, IN_MEMORY_BYTES):
                return
            self._file = self._kept.begin(self._session_id)
            data = b"".join(self._pieces)
            self._pieces.clear()
        self._file.write(data)

    def _write_whole(self) -> dict[str, Any]:
        if self._file is None:  # there was less in the file than beyond
            self._file = self._kept.begin(self._session_id)
            self._file.write(b"".join(self._pieces))
        digest, size = self._digest.hexdigest(), self._size
        if self._kept.redaction.wanted:
            self._file.seek(0)
            text = self._kept.redaction.text(self._file.read().decode("utf-8", "replace")).encode()
            self._file.seek(0)
            self._file.truncate()
            self._file.write(text)
            digest, size = hashlib.sha256(text).hexdigest(), len(text)
        self._kept.complete(self._session_id, self._file, f"{digest}.txt")
        return self._kept.about(self._session_id, digest, size)


PART = ".part"


class KeptOutputs:
    """The files of every session of this gateway that wait for the store."""

    def __init__(self, settings: Settings, mirrors: Mirrors, background: Background, redaction: Redaction) -> None:
        self.stored_text_bytes = settings.stored_text_bytes
        self.most_bytes = settings.full_output_bytes
        self.redaction = redaction
        self._most_of_session = settings.session_output_bytes
        self._reserve_bytes = settings.disk_reserve_bytes
        self._directory = settings.state_path / "outputs"
        self._mirrors = mirrors
        self._background = background
        self._admitted: dict[str, int] = {}
        self._places = threading.Lock()
        """Held while a directory is made for a file, and while an empty one is removed."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def clear(self) -> None:
        """Remove what an earlier process left unfinished; called once at start."""
        for part in self._directory.glob(f"*/*{PART}"):
            part.unlink(missing_ok=True)

    def full_text(self, session_id: str) -> FullText:
        """What takes in the text of an execution that begins."""
        return FullText(self, session_id)

    def about(self, session_id: str, digest: str, size: int) -> dict[str, Any]:
        """What a cell says of a file."""
        return {"sha256": digest, "size": size, "href": f"/v1/sessions/{session_id}/outputs/{digest}"}

    def admit(self, session_id: str, size: int) -> bool:
        """Whether the session may keep so much more; as far as this process knows what it has."""
        total = self._admitted.get(session_id, 0) + size
        if total > self._most_of_session:
            return False
        self._admitted[session_id] = total
        return True

    def forget(self, session_id: str) -> None:
        """The session has ended."""
        self._admitted.pop(session_id, None)

    def begin(self, session_id: str) -> IO[bytes]:
        """A file that is to be filled; raises OSError, also when the host's disk is nearly full."""
        with self._places:
            place = self._directory / session_id
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            disk = os.statvfs(place)
            if disk.f_bavail * disk.f_frsize < self._reserve_bytes:
                raise OSError(errno.ENOSPC, "it is nearly full")
            return tempfile.NamedTemporaryFile(suffix=PART, dir=place, buffering=0, delete=False)

    def complete(self, session_id: str, file: IO[bytes], name: str) -> None:
        """Make a filled file durable under its name. Blocking; raises OSError."""
        os.fsync(file.fileno())
        place = self._directory / session_id
        Path(file.name).rename(place / name)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        file.close()

    async def keep(self, session_id: str, blobs: Sequence[Blob]) -> None:
        """Make files durable that a cell names; raises NoSpace. The store gets them soon."""
        try:
            await asyncio.to_thread(self._keep, session_id, blobs)
        except OSError as error:
            raise NoSpace(f"the host's disk takes no large outputs: {error.strerror}") from error
        self.request_delivery(session_id)

    def _keep(self, session_id: str, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            file = self.begin(session_id)
            try:
                file.write(blob.data)
                self.complete(session_id, file, blob.name.rpartition("/")[2])
            except BaseException:
                file.close()
                Path(file.name).unlink(missing_ok=True)
                raise

    def find(self, session_id: str, digest: str) -> Path | None:
        """A file that the store may not have yet. Blocking."""
        place = self._directory / session_id
        with contextlib.suppress(FileNotFoundError):  # it goes with its last file, also meanwhile: no `glob`
            return next((path for path in place.iterdir() if path.name.startswith(f"{digest}.")), None)
        return None

    def request_delivery(self, session_id: str) -> None:
        """Deliver soon, off the caller's path; what fails is tried again by the sweep."""
        self._background.spawn(self._try(session_id), f"outputs of {session_id}")

    async def deliver(self, session_id: str) -> None:
        """Bring what waits to the store; raises WorkspaceSyncError, TimeoutError, and what failed waits on.

        One that cannot be read or is refused keeps no other from the store.
        """
        failed: WorkspaceSyncError | None = None
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            if not (self._directory / session_id).is_dir():  # of most: a look is less than the way to a thread
                return
            for path in await asyncio.to_thread(self._waiting, session_id):
                try:
                    await self._mirrors.run(partial(self._deliver, session_id, path))
                except TimeoutError:
                    raise
                except OSError as error:
                    log.error("output_not_read", session=session_id, output=path.name, error=str(error))
                except WorkspaceSyncError as error:
                    if isinstance(error, AWAY):
                        raise
                    failed = failed or error
            await asyncio.to_thread(self._tidy, session_id)
        if failed is not None:
            raise failed

    async def deliver_all(self) -> None:
        """Bring everything that waits to the store; when it is away, the rest waits with what found that out."""
        outages = OutageDetector()
        for session_id in await asyncio.to_thread(self._sessions):
            if outages.away(await self._try(session_id)):
                return

    async def _try(self, session_id: str) -> Exception | None:
        """What kept something from being delivered."""
        try:
            await self.deliver(session_id)
        except (WorkspaceSyncError, OSError, TimeoutError) as error:
            log.warning("outputs_not_delivered", session=session_id, error=str(error))
            return error
        return None

    def _sessions(self) -> list[str]:
        return sorted(each.name for each in self._directory.iterdir()) if self._directory.is_dir() else []

    def _waiting(self, session_id: str) -> list[Path]:
        place = self._directory / session_id
        return sorted(each for each in place.iterdir() if each.suffix != PART) if place.is_dir() else []

    def _deliver(self, session_id: str, path: Path) -> None:
        with path.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            self._mirrors.durable(session_id).put_stream_beside(f"{BLOB_DIRECTORY}/{path.name}", source, size)
        path.unlink()

    def _tidy(self, session_id: str) -> None:
        with self._places, contextlib.suppress(OSError):  # not empty, or gone
            (self._directory / session_id).rmdir()
