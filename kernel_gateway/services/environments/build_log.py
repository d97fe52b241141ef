"""What the build of an image has printed so far, and what it shows of that: the end, cleaned. No I/O.

Tools print what packages say. Nobody interprets it, and no terminal obeys it.
"""

from __future__ import annotations

from typing import Final

from kernels.log_text import escape

LONGEST_LOG: Final = 64 * 1024
"""Of one build's, in characters, of which the last are kept."""


class BuildLog:
    """Texts are added as steps end; of the step under way, all that it has printed so far is shown again and again."""

    def __init__(self) -> None:
        self._ended = ""
        self._under_way = ""

    def add(self, text: str) -> None:
        """A line of the service's, or what a step has printed that has ended."""
        self._ended = f"{self._ended}{text}\n"[-2 * LONGEST_LOG :]  # more than is shown: escaping makes it longer only
        self._under_way = ""

    def show(self, text: str) -> None:
        """What the step under way has printed, from its beginning."""
        self._under_way = text

    def read(self) -> str:
        """All of it as every database and terminal takes it; of a long one the end."""
        lines = f"{self._ended}{self._under_way}".splitlines()
        return "\n".join(escape(line) for line in lines)[-LONGEST_LOG:]
