"""The bytes of a text file: where they are not what their encoding says, and how far reading is."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import IO, Any

from .job import BLOCK_BYTES, Job
from .refused import Refused

PIECE_BYTES = 1 << 20


class Counted(io.RawIOBase):
    """The part of the file that is here, as UTF-8 without a mark; a part that was cut ends with a whole line."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._file: IO[bytes] = Path(job.path).open("rb")  # noqa: SIM115 - closed with this
        self._decoder = None if job.encoding == "utf-8" else codecs.getincrementaldecoder(job.encoding)()
        self._size = job.part_bytes
        self._encoding = job.encoding
        self._held = b""
        self._begun = False
        self.taken = 0
        """Bytes of the file that were read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Called by whoever reads; 0 at the end."""
        while not self._held:
            piece = self._file.read(min(PIECE_BYTES, self._size - self.taken))
            self.taken += len(piece)
            self._held = self._decoded(piece)
            if not piece:
                break
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

    def _decoded(self, piece: bytes) -> bytes:
        if self._decoder is None:
            text = piece
        else:
            try:
                text = self._decoder.decode(piece, not piece).encode()
            except UnicodeError as error:
                raise self.broken(error) from None
        if not self._begun and text:
            self._begun = True
            text = text.removeprefix(codecs.BOM_UTF8)
        return text

    def broken(self, _error: Exception | None = None) -> Refused:
        """What to say of bytes that are not in the encoding."""
        return Refused(
            "encoding",
            f"the file is not {self._encoding.upper()} near byte {self.taken:,}: save it as UTF-8, or say its encoding",
        )


def not_utf8(job: Job) -> Refused:
    """Where the first bytes are that are not UTF-8; called when a reader met some."""
    decoder, lines = codecs.getincrementaldecoder("utf-8")(), 1
    with Path(job.path).open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                lines += error.object[: error.start].count(b"\n")
                byte = error.object[error.start]
                return Refused(
                    "encoding",
                    f"line {lines:,} is not UTF-8 (byte 0x{byte:02x}): save the file as UTF-8, or say its encoding, as "
                    "encoding=cp1252 or latin-1",
                )
            lines += piece.count(b"\n")
    return Refused("encoding", "the file is not UTF-8: save it as UTF-8, or say its encoding")


def whole_lines(job: Job) -> int:
    """How much of a file that was cut is whole lines, so that the cut makes no broken row."""
    if not job.partial:
        return job.part_bytes
    if job.encoding == "utf-16":
        raise Refused("too_large", "a file of this size is described by its first part if it is UTF-8: save it so")
    with Path(job.path).open("rb") as source:
        source.seek(max(0, job.part_bytes - BLOCK_BYTES))
        start = source.tell()
        found = source.read().rfind(b"\n")
    return job.part_bytes if found < 0 else start + found + 1
