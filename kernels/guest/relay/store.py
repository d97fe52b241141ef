"""What a kernel has said and the gateway has not acknowledged: numbered frames, in memory, then on the sandbox's disk.

Kept in segments, as the bytes that go over the wire. When there is more than is kept, what is cut comes out of the
middle: the first half stays, the end stays, and so do replies between them; a gap says how much is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .frames import GAP, GAP_BODY, HEAD, IOPUB, NUMBER, PIECE, WORD, encode, encode_piece

SEGMENT_BYTES = 512 * 1024
MEMORY_BYTES = 2 * 1024 * 1024
"""Of segments that are not on disk."""
DISK_BYTES = 64 * 1024 * 1024
"""Of all segments."""
SPARED_BYTES = 1024 * 1024
"""Of replies that stay although what lay around them was cut."""

OpenFile = Callable[[], int]


class _Segment:
    """Frames `first` to `last`, in memory as `data` or in the `file`."""

    def __init__(self, first: int) -> None:
        self.first, self.last = first, first - 1
        self.data = bytearray()
        self.file = -1
        self.size = 0
        self.rest = False
        """Whether it is what was left of others that were cut."""
        self.gap = -1
        """Where its last frame begins, when that is a gap."""

    def read(self) -> bytes:
        return bytes(self.data) if self.file < 0 else os.pread(self.file, self.size, 0)

    def spill(self, open_file: OpenFile) -> None:
        """Move it to disk; raises OSError."""
        file = open_file()
        try:
            view = memoryview(self.data)
            while view:
                view = view[os.pwrite(file, view, self.size - len(view)) :]
        except OSError:
            os.close(file)
            raise
        self.file, self.data = file, bytearray()

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class Store:
    """Frames of one kernel. `next` is the number of the one to come; `open_file` makes a file that has no name."""

    def __init__(self, open_file: OpenFile, *, memory_bytes: int = MEMORY_BYTES, disk_bytes: int = DISK_BYTES) -> None:
        self.next = 1
        self._open_file = open_file
        self._memory_bytes, self._disk_bytes = memory_bytes, disk_bytes
        self._segments = [_Segment(1)]
        self._size = 0

    @property
    def first(self) -> int:
        """The lowest number that is kept, or the next one."""
        return self._segments[0].first

    def append_piece(self, channel: int, flags: int, data: bytes) -> bytes:
        """Keep a piece of a message; returns its frame."""
        return self._append(encode_piece(self.next, channel, flags, data))

    def append_word(self, word: bytes) -> bytes:
        """Keep a word of the relay's own; returns its frame."""
        return self._append(encode(WORD, NUMBER.pack(self.next) + word))

    def acknowledge(self, number: int) -> None:
        """Everything up to this number is durable elsewhere: forget it, as far as whole segments go."""
        segments = self._segments
        while segments[0].last <= number and segments[0].size:
            self._drop(0)
            if not segments:
                segments.append(_Segment(self.next))

    def read(self, number: int) -> tuple[bytes, int]:
        """Frames from this number on, to the end of a segment, and the number after them; none when there is none."""
        for segment in self._segments:
            if number <= segment.last:
                data = segment.read()
                return (data if number <= segment.first else data[_find(data, number) :]), segment.last + 1
        return b"", self.next

    def close(self) -> None:
        for each in self._segments:
            each.close()

    def _append(self, frame: bytes) -> bytes:
        segment = self._segments[-1]
        if segment.size >= SEGMENT_BYTES or segment.rest:
            segment = _Segment(self.next)
            self._segments.append(segment)
            self._make_room()
        segment.data += frame
        segment.size += len(frame)
        segment.last = self.next
        self._size += len(frame)
        self.next += 1
        return frame

    def _make_room(self) -> None:
        """Called as a segment begins: move those before it to disk, and cut what is too much."""
        held = [each for each in self._segments[:-1] if each.file < 0 and not each.rest]
        if sum(each.size for each in held) > self._memory_bytes // 2:
            for each in held:
                try:
                    each.spill(self._open_file)
                except OSError:  # the disk is full, with what the user has put there perhaps
                    break
        while self._size > self._disk_bytes or self._in_memory() > self._memory_bytes:
            if not self._cut():
                break

    def _in_memory(self) -> int:
        return sum(each.size for each in self._segments if each.file < 0 and not each.rest)

    def _cut(self) -> bool:
        """Cut the first segment past the head; False when there is none."""
        most = (self._disk_bytes if self._size > self._disk_bytes else self._memory_bytes) // 2
        size = index = 0
        for index, each in enumerate(self._segments[:-1]):  # noqa: B007 - where the head ends
            size += 0 if each.rest else each.size
            if size > most and not each.rest:
                break
        else:
            return False
        victim = self._segments[index]
        before = self._segments[index - 1] if index and self._segments[index - 1].rest else None
        rest = before or _Segment(victim.first)
        rest.rest = True
        self._keep_rest(rest, victim.read())
        rest.last = victim.last
        self._drop(index)
        if before is None:
            self._segments.insert(index, rest)
        return True

    def _keep_rest(self, rest: _Segment, data: bytes) -> None:
        """Add to `rest` what stays of frames that are cut: replies, and gaps for all else."""
        for number, frame in _frames(data):
            kind = frame[HEAD.size - 1]
            spared = kind == WORD or (kind == PIECE and frame[HEAD.size + NUMBER.size] != IOPUB)
            if kind == GAP:
                _extend_gap(rest, *GAP_BODY.unpack_from(frame, HEAD.size))
            elif spared and rest.size + len(frame) <= SPARED_BYTES:
                rest.data += frame
                rest.gap = -1
            else:
                _extend_gap(rest, number, number, len(frame))
            self._size += len(rest.data) - rest.size
            rest.size = len(rest.data)

    def _drop(self, index: int) -> None:
        segment = self._segments.pop(index)
        self._size -= segment.size
        segment.close()


def _extend_gap(rest: _Segment, first: int, last: int, size: int) -> None:
    """A gap in the stream, joined with the one before it."""
    if rest.gap >= 0:
        first, _, before = GAP_BODY.unpack_from(rest.data, rest.gap + HEAD.size)
        del rest.data[rest.gap :]
        size += before
    rest.gap = len(rest.data)
    rest.data += encode(GAP, GAP_BODY.pack(first, last, size))


def _frames(data: bytes) -> list[tuple[int, bytes]]:
    """Number and bytes of each frame of a segment."""
    found, position = [], 0
    while position < len(data):
        end = position + HEAD.size + HEAD.unpack_from(data, position)[0]
        found.append((NUMBER.unpack_from(data, position + HEAD.size)[0], data[position:end]))
        position = end
    return found


def _find(data: bytes, number: int) -> int:
    """Where the first frame begins that is not wholly before this number."""
    position = 0
    while position < len(data):
        size, kind = HEAD.unpack_from(data, position)
        at = position + HEAD.size
        last = GAP_BODY.unpack_from(data, at)[1] if kind == GAP else NUMBER.unpack_from(data, at)[0]
        if last >= number:
            return position
        position = at + size
    return position
