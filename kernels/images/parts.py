"""The files that an image consists of, as they lie in an archive or in a directory.

Both may come from anywhere: headers of an archive are read within bounds, and in a directory no link is followed.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.oci import image_layers
from kernels.oci.unpacking import MOST_FILES, Archive

DAMAGE: Final = (
    *(OSError, ValueError, KeyError, EOFError, RecursionError, OverflowError, MemoryError),
    *(tarfile.TarError, zlib.error, lzma.LZMAError, msgspec.MsgspecError),
)
"""What readers of a damaged archive, or of one that was made to be, raise."""
_DEPTH: Final = 3
"""Of `blobs/sha256/<digest>`."""


class ArchiveParts:
    """The members of a tar file."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def names(self) -> set[str]:
        """All of them."""
        found = set()
        for member in self._archive:
            # Before the next header is looked for: in a compressed archive all up to there is decompressed for it.
            image_layers.require_size(member.offset_data + member.size)
            found.add(member.name)
        return found

    def size(self, name: str) -> int:
        """The bytes of one."""
        return self._archive.getmember(name).size

    def open(self, name: str) -> IO[bytes]:
        """One of them, to read."""
        found = self._archive.extractfile(name)
        if found is None:
            raise EnvironmentBuildFailed(f"{name[:200]!r} in the archive is no file")
        return found


class DirectoryParts:
    """The files of a directory, such as an OCI image layout."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> set[str]:
        """Those that an image layout may have."""
        return set(self._list(self._directory, _DEPTH))

    def _list(self, place: Path, depth: int) -> Iterator[str]:
        with os.scandir(place) as entries:
            for number, entry in enumerate(entries):
                if number >= MOST_FILES:
                    raise EnvironmentBuildFailed(f"{place} holds more than {MOST_FILES:,} files")
                if entry.is_file(follow_symlinks=False):
                    yield os.path.relpath(entry.path, self._directory)
                elif entry.is_dir(follow_symlinks=False) and depth > 1:
                    yield from self._list(Path(entry.path), depth - 1)

    def size(self, name: str) -> int:
        """The bytes of one."""
        return (self._directory / name).lstat().st_size

    def open(self, name: str) -> IO[bytes]:
        """One of them, to read. A link or a pipe in its place is refused, and nothing waits for a writer."""
        descriptor = os.open(self._directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise EnvironmentBuildFailed(f"{name[:200]!r} in {self._directory} is no file")
        return os.fdopen(descriptor, "rb")


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[ArchiveParts]:
    """The parts of an image in an archive."""
    with path.open("rb") as file:
        if file.read(len(image_layers.ZSTD)) == image_layers.ZSTD:  # which only some versions of Python read
            raise EnvironmentBuildFailed(f"{path} is compressed by zstd; decompress it first (unzstd)")
    try:
        archive = Archive.open(path)
    except DAMAGE as error:
        raise EnvironmentBuildFailed(f"{path} is no tar archive, or a damaged one: {describe_damage(error)}") from None
    with archive:
        yield ArchiveParts(archive)


def describe_damage(error: Exception) -> str:
    """What a reader says of damage, in one line: of the many of an archive that no reader takes, the first says so."""
    return str(error).partition("\n")[0].rstrip(":") or type(error).__name__
