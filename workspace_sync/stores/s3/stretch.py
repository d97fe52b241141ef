"""Bytes of an object as they come, by either way: what an answer brings of those that were asked for."""

from __future__ import annotations

import re
from typing import Any

from botocore.exceptions import BotoCoreError, HTTPClientError
from urllib3.exceptions import HTTPError

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import CHUNK_BYTES
from workspace_sync.stores.s3.payload import Body
from workspace_sync.stores.s3.wire import Answer, Incoming, WireBroken

BEYOND_THE_END = 416
_TOTAL = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class ByteRange:
    """Bytes of an object as they come, `left` of them; where the object ends, and its ETag."""

    def __init__(self, body: Incoming | StreamedBody | None, end: int, etag: str) -> None:
        self.end = end
        self.etag = etag
        self._body = body

    @property
    def left(self) -> int:
        return 0 if self._body is None else self._body.left

    def readinto(self, buffer: Body) -> int:
        """Some of what is left; 0 at the end, and when it breaks off."""
        if self._body is None or not self.left:
            return 0
        with memoryview(buffer)[: self.left] as view:
            try:
                return self._body.readinto(view)
            except (WireBroken, TimeoutError):
                return 0

    def close(self) -> None:
        """Give up what is left."""
        if self._body is not None:
            self._body.close()


def stretch_of(body: Incoming | StreamedBody, offset: int) -> ByteRange:
    """What of an answer's body belongs to a stretch that begins at `offset`."""
    etag = body.answer.etag
    if body.answer.status == BEYOND_THE_END:
        return ByteRange(None, offset, "")
    total = _TOTAL.fullmatch(body.answer.headers.get("content-range", ""))
    if total is None:  # the whole object, of a server that knows no ranges
        end = body.left
        _skip(body, min(offset, end))
        return ByteRange(body, end, etag)
    if int(total[1]) != offset or int(total[2]) - offset + 1 != body.left:
        body.close()
        raise StoreUnavailable("other bytes came than were asked for; they are asked for again")
    return ByteRange(body, int(total[3]), etag)


def _skip(body: Incoming | StreamedBody, size: int) -> None:
    """Read so many bytes and let them go."""
    room = bytearray(min(size, CHUNK_BYTES))
    try:
        while size > 0:
            with memoryview(room)[:size] as view:
                taken = body.readinto(view)
            if not taken:
                raise WireBroken("the connection ended inside an answer")
            size -= taken
    except (WireBroken, TimeoutError) as error:
        body.close()
        raise StoreUnavailable("an object breaks off before its end; it is read again") from error


class StreamedBody:
    """As an `Incoming`, of botocore's answer."""

    def __init__(self, answer: Answer, left: int, body: Any) -> None:
        self.answer = answer
        self.left = left
        self._body = body

    def readinto(self, buffer: Body) -> int:
        """Some of what is left; raises `WireBroken` as well at its end as when it breaks off."""
        view = memoryview(buffer)
        try:
            piece = self._body.read(min(len(view), CHUNK_BYTES))
        except (BotoCoreError, HTTPClientError, HTTPError, OSError, ValueError) as error:
            raise WireBroken(type(error).__name__) from error
        if not piece:
            raise WireBroken("the connection ended inside an answer")
        view[: len(piece)] = piece
        self.left -= len(piece)
        return len(piece)

    def close(self) -> None:
        """Give up what is left."""
        self._body.close()
