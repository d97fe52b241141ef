"""Output of any length in bounded memory: its head, its tail, and how much lay between. Pure."""

from __future__ import annotations


class HeadTail:
    """Keeps the first and the last half of `limit_bytes`; `cut_bytes` counts what neither holds."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes - limit_bytes // 2
        self._tail_limit = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.cut_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take in what came next."""
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]
            self.cut_bytes += excess

    @property
    def kept_bytes(self) -> int:
        return len(self._head) + len(self._tail)

    def after(self, position: int) -> tuple[int, bytes]:
        """What came after so many bytes, as far as it is kept without a gap, and at which byte that begins."""
        begin = len(self._head) + self.cut_bytes
        if position >= begin:
            return position, bytes(self._tail[position - begin :])
        if position < len(self._head):
            return position, bytes(self._head[position:])
        return begin, bytes(self._tail)

    def text(self) -> str:
        """All that was kept, with a marker where something was cut; what is not UTF-8 is replaced."""
        if not self.cut_bytes:
            return (self._head + self._tail).decode(errors="replace")
        marker = f"\n[... {self.cut_bytes} bytes cut ...]\n"
        return self._head.decode(errors="replace") + marker + self._tail.decode(errors="replace")
