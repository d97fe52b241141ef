"""How an operation talks to the service without doing I/O: a generator of requests that is sent their answers.

An operation yields `Ask` (send this), `Pause` (wait), `Digest` or `Read` (of local content), and is sent an `Answer`.
`Client` and `AsyncClient` are the two small drivers. Only what may be sent twice is retried.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib import parse

import msgspec

from sandcell.errors import ConnectionFailed, LimitReached, NotFound, SandcellError, error_of

T = TypeVar("T")
ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
REQUEST_SECONDS = 60.0
START_SECONDS = 900.0
"""Starting and stopping wait for a workspace to be restored or flushed."""


Progress = Callable[[int, int | None], None]
"""Called with the bytes that have gone over the wire, and with those of all, where that is known."""


@dataclass(frozen=True)
class Piece:
    """So many bytes of a local file, from `start` on."""

    path: Path
    start: int
    size: int


@dataclass(frozen=True)
class Ask:
    """One request. `path` is already quoted; `content` is bytes, or a file or a piece of one, sent as it is read."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | Path | Piece | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = REQUEST_SECONDS
    on_progress: Progress | None = None

    @property
    def address(self) -> str:
        """Path and query."""
        if not self.query:
            return self.path
        return f"{self.path}{'&' if '?' in self.path else '?'}{parse.urlencode(self.query)}"


@dataclass(frozen=True)
class Pause:
    """Wait before the next step."""

    seconds: float


@dataclass(frozen=True)
class Digest:
    """Read content to its end; what comes back is its SHA-256 in hexadecimal."""

    content: bytes | Path


@dataclass(frozen=True)
class Read:
    """Read the next bytes of a stream, so many where it has them; nothing comes back at its end."""

    stream: IO[bytes]
    size: int


@dataclass(frozen=True)
class Answer:
    """What came back; `lost` says why nothing did."""

    status: int = 0
    content: bytes = b""
    lost: str = ""

    def error(self) -> SandcellError | None:
        """The exception this answer stands for, if it is no success."""
        if self.lost:
            return ConnectionFailed(self.lost, code="connection_failed", retryable=True)
        return None if 200 <= self.status < 300 else error_of(self.status, self.content)


Step = Ask | Pause | Digest | Read
Operation = Generator[Step, Answer, T]


def omit_none(**values: Any) -> dict[str, Any]:
    """The values that were given: what is left out takes the service's default."""
    return {name: value for name, value in values.items() if value is not None}


def exchange(ask: Ask, *, repeatable: bool | None = None, removes: bool = False) -> Operation[bytes]:
    """Send a request and return the content of its answer; raises `SandcellError`.

    `repeatable` (GET, PUT and DELETE by default): sending it twice does no harm, so it is sent again when the
    connection was lost or the service says that it may be. One that was refused for its rate alone never ran.
    `removes`: what is not there when it is sent again was removed by the first, whose answer was lost.
    """
    if repeatable is None:
        repeatable = ask.method in ("GET", "PUT", "DELETE")
    lost = False
    for attempt in range(ATTEMPTS):
        answer = yield ask
        error = answer.error()
        if error is None:
            return answer.content
        if removes and lost and isinstance(error, NotFound):
            return b""
        lost = lost or bool(answer.lost)
        if attempt == ATTEMPTS - 1 or not may_repeat(error, repeatable=repeatable):
            raise error
        yield Pause(pause_seconds(attempt, error))
    raise AssertionError("unreachable")


def may_repeat(error: SandcellError, *, repeatable: bool) -> bool:
    """Whether a request that failed so may be sent again."""
    if isinstance(error, LimitReached):
        return error.code == "rate_limited"  # other limits last: a quota, a full queue
    # 0 is no answer at all. A proxy's 504 is none of these: the request may still be carried out.
    return repeatable and error.retryable and error.status in (0, 502, 503)


def pause_seconds(attempt: int, error: SandcellError | None = None) -> float:
    """How long to wait before trying again: what the service says, else doubling."""
    if isinstance(error, LimitReached):
        return min(error.retry_after_seconds, LONGEST_PAUSE_SECONDS)
    return min(FIRST_PAUSE_SECONDS * float(2**attempt), LONGEST_PAUSE_SECONDS)


class Losses:
    """Connections of one stream of events that were lost one after another."""

    def __init__(self, patience_seconds: float | None) -> None:
        """With None there are so many attempts as at any request."""
        self._patience_seconds = patience_seconds
        self._count, self._since = 0, 0.0

    def reset(self) -> None:
        """Something came: the next loss is the first one."""
        self._count = 0

    def fail(self, error: SandcellError) -> float:
        """How long to wait before the next connection; raises the error when there is to be none."""
        self._count += 1
        if self._count == 1:
            self._since = time.monotonic()
        if self._patience_seconds is None:
            patient = self._count < ATTEMPTS
        else:
            patient = time.monotonic() - self._since < self._patience_seconds
        if not patient or not may_repeat(error, repeatable=True):
            raise error
        return pause_seconds(self._count, error)


def decode(content: bytes, of: type[T]) -> T:
    """JSON as a value; names of files that are not UTF-8 arrive as lone surrogates, which only `json` reads."""
    try:
        return msgspec.json.decode(content, type=of)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(content), of)


def quote(path: str) -> str:
    """A file's path for an address, any bytes; dots that lead upwards are kept, so that the service refuses them."""
    parts = path.encode("utf-8", "surrogateescape").split(b"/")
    return "/".join("%2E" * len(part) if part in (b".", b"..") else parse.quote(part, safe="") for part in parts)
