"""A download that outlives its connection: what each connection asks for, and where its bytes go. No I/O.

After a broken connection the next one asks for the rest of the file, on condition that it is still the version whose
strong ETag came first (`If-Range`: RFC 9110, section 13.1.5). All of it comes when the file has changed, or when the
service serves no ranges of it, and the local file begins again: it is never a mixture of two versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sandcell.errors import ConnectionFailed, SandcellError
from sandcell.steps import ATTEMPTS, Ask, may_repeat, pause_seconds

PARTIAL_CONTENT: Final = 206
CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")


class Download:
    """One download, from its first request to its last byte."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._tag = ""
        self._size: int | None = None
        self._received = 0
        self._furthest = 0
        self._failures = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next request."""
        # A position in compressed content is none in the file, so that nothing could go on from it.
        wanted = {**self._ask.headers, "Accept-Encoding": "identity"}
        if self._tag and self._received:
            wanted |= {"Range": f"bytes={self._received}-", "If-Range": self._tag}
        return wanted

    def begin(self, status: int, headers: Mapping[str, str]) -> int:
        """Take an answer, by its headers in any case: where its first byte goes, after which nothing may be.

        Raises `ConnectionFailed` for a part that is not the one asked for; the next request is for the whole.
        """
        if status == PARTIAL_CONTENT:
            found = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
            part = found and (int(found[1]), int(found[2]), headers.get("ETag"))
            if part != (self._received, self._size, self._tag):
                self._tag = ""
                raise ConnectionFailed("a wrong part of the file came", code="connection_failed", retryable=True)
            return self._received
        tag, length = headers.get("ETag", ""), headers.get("Content-Length", "")
        encoded = "Content-Encoding" in headers
        self._size = int(length) if length.isdecimal() and not encoded else None
        # A weak tag, which begins with W/, stands for versions that may differ in their bytes.
        self._tag = tag if tag.startswith('"') and self._size is not None else ""
        self._received = 0
        return 0

    def advance(self, count: int) -> None:
        """So many bytes more are in the file."""
        self._received += count
        if self._ask.on_progress is not None:
            self._ask.on_progress(self._received, self._size)

    def end(self) -> None:
        """Take the end of an answer; raises `ConnectionFailed` when it has brought less than is missing."""
        if self._size is not None and self._received != self._size:
            raise ConnectionFailed("a part of the file is missing", code="connection_failed", retryable=True)

    def fail(self, error: SandcellError) -> float:
        """How long to wait before the next connection; raises the error when there is to be none.

        One that went on further than those before begins a new count: a large file may take any number of them.
        """
        if self._tag and self._received > self._furthest:
            self._furthest, self._failures = self._received, 0
        self._failures += 1
        if self._failures == ATTEMPTS or not may_repeat(error, repeatable=True):
            raise error
        return pause_seconds(self._failures - 1, error)
