"""Other people's text as a log may hold it: one line, and nothing that a terminal or a reader obeys. Pure."""

from __future__ import annotations

import logging
import re
from typing import Final

_OBEYED: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f]"  # controls: colours, cursor, titles, line ends
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # line ends and reordering beyond ASCII
    r"|[\ud800-\udfff]"  # no text at all: bytes that were no UTF-8
)


def is_plain(text: str) -> bool:
    """Whether there is nothing in it to escape."""
    return _OBEYED.search(text) is None


def escape(text: str) -> str:
    r"""The text on one line, with such characters as Python writes them: `\x1b`, `\n`, `\u202e`."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def escape_lines(text: str) -> str:
    """A traceback: its lines stay lines, each set in, so that none can be taken for a line of the log."""
    return "\n".join(f"  {escape(line)}" for line in text.split("\n"))


class OneLine(logging.Formatter):
    """The standard library's formatter, for those who log without structlog."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return escape(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        return escape_lines(super().formatException(ei))  # type: ignore[arg-type]
