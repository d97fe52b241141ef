"""An image over another one: the other's files, shared by hard links, and what sandboxes added or changed.

What a sandbox made is hostile, and so are the images: directories are opened one by one, no link is followed on either
side, devices and set-uid bits are left out, and no file that is there already is written to: it is the other image's as
well.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kernels.errors import EnvironmentBuildFailed
from kernels.oci.safe_open import open_beneath

MOST_FILES: Final = 1_000_000
MOST_LEVELS: Final = 64
GIVEN_UP: Final = "nobody waits for the image any more"
_ZEROS: Final = bytes(1 << 20)
_OPAQUE: Final = "trusted.overlay.opaque"
_PLACE: Final = re.compile(r"/[A-Za-z0-9._/+-]{1,500}")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def link_root(base: Path, root: Path) -> None:
    """Make `root`, which is not there yet, of the files of another image; on another file system they are copied."""
    for how in ("--link", "--reflink=auto"):
        done = subprocess.run(
            ["cp", "--archive", how, "--", str(base), str(root)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(root)], capture_output=True, check=False)
    raise EnvironmentBuildFailed(f"the image {base} could not be copied: {done.stderr.strip()[-500:]}")


def make_place(root: Path, place: str) -> None:
    """Make a directory of an image, which may have a link on the way there: none is followed. Raises OSError."""
    names = place.strip("/").split("/")
    for depth, name in enumerate(names):
        above = open_beneath(root, "/".join(names[:depth]).encode())
        try:
            os.mkdir(name, 0o755, dir_fd=above)
        except FileExistsError:
            pass
        finally:
            os.close(above)


class Layer:
    """Adds what a sandbox installed to a root file system of its own: at most `most_bytes` in all, holes counted.

    `given_up` is asked at every file whether this is still wanted.
    """

    def __init__(self, root: Path, most_bytes: int, given_up: Callable[[], bool] = lambda: False) -> None:
        self._root, self._most_bytes, self._changes = root, most_bytes, False
        self._given_up = given_up
        self._files, self._bytes = MOST_FILES, most_bytes

    def add(self, source: Path, below: str, place: str) -> None:
        """Take the tree `below` a directory of the sandbox's into the image's directory `place`, which must be there.

        Only what the image has not is taken, and no links. What is not there to be taken is no error. Raises
        `EnvironmentBuildFailed`.
        """
        if place != "/" and not _PLACE.fullmatch(place):
            raise EnvironmentBuildFailed(f"the image's Python keeps packages at no place: {place[:200]!r}")
        self._changes = False
        self._add(source, below, place)

    def change(self, source: Path, below: str) -> None:
        """Change the image as the upper directory of an overlay over it, `below` another one, says.

        What is there takes the place of the image's, and what is marked as removed goes. Raises
        `EnvironmentBuildFailed`.
        """
        self._changes = True
        self._add(source, below, "/")

    def _add(self, source: Path, below: str, place: str) -> None:
        try:
            taken = open_beneath(source, os.fsencode(below))
        except FileNotFoundError:
            return
        except OSError as error:
            why = f"{below[:200]!r} of the sandbox cannot be opened: {error.strerror}"
            raise EnvironmentBuildFailed(f"what was installed cannot be taken over: {why}") from None
        try:
            target = open_beneath(self._root, os.fsencode(place.strip("/")))
            try:
                self._copy(taken, target, MOST_LEVELS)
            finally:
                os.close(target)
        except OSError as error:
            raise EnvironmentBuildFailed(f"what was installed cannot be taken over: {error}") from None
        finally:
            os.close(taken)

    def _copy(self, source: int, target: int, levels: int) -> None:
        if not levels:
            raise EnvironmentBuildFailed(f"what was installed is deeper than {MOST_LEVELS} directories")
        with os.scandir(source) as entries:
            for entry in entries:
                self._files -= 1
                if self._given_up():
                    raise EnvironmentBuildFailed(GIVEN_UP)
                if self._files < 0:
                    raise EnvironmentBuildFailed(f"what was installed are more than {MOST_FILES:,} files")
                mode = os.stat(entry.name, dir_fd=source, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    self._copy_directory(source, target, entry.name, levels)
                elif stat.S_ISREG(mode):
                    self._copy_file(source, target, entry.name)
                elif stat.S_ISLNK(mode) and self._changes:
                    _remove(target, entry.name)
                    # Where it leads matters in sandboxes alone, which see nothing but the image.
                    os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
                elif stat.S_ISCHR(mode) and self._changes:  # a whiteout; a container can make no other
                    _remove(target, entry.name)

    def _copy_directory(self, source: int, target: int, name: str, levels: int) -> None:
        taken = os.open(name, _DIRECTORY, dir_fd=source)
        try:
            if self._changes and (_is_opaque(taken) or not _is_directory(target, name)):
                _remove(target, name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=target)
            made = os.open(name, _DIRECTORY, dir_fd=target)
            try:
                self._copy(taken, made, levels - 1)
            finally:
                os.close(made)
        finally:
            os.close(taken)

    def _copy_file(self, source: int, target: int, name: str) -> None:
        with os.fdopen(os.open(name, _READ, dir_fd=source), "rb") as taken:
            found = os.fstat(taken.fileno())
            self._bytes -= found.st_size
            if not stat.S_ISREG(found.st_mode) or self._bytes < 0:
                raise EnvironmentBuildFailed(f"what was installed has more than {self._most_bytes:,} bytes")
            if self._changes:
                _remove(target, name)
            try:
                new = os.open(name, _NEW, 0o755 if found.st_mode & 0o100 else 0o644, dir_fd=target)
            except FileExistsError:
                return
            with os.fdopen(new, "wb") as made:
                left = found.st_size  # and no more, should a process of the sandbox still write to it
                while left and (piece := taken.read(min(left, len(_ZEROS)))):
                    left -= len(piece)
                    if _ZEROS.startswith(piece):  # a hole costs a sandbox nothing, and stays one
                        made.seek(len(piece), os.SEEK_CUR)
                    else:
                        made.write(piece)
                made.truncate()
                os.utime(made.fileno(), ns=(found.st_mtime_ns, found.st_mtime_ns))  # bytecode is good for this time


def _is_opaque(directory: int) -> bool:
    """Whether nothing shows of the directory that the image has there."""
    try:
        return os.getxattr(directory, _OPAQUE) == b"y"
    except OSError:
        return False


def _is_directory(target: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=target, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _remove(target: int, name: str) -> None:
    """Remove what the image has there: its own names of files, which other images have as well."""
    if _is_directory(target, name):
        shutil.rmtree(name, dir_fd=target)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=target)
