"""pip's word that it finds no such package, replaced by the guest's sentence, which says why and what has it.

Run in pip itself by a `.pth` file of the user's packages, in sandboxes that reach no package index. pip shows no answer
of an index to people; so its errors are read on their way to stderr. What is not understood passes as it is.
"""

from __future__ import annotations

import atexit
import re
import sys
from typing import Any

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FIRST = re.compile(r"ERROR: Could not find a .* that satisfies the requirement .*\(from versions: none\)")
OTHERS = "ERROR: Could not find a "
SECOND = re.compile(r"ERROR: No matching distribution found for ([A-Za-z0-9][A-Za-z0-9._-]*).*")
MOST_BYTES = 4096
SECONDS = 5


class Errors:
    """Stands for pip's stderr; `address` is the index that the guest answers for."""

    def __init__(self, stream: Any, address: str) -> None:
        self._stream = stream
        self._address = address
        self._held = self._begun = ""
        self._has_others = False
        atexit.register(lambda: self._held and stream.write(self._held))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write; of a text about an error whole lines, what is no line yet waiting for the rest, or to be flushed."""
        if not (self._begun or self._held or "ERROR: " in text):
            self._stream.write(text)
            return len(text)
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._write_line(line + "\n")
        return len(text)

    def flush(self) -> None:
        begun, self._begun = self._begun, ""
        self._stream.write(begun)
        self._stream.flush()

    def _write_line(self, line: str) -> None:
        plain = COLOUR.sub("", line).rstrip("\n")
        held, self._held = self._held, ""
        second = SECOND.fullmatch(plain)
        if FIRST.fullmatch(plain):
            self._held, line = line, ""
        elif plain.startswith(OTHERS):
            self._has_others = True  # it has found the package somewhere, in versions that do not fit
        elif second and not self._has_others and (sentence := self._ask(second[1])):
            held, line = "", line.replace(plain, f"ERROR: {sentence}")
        self._stream.write(held + line)

    def _ask(self, name: str) -> str:
        """The guest's sentence on a package; empty when it has none."""
        from urllib.request import urlopen  # noqa: PLC0415 - most runs of pip need none of it

        try:
            with urlopen(f"{self._address.replace('/simple/', '/why/')}{name}", timeout=SECONDS) as answer:  # noqa: S310
                return " ".join(answer.read(MOST_BYTES).decode("ascii", "replace").split())
        except (OSError, ValueError):
            return ""


def replace_stderr(address: str) -> None:
    """Called once, while pip's interpreter starts."""
    if sys.stderr is not None:
        sys.stderr = Errors(sys.stderr, address)
