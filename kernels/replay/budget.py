"""What one comparison may cost: whatever is beyond is compared byte for byte, and the answer says so. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MOST_TEXT: Final = 1_200_000
"""Characters of lines that differ, of all runs together, that are taken apart in one comparison: about two seconds."""
MOST_PIXELS: Final = 4_000_000
"""Pixels of both sides together that are decoded in one comparison: about one second."""
MOST_OUTPUTS: Final = 10_000
"""Outputs of a side that are looked at one by one: as many as an execution keeps."""


@dataclass
class Budget:
    """What is left; `notes` are the sentences about what was compared byte for byte."""

    text: int = MOST_TEXT
    pixels: int = MOST_PIXELS
    notes: list[str] = field(default_factory=list)

    def take_text(self, characters: int, what: str) -> bool:
        """Whether so much text may be taken apart."""
        if characters > self.text:
            self._note(f"{what} is too large to be taken apart ({characters:,} characters) and was compared as it is")
            return False
        self.text -= characters
        return True

    def take_pixels(self, pixels: int, what: str) -> bool:
        """Whether so many pixels may be decoded."""
        if pixels > self.pixels:
            self._note(f"{what} is too large to be compared by pixels and was compared as it is stored")
            return False
        self.pixels -= pixels
        return True

    def _note(self, sentence: str) -> None:
        if len(self.notes) < 3:
            self.notes.append(sentence)
