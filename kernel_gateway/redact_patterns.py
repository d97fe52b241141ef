"""What is struck out of a record: regular expressions, and the text without what they match. Pure.

They are RE2's: its time is linear in the text, whatever a pattern is and whatever a sandbox puts out to slow it down.
What Python's have and it has not (a look ahead or behind, a reference to a group) does not compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import re2

REDACTED: Final = "[redacted]"
MOST_MATCHES: Final = 5_000
"""Matches that are replaced one by one in one text; of a text with more nothing is kept."""
FLOODED: Final = f"[redacted: more than {MOST_MATCHES:,} passages match a pattern]"


class Patterns:
    """Compiled patterns; raises ValueError that names the one that is none."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._compiled = [_compile(source) for source in sources]

    @classmethod
    def of_lines(cls, text: str) -> Patterns:
        """One pattern a line; empty lines do not count."""
        return cls([line for line in text.splitlines() if line.strip()])

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def redact(self, text: str) -> str:
        """The text with `[redacted]` for everything that a pattern matches."""
        if not self._compiled or not text:
            return text
        data = text.encode("utf-8", "replace")
        changed = False
        for pattern in self._compiled:
            if pattern.search(data) is None:
                continue
            data, count = pattern.subn(REDACTED.encode(), data, MOST_MATCHES + 1)
            changed = True
            if count > MOST_MATCHES:
                return FLOODED
        return data.decode("utf-8", "replace") if changed else text


def _compile(source: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(source.encode(), options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        raise ValueError(f"the pattern {source!r} is no regular expression of RE2: {_explain(error)}") from None
    if pattern.search(b"") is not None:
        raise ValueError(f"the pattern {source!r} matches where nothing is: it would strike out everything")
    return pattern


def _explain(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
