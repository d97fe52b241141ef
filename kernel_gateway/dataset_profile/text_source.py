"""The bytes of a text file: the part of it that is read, and where they are not what their encoding says."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import Any

from .job import BLOCK_BYTES, Job, Refused

PIECE_BYTES = 1 << 20


class Part(io.FileIO):
    """The file as far as its part goes that is described; `taken` says how much was read, also once it is closed."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.path)
        self._size = job.part_bytes
        self.taken = 0

    def readinto(self, buffer: Any) -> int:
        """Called by the readers above it; 0 at the end."""
        count = super().readinto(memoryview(buffer)[: self._size - self.taken]) or 0
        self.taken += count
        return count


def undecodable(job: Job, source: Part) -> Refused:
    """What to say of bytes that are not in the encoding; called when a reader met some."""
    if job.encoding == "utf-8":
        return not_utf8(job)
    return Refused(
        "encoding",
        f"the file is not {job.encoding.upper()} near byte {source.taken:,}: save it as UTF-8, or say its encoding",
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
