"""Layers of an image: unpacked from an archive into a root file system, and one packed from a root file system.

An unpacked layer is held against the digest that the image's config has of it. Names and links in it are followed by
another process (`unpacking`), for which the new root file system is all there is.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from kernels.errors import EnvironmentBuildFailed
from kernels.oci.environments import Progress, megabytes

_MOST_UNPACKED_BYTES: Final = 64 << 30
_PIECE: Final = 1 << 20
_STEP_SECONDS: Final = 1800
_SAY_SECONDS: Final = 5.0
_UNPACK: Final = str(Path(__file__).with_name("unpacking.py"))


class _Throttle:
    """Passes a line on where the last was some seconds ago."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = time.monotonic()

    def say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._last > _SAY_SECONDS:
            self._last = now
            self._progress(line)


def unpack(archive: tarfile.TarFile, layers: Sequence[tuple[str, str]], root: Path, progress: Progress) -> None:
    """Unpack layers on each other into a new directory; each is a member of the archive and its digest when unpacked.

    Raises `EnvironmentBuildFailed`, and whatever tells of a damaged archive.
    """
    root.mkdir(mode=0o755)
    unpacked, throttle = 0, _Throttle(progress)
    for number, (name, digest) in enumerate(layers, start=1):
        progress(f"layer {number} of {len(layers)}: {megabytes(archive.getmember(name).size)}")
        with _unpacking(root) as feed, _decompressed(open_member(archive, name)) as layer:
            found = hashlib.sha256()
            while piece := layer.read(_PIECE):
                found.update(piece)
                unpacked += len(piece)
                if unpacked > _MOST_UNPACKED_BYTES:
                    raise EnvironmentBuildFailed(f"the image is larger than {megabytes(_MOST_UNPACKED_BYTES)}")
                feed(piece)
                throttle.say(f"  {megabytes(unpacked)} unpacked")
        if f"sha256:{found.hexdigest()}" != digest:
            raise EnvironmentBuildFailed(f"layer {number} is not the one that the image names: its digest differs")


@contextlib.contextmanager
def _unpacking(root: Path) -> Iterator[Callable[[bytes], object]]:
    """A process that unpacks what it is fed; what it has against that is raised."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([sys.executable, "-I", _UNPACK, str(root)], stdin=subprocess.PIPE, stderr=said)
        feed = cast("IO[bytes]", child.stdin)
        try:
            with contextlib.suppress(BrokenPipeError):
                yield feed.write
            with contextlib.suppress(BrokenPipeError):
                feed.close()
            status = child.wait(_STEP_SECONDS)
        finally:
            with contextlib.suppress(BrokenPipeError):
                feed.close()
            child.kill()
            child.wait()
        if status:
            said.seek(0)
            raise EnvironmentBuildFailed(said.read().decode(errors="replace").strip()[-1000:] or f"status {status}")


@contextlib.contextmanager
def _decompressed(layer: IO[bytes]) -> Iterator[IO[bytes]]:
    magic = layer.read(4)
    layer.seek(0)
    if magic == b"\x28\xb5\x2f\xfd":
        raise EnvironmentBuildFailed("its layers are compressed by zstd; save it again with gzip layers")
    if magic[:2] != b"\x1f\x8b":
        yield layer
        return
    with gzip.GzipFile(fileobj=layer) as plain:
        yield cast("IO[bytes]", plain)


def open_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """A file of an archive, to read."""
    found = archive.extractfile(name)
    if found is None:
        raise EnvironmentBuildFailed(f"{name[:200]!r} in the archive is no file")
    return found


class _Hashed(io.RawIOBase):
    """Passes on what is written and hashes it."""

    def __init__(self, below: IO[bytes]) -> None:
        self._below = below
        self.found = hashlib.sha256()
        self.bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.found.update(content)
        self.bytes += len(content)
        self._below.write(content)
        return len(content)


def pack(root: Path, destination: Path, progress: Progress) -> tuple[str, str]:
    """The root file system as a compressed layer: its digest, and that of its content."""
    throttle = _Throttle(progress)

    def add(member: tarfile.TarInfo) -> tarfile.TarInfo:
        throttle.say(f"  {megabytes(content.bytes)} packed")
        return own_by_root(member)

    with destination.open("wb") as file:
        blob = _Hashed(file)
        with gzip.GzipFile(fileobj=cast("IO[bytes]", blob), mode="wb", compresslevel=1, mtime=0, filename="") as plain:
            content = _Hashed(cast("IO[bytes]", plain))
            with tarfile.open(fileobj=cast("IO[bytes]", content), mode="w|", format=tarfile.PAX_FORMAT) as layer:
                layer.add(root, ".", filter=add)
    return blob.found.hexdigest(), content.found.hexdigest()


def own_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A filter for `tarfile`: whatever the owner here, it is root in the image."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
