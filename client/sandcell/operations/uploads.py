"""Uploads in parts: of any size, and taken up where they were after anything. `files` says when they are used. No I/O.

The service keeps what has come and says how far that is. A later call with the same local file finds the upload by an
idempotency key that follows from the file, and goes on with it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from sandcell.errors import SandcellError
from sandcell.models.uploads import Upload
from sandcell.models.workspaces import FileEntry
from sandcell.steps import (
    ATTEMPTS,
    Ask,
    Digest,
    Operation,
    Pause,
    Piece,
    Progress,
    Read,
    decode,
    exchange,
    omit_none,
    pause_seconds,
    quote,
)

PART_BYTES = 50_000_000
"""Of a local file in one request, at most."""
STREAM_PART_BYTES = 8_000_000
"""Of a stream in one request: so much of it is in memory, to be sent again when the connection breaks."""
PART_SECONDS: Final = 600.0
COMPLETE_SECONDS: Final = 1200.0
"""How long the service may take to put a file in its place that has come whole."""
Headers = Mapping[str, str]
Cut = Callable[[int], bytes | Piece]
"""From a place in the file to what is sent from there."""


def upload_file(
    owner: str, path: str, content: bytes | Path, on_progress: Progress | None, headers: Headers
) -> Operation[FileEntry]:
    """Write a file of known size into what `owner` is the address of, on the conditions in `headers`."""
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    upload = yield from _create(owner, path, size, _make_key(path, content, size))
    most = min(PART_BYTES, upload.part_bytes)

    def cut(start: int) -> bytes | Piece:
        length = min(most, size - start)
        return Piece(content, start, length) if isinstance(content, Path) else content[start : start + length]

    one = f"{owner}/uploads/{upload.id}"
    yield from _send(one, upload, size, cut, _Following(on_progress, size))
    digest = yield Digest(content)
    return (yield from _complete(one, digest.content.decode(), headers))


def upload_stream(
    owner: str, path: str, stream: IO[bytes], on_progress: Progress | None, headers: Headers
) -> Operation[FileEntry]:
    """Write what a stream gives until its end, which nobody knows before. No later call can go on with it."""
    upload = yield from _create(owner, path, None, None)
    one, digest = f"{owner}/uploads/{upload.id}", hashlib.sha256()
    most = min(STREAM_PART_BYTES, upload.part_bytes)
    following = _Following(on_progress, None)
    try:
        while part := (yield Read(stream, most)).content:
            digest.update(part)
            upload = yield from _send(one, upload, upload.offset_bytes + len(part), _cutting(part, upload), following)
        return (yield from _complete(one, digest.hexdigest(), headers))
    except SandcellError:  # a stream cannot be read again, so nobody will go on with this upload
        with contextlib.suppress(SandcellError):
            yield from exchange(Ask("DELETE", one))
        raise


def _create(owner: str, path: str, size: int | None, key: str | None) -> Operation[Upload]:
    # Names that are not UTF-8 travel as their bytes: quoted here, not by the HTTP library.
    address, headers = f"{owner}/uploads?path={quote(path)}", omit_none(**{"Idempotency-Key": key})
    ask = Ask("POST", address, omit_none(size_bytes=size), headers=headers)
    return decode((yield from exchange(ask, repeatable=key is not None)), Upload)


def _send(one: str, upload: Upload, end: int, cut: Cut, following: _Following) -> Operation[Upload]:
    """Send parts up to `end`; after a failure the service says where to go on."""
    failures = 0
    while upload.offset_bytes < end:
        start = upload.offset_bytes
        answer = yield Ask(
            "PATCH",
            one,
            content=cut(start),
            headers={"Upload-Offset": str(start)},
            timeout_seconds=PART_SECONDS,
            on_progress=following.shift(start),
        )
        error = answer.error()
        if error is None:
            upload = decode(answer.content, Upload)
            continue
        failures += 1
        if failures == ATTEMPTS or not _may_go_on(error):
            raise error
        yield Pause(pause_seconds(failures - 1, error))
        upload = decode((yield from exchange(Ask("GET", one))), Upload)
        if upload.offset_bytes > start:
            failures = 0
    return upload


def _cutting(part: bytes, upload: Upload) -> Cut:
    """What is left of a part of a stream, which began where the upload is now."""
    begin = upload.offset_bytes
    return lambda start: part[start - begin :]


def _may_go_on(error: SandcellError) -> bool:
    """Whether a part that failed so may be sent again, from where the service says."""
    elsewhere = error.code == "wrong_offset" or error.details.get("reason") == "superseded"
    return error.retryable or elsewhere or error.status in (502, 504)


def _complete(one: str, sha256: str, headers: Headers) -> Operation[FileEntry]:
    ask = Ask("POST", f"{one}/complete", json={"sha256": sha256}, headers=headers, timeout_seconds=COMPLETE_SECONDS)
    # Also on a condition: once the file is written, the service gives the same answer again.
    return decode((yield from exchange(ask, repeatable=True)), FileEntry)


class _Following:
    """The progress of a part as that of the whole."""

    def __init__(self, on_progress: Progress | None, size: int | None) -> None:
        self._on_progress = on_progress
        self._size = size

    def shift(self, start: int) -> Progress | None:
        note: Any = self._on_progress
        return None if note is None else lambda done, _size: note(start + done, self._size)


def _make_key(path: str, content: bytes | Path, size: int) -> str:
    """What tells one upload from another: a local file by its time of change, bytes by themselves."""
    version = content if isinstance(content, bytes) else str(content.stat().st_mtime_ns).encode()
    return hashlib.sha256(f"{path}\n{size}\n".encode("utf-8", "surrogateescape") + version).hexdigest()
