"""Text kept as head and tail within a number of bytes, in the segments that a notebook shows it in. Pure.

A *segment* is a run of one stream's text between other outputs. Memory is bound by the cap, whatever is fed: the first
half of the cap fills segments for good, the second half is a window on what came last.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_PIECE_BYTES: Final = 8192


def marker(cut_bytes: int) -> str:
    """The line that stands where text was cut."""
    return f"\n[... {cut_bytes:,} bytes cut ...]\n"


def encodable(text: str) -> tuple[str, int]:
    """The text with half surrogate pairs, which UTF-8 cannot carry, replaced; and its size in bytes."""
    if text.isascii():
        return text, len(text)
    try:
        return text, len(text.encode())
    except UnicodeEncodeError:
        data = text.encode("utf-8", "replace")
        return data.decode(), len(data)


def first_bytes(text: str, most: int) -> str:
    """At most so many bytes from the start, no character split."""
    return text[:most].encode()[:most].decode("utf-8", "ignore")


def last_bytes(text: str, most: int) -> str:
    """At most so many bytes from the end, no character split."""
    return text[-most:].encode()[-most:].decode("utf-8", "ignore") if most else ""


def cut_middle(text: str, most_bytes: int) -> tuple[str, int]:
    """Head and tail of a text within `most_bytes`, a marker between them, and how many bytes were cut."""
    text, size = encodable(text)
    if size <= most_bytes:
        return text, 0
    head, tail = first_bytes(text, most_bytes // 2), last_bytes(text, most_bytes - most_bytes // 2)
    cut = size - len(head.encode()) - len(tail.encode())
    return head + marker(cut) + tail, cut


class Segment:
    """A run of one stream's text; `text` is what is left of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cut_here = False
        self._head: list[str] = []
        self._tail: deque[str] = deque()

    def append_head(self, text: str) -> None:
        if self._head and len(self._head[-1]) < _PIECE_BYTES:
            self._head[-1] += text
        else:
            self._head.append(text)

    def append_tail(self, text: str) -> bool:
        """Add a piece; says whether it was joined to the one before."""
        joined = bool(self._tail) and len(self._tail[-1]) < _PIECE_BYTES
        if joined:
            self._tail[-1] += text
        else:
            self._tail.append(text)
        return joined

    def drop_first(self) -> None:
        self._tail.popleft()

    def shorten_first(self, text: str) -> None:
        self._tail[0] = text

    def first(self) -> str:
        return self._tail[0]

    def text(self, cut_bytes: int) -> str:
        """What is left, with the marker when the stream was cut after this segment's head."""
        middle = [marker(cut_bytes)] if self.cut_here and cut_bytes else []
        return "".join([*self._head, *middle, *self._tail])


class CappedStream:
    """One stream over the segments it is in: keeps the first and the last half of `cap_bytes`."""

    def __init__(self, cap_bytes: int) -> None:
        self.cut_bytes = 0
        self._head_left = cap_bytes // 2
        self._tail_cap = cap_bytes - cap_bytes // 2
        self._tail_bytes = 0
        self._pieces: deque[tuple[Segment, list[int]]] = deque()
        self._border: Segment | None = None

    def write(self, segment: Segment, text: str, size_bytes: int) -> None:
        """Add text, `size_bytes` long in UTF-8, to the segment that is the stream's current one."""
        if self._border is None and size_bytes <= self._head_left:
            self._head_left -= size_bytes
            segment.append_head(text)
            return
        if self._border is None:
            head = first_bytes(text, self._head_left)
            text, size_bytes = text[len(head) :], size_bytes - len(head.encode())
            segment.append_head(head)
            segment.cut_here = True
            self._border = segment
        self._write_tail(segment, text, size_bytes)

    def _write_tail(self, segment: Segment, text: str, size_bytes: int) -> None:
        if size_bytes > self._tail_cap:
            self._drop_tail()
            kept = last_bytes(text, self._tail_cap)
            kept_bytes = len(kept.encode())
            self.cut_bytes += size_bytes - kept_bytes
            text, size_bytes = kept, kept_bytes
        if segment.append_tail(text):
            self._pieces[-1][1][0] += size_bytes
        else:
            self._pieces.append((segment, [size_bytes]))
        self._tail_bytes += size_bytes
        self._evict()

    def _drop_tail(self) -> None:
        for segment, _ in self._pieces:
            segment.drop_first()
        self._pieces.clear()
        self.cut_bytes += self._tail_bytes
        self._tail_bytes = 0

    def _evict(self) -> None:
        while (excess := self._tail_bytes - self._tail_cap) > 0:
            segment, size = self._pieces[0]
            if size[0] <= excess:
                self._pieces.popleft()
                segment.drop_first()
                gone = size[0]
            else:
                kept = last_bytes(segment.first(), size[0] - excess)
                segment.shorten_first(kept)
                gone = size[0] - len(kept.encode())
                size[0] -= gone
            self.cut_bytes += gone
            self._tail_bytes -= gone
