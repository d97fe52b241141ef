"""Unpacks one layer of an image, a tar from standard input, into the directory that is its argument. Run as a script.

The layer may be anybody's. This process makes the directory its root before it reads a byte, so that no name and no
link in the layer leads out of it (nothing can be imported from then on). What it makes is root's, has no set-uid bit
and can be changed by nobody else; devices are left out. Times stay: compiled Python is held against its source by them.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tarfile
from pathlib import PurePosixPath
from typing import BinaryIO, Final

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


def main(root: str) -> None:
    """Unpack; whatever is wrong with the layer ends this process with a line that says it."""
    stream = sys.stdin.buffer
    os.umask(0o022)
    os.chroot(root)
    os.chdir("/")
    try:
        _unpack(stream)
    except (OSError, tarfile.TarError, ValueError) as error:
        sys.exit(str(error))


def _unpack(stream: BinaryIO) -> None:
    with tarfile.open(fileobj=stream, mode="r|") as layer:
        for member in layer:
            _put(layer, member)
    while stream.read(_PIECE):  # what pads the archive belongs to its digest
        pass
    for name in _NEEDED:
        os.makedirs(f"/{name}", exist_ok=True)


def _put(layer: tarfile.TarFile, member: tarfile.TarInfo) -> None:
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
        _make_directory(path, member)
    elif member.issparse():  # a few bytes of the layer may stand for any number in the file
        raise ValueError(f"the layer has a sparse file, as no image should: {member.name[:200]!r}")
    elif member.isreg() or member.issym() or member.islnk():
        _remove(path)
        _make_file(layer, member, path)


def _place(name: str) -> str:
    parts = [part for part in PurePosixPath(name).parts if part != "/"]
    if ".." in parts:
        raise ValueError(f"the layer has a name that leads out of it: {name[:200]!r}")
    return "/" + "/".join(parts)


def _make_directory(path: str, member: tarfile.TarInfo) -> None:
    if not (os.path.isdir(path) and not os.path.islink(path)):
        _remove(path)
        os.mkdir(path)
    os.chmod(path, member.mode & 0o755)


def _make_file(layer: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
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
        os.fchmod(descriptor, member.mode & 0o755)
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
    main(sys.argv[1])
