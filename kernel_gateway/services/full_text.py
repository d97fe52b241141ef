"""The text of one execution in full, kept on disk while it arrives: more of it than its stored outcome can hold.

What arrives is written at once, in pieces of at most 64 KB, to files that nobody waits to be on the disk: that is as
fast as memory. What cannot be kept costs the execution nothing: its cell says why.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kernels.capped_text import first_bytes
from kernels.execution import Event

if TYPE_CHECKING:
    from kernel_gateway.services.kept_outputs import KeptOutputs

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
        self._streams = {name: _Stream(kept, session_id) for name in STREAMS}

    def take(self, event: Event) -> bool:
        """Take an event in; says whether it is for others too."""
        data = event.data
        if event.kind == "clear" or (event.kind == "beyond" and "clear" in data):
            self._clear(wait=bool(data["wait"]))
        elif event.kind in CLEARED_BY:
            if self._clear_on_next:
                self._clear(wait=False)
            if event.kind in ("stream", "beyond"):
                self._streams[data["name"]].take(data.get("text", ""), data.get("size", 0))
        return event.kind != "beyond"

    @property
    def large(self) -> bool:
        """Whether there is more than a stored outcome holds."""
        return any(stream.total > self._kept.stored_text_bytes for stream in self._streams.values())

    def finish(self) -> list[dict[str, Any]]:
        """Blocking: what the execution's cell says of texts that are kept, or could not be."""
        told = []
        for name, stream in self._streams.items():
            about = stream.finish()
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
            self._streams = {name: _Stream(self._kept, self._session_id) for name in STREAMS}


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
            about = self._made_durable()
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

    def _made_durable(self) -> dict[str, Any]:
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
