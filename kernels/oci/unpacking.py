"""Unpacks a layer from standard input, inside the root file system of an image. A script.

The image may come from anywhere. This process makes the directory its root before it reads a byte, so that no name and
no link in the image leads out of it (nothing can be imported from then on). What it makes is root's, has no set-uid bit
and can be changed by root only; devices and file capabilities are left out. What the image's user may read, everybody
may: code runs as another user. Timestamps stay: compiled Python is held against its source by them. `Archive`, which
reads tar files of unknown origin, is used outside as well.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import sys
import tarfile
from pathlib import PurePosixPath
from typing import Any, BinaryIO, ClassVar, Final

MOST_FILES: Final = 4096
"""In an archive of an image's parts, which are a few for each layer."""
LONGEST_HEADER_BYTES: Final = 128 << 10
_MOST_MEMORY_BYTES: Final = 1 << 30

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_PIECE: Final = 1 << 20
_NEEDED: Final = (
    "workspace",
    "home/user",
    "run/sandcell",
    "opt/sandcell/guest",
    "dev/shm",
    "proc",
    "sys/devices/system/cpu",
    "tmp",
)
"""Where sandboxes mount something: a read-only root cannot be given them later."""
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _Member(tarfile.TarInfo):
    """What a header declares is checked here, before `tarfile` acts on it."""

    # The hook that tarfile's source names for subclasses: called for each header that was read, extended ones too.
    def _proc_member(self, archive: Archive) -> tarfile.TarInfo:
        archive.files += 1
        if archive.files > archive.most_files:
            raise tarfile.TarError(f"the archive holds more than {archive.most_files:,} files")
        if self.type in _EXTENDED and self.size > LONGEST_HEADER_BYTES:  # tarfile reads it in one piece
            raise tarfile.TarError(
                f"the archive has a header of {self.size:,} bytes, more than {LONGEST_HEADER_BYTES:,}"
            )
        if self.type == tarfile.GNUTYPE_SPARSE:
            _refuse_sparse(self)
        _require_size(self)
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        _require_size(found)  # an extended header can declare another
        return found

    # The map of this form of sparse files is read from their content, until it says that it ends.
    def _proc_gnusparse_10(self, member: tarfile.TarInfo, *_: Any) -> None:
        _refuse_sparse(member)


class Archive(tarfile.TarFile):
    """A tar file of unknown origin: reading its headers takes bounded memory. `files` counts extended headers too."""

    tarinfo = _Member
    most_files: ClassVar = MOST_FILES
    files = 0


def _require_size(member: tarfile.TarInfo) -> None:
    if member.size < 0:  # tarfile would go back by it, and read the same header for ever
        raise tarfile.TarError(f"the archive has a file of {member.size} bytes: {member.name[:200]!r}")


def _refuse_sparse(member: tarfile.TarInfo) -> None:
    """A few bytes of the archive may stand for any number in the file; no image needs that."""
    raise tarfile.TarError(f"the archive has a sparse file, as no image should: {member.name[:200]!r}")


def main(root: str, seconds: str, user: str, files: str, most_files: str) -> None:
    """Unpack a layer within so many seconds; a defect of it ends this process with a line that describes it."""
    stream = sys.stdin.buffer
    enter(root, int(seconds))
    try:
        sys.stdout.write(str(_unpack(stream, user, int(files), int(most_files))))
    except MemoryError:
        sys.exit("the archive takes more memory to read than an image should")
    except OSError as error:
        place = "" if error.filename is None else f" at {os.fsdecode(error.filename)[:200]!r}"
        sys.exit(f"the layer cannot be unpacked{place}: {error.strerror or error}")
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        sys.exit(str(error))


def enter(root: str, seconds: int) -> None:
    """Make a directory this process's root for good, and bound its time and memory."""
    signal.alarm(seconds)  # its default action ends this process, also one that waits for more of a layer
    os.umask(0o022)
    os.chroot(root)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))


def _unpack(stream: BinaryIO, user: str, files: int, most_files: int) -> int:
    """Unpack a layer; the number of files with those of the layers below, which is `files` at first."""
    Archive.files, Archive.most_files = files, most_files  # of the class: opening an archive reads its first header
    with Archive.open(fileobj=stream, mode="r|") as layer:
        owner = _find_uid(user)
        while (member := layer.next()) is not None:
            _put(layer, member, _choose_mode(member, owner))
            if member.name.endswith("etc/passwd"):
                owner = _find_uid(user)
            layer.members.clear()  # type: ignore[attr-defined] # tarfile keeps all of them, also of a stream
    while stream.read(_PIECE):  # what pads the archive belongs to its digest
        pass
    for name in _NEEDED:
        os.makedirs(f"/{name}", exist_ok=True)
    return layer.files


def _find_uid(user: str) -> int:
    """The number of the image's user, by the passwd that is unpacked so far; 0 where it has none."""
    if user.isascii() and user.isdigit():
        return int(user[:10])
    try:
        with open("/etc/passwd", "rb") as file:
            lines = file.read(_PIECE).decode(errors="replace").splitlines()
    except OSError:
        return 0
    fields = next((line.split(":") for line in lines if line.startswith(f"{user}:")), [])
    return int(fields[2]) if len(fields) > 2 and fields[2].isascii() and fields[2].isdigit() else 0


def _choose_mode(member: tarfile.TarInfo, owner: int) -> int:
    """The mode of a file that is root's from now on: what the image's user owns and may read, others may read."""
    owned = owner != 0 and member.uid == owner
    return (member.mode | (member.mode & 0o500) >> 6 if owned else member.mode) & 0o755


def _put(layer: tarfile.TarFile, member: tarfile.TarInfo, mode: int) -> None:
    path = _place(member.name)
    if path == "/":
        return
    above, name = os.path.split(path)
    os.makedirs(above, exist_ok=True)
    if name == _OPAQUE:
        for each in os.listdir(above):
            _remove(f"{above}/{each}")
    elif name.startswith(_WHITEOUT):
        _remove(f"{above}/{name.removeprefix(_WHITEOUT)}")
    elif member.isdir():
        _make_directory(path, mode)
    elif member.issparse():
        _refuse_sparse(member)
    elif member.isreg() or member.issym() or member.islnk():
        _remove(path)
        _make_file(layer, member, path, mode)


def _place(name: str) -> str:
    parts = [part for part in PurePosixPath(name).parts if part != "/"]
    if ".." in parts:
        raise ValueError(f"the layer has a name that leads out of it: {name[:200]!r}")
    return "/" + "/".join(parts)


def _make_directory(path: str, mode: int) -> None:
    if not (os.path.isdir(path) and not os.path.islink(path)):
        _remove(path)
        os.mkdir(path)
    os.chmod(path, mode)


def _make_file(layer: tarfile.TarFile, member: tarfile.TarInfo, path: str, mode: int) -> None:
    if member.issym():
        os.symlink(member.linkname, path)
        return
    if member.islnk():
        os.link(_place(member.linkname), path, follow_symlinks=False)
        return
    content = layer.extractfile(member)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file, _PIECE)
        os.fchmod(descriptor, mode)
        file.flush()
        os.utime(descriptor, (member.mtime, member.mtime))


def _remove(path: str) -> None:
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(kind):
        shutil.rmtree(path)
    else:
        os.unlink(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
