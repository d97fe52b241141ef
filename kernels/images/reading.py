"""Reads files of an unpacked image, which may be anybody's: no link in it is followed, and what is read is bounded."""

from __future__ import annotations

import itertools
import logging
import os
from pathlib import Path
from typing import Final

from kernels.oci.safe_open import open_beneath

MOST_BYTES: Final = 64 << 20
MOST_FILES: Final = 100_000
_MOST_ENTRIES: Final = 50_000

log = logging.getLogger(__name__)


class ImageReader:
    """Reads so many files of an image, and so much of them, in all; what is over that is as if it were not there."""

    def __init__(self, root: str) -> None:
        self._top = Path(root)
        self._files, self._bytes, self._cut = MOST_FILES, MOST_BYTES, False

    def list_names(self, place: str) -> list[str]:
        """The names in a directory of the image; none when it has no such directory."""
        if not self._take(files=1):
            return []
        try:
            directory = open_beneath(self._top, os.fsencode(place))
        except OSError:
            return []
        try:
            with os.scandir(directory) as entries:
                names = [each.name for each in itertools.islice(entries, _MOST_ENTRIES)]
        except OSError:  # a file, or a link
            return []
        finally:
            os.close(directory)
        return names if self._take(files=len(names)) else []

    def read_text(self, place: str, most_bytes: int) -> str:
        """The beginning of a file of the image; empty when it has no such file."""
        if not self._take(files=1):
            return ""
        try:
            file = open_beneath(self._top, os.fsencode(place))
        except OSError:
            return ""
        try:
            # os.read allocates as many bytes as it is asked for, however small the file is
            size = min(os.fstat(file).st_size, most_bytes)
            return os.read(file, size).decode("utf-8", "replace") if self._take(size=size) else ""
        except OSError:  # a directory, or a link
            return ""
        finally:
            os.close(file)

    def _take(self, files: int = 0, size: int = 0) -> bool:
        """Count what is about to be read; False when it is too much, and from then on."""
        self._files -= files
        self._bytes -= size
        if self._files >= 0 and self._bytes >= 0:
            return True
        if not self._cut:
            log.warning("the image %s has more to read than is read of one: the rest is left out", self._top)
        self._cut = True
        return False
