"""Layers of an image: unpacked into a root file system, and one packed from a root file system.

An unpacked layer is held against the digest that the image's config has of it. Names and links in it are followed by
another process (`unpacking`), for which the new root file system is all there is.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

from kernels.errors import EnvironmentBuildFailed
from kernels.oci.environments import Progress, megabytes

ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of what is compressed by it."""
MOST_UNPACKED_BYTES: Final = 64 << 30
_MOST_FILES: Final = 4_000_000
_PIECE: Final = 1 << 20
_STEP_SECONDS: Final = 1800
_SAY_SECONDS: Final = 5.0
# Of processes that work on the files of an image: no variable of the service's is theirs.
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
_SCRIPT: Final = str(Path(__file__).with_name("unpacking.py"))


class Parts(Protocol):
    """The files that an image consists of, by name: an archive's members, or files of a directory.

    Reading may raise whatever tells of a damaged archive.
    """

    def names(self) -> set[str]: ...

    def size(self, name: str) -> int: ...

    def open(self, name: str) -> IO[bytes]: ...


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


def unpack(parts: Parts, layers: Sequence[tuple[str, str]], root: Path, progress: Progress, *, user: str = "") -> None:
    """Unpack layers on each other into a new directory; each is a name among the parts and its digest when unpacked.

    What only the image's `user` may read, everybody may. Raises `EnvironmentBuildFailed`, and whatever tells of damage.
    """
    root.mkdir(mode=0o755)
    unpacked, unpacker, throttle = 0, _Unpacker(root, user), _Throttle(progress)
    for number, (name, digest) in enumerate(layers, start=1):
        progress(f"layer {number} of {len(layers)}: {megabytes(parts.size(name))}")
        with unpacker.start() as feed, parts.open(name) as packed, _decompress(packed) as layer:
            found = hashlib.sha256()
            while piece := layer.read(_PIECE):
                found.update(piece)
                unpacked += len(piece)
                require_size(unpacked)
                feed(piece)
                throttle.say(f"  {megabytes(unpacked)} unpacked")
        if f"sha256:{found.hexdigest()}" != digest:
            raise EnvironmentBuildFailed(f"layer {number} is not the one that the image names: its digest differs")


def add_layer(layer: Path, root: Path) -> None:
    """Unpack one layer of our own, a plain tar file, on what is unpacked already; raises `EnvironmentBuildFailed`."""
    with _Unpacker(root, "").start() as feed, layer.open("rb") as file:
        while piece := file.read(_PIECE):
            feed(piece)


def require_size(size: int) -> None:
    """Raise `EnvironmentBuildFailed` when no image that is unpacked may be so large."""
    if size > MOST_UNPACKED_BYTES:
        raise EnvironmentBuildFailed(f"the image is larger than {megabytes(MOST_UNPACKED_BYTES)}")


class _Unpacker:
    """Unpacks layers, each in a process, and counts their files."""

    def __init__(self, root: Path, user: str) -> None:
        self._root = root
        self._user = user
        self._files = 0

    @contextlib.contextmanager
    def start(self) -> Iterator[Callable[[bytes], object]]:
        """A process for the next layer, as a function that feeds it; raises its complaint, if any, at the end."""
        command = make_command(_SCRIPT, self._root, self._user, str(self._files), str(_MOST_FILES))
        with tempfile.TemporaryFile() as answer:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answer, stderr=answer, env=ENVIRONMENT)
            feed = cast("IO[bytes]", child.stdin)
            try:
                # When it has failed it takes no more: what counts is its answer. And it ends itself at its deadline,
                # so that neither feeding it nor waiting for it lasts longer.
                with contextlib.suppress(BrokenPipeError):
                    yield feed.write
                with contextlib.suppress(BrokenPipeError):
                    feed.close()
                status = child.wait()
            finally:
                with contextlib.suppress(BrokenPipeError):
                    feed.close()
                child.kill()
                child.wait()
            answer.seek(0)
            if status:
                raise EnvironmentBuildFailed(describe_failure(status, answer.read()))
            self._files = int(answer.read())


def make_command(script: str, root: Path, *task: str) -> list[str]:
    """The command of a script that makes `root` its own root and ends itself at its deadline."""
    return [sys.executable, "-I", script, str(root), str(_STEP_SECONDS), *task]


def describe_failure(status: int, answer: bytes) -> str:
    """Why a process that works inside the image failed, in one line."""
    if status == -signal.SIGALRM:
        return f"a step of the import did not end in {_STEP_SECONDS} s"
    return answer[-1000:].decode(errors="replace").strip().rpartition("\n")[2] or f"status {status}"


@contextlib.contextmanager
def _decompress(layer: IO[bytes]) -> Iterator[IO[bytes]]:
    magic = layer.read(4)
    layer.seek(0)
    if magic == ZSTD:
        raise EnvironmentBuildFailed("its layers are compressed by zstd; save it again with gzip layers")
    if magic[:2] != b"\x1f\x8b":
        yield layer
        return
    with gzip.GzipFile(fileobj=layer) as plain:
        yield cast("IO[bytes]", plain)


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


def pack(root: Path, destination: Path, progress: Progress, above: Sequence[Path] = ()) -> tuple[str, str]:
    """The root file system, with trees `above` laid over it, as a compressed layer: its digest and its content's."""
    throttle = _Throttle(progress)

    def add(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        throttle.say(f"  {megabytes(content.bytes)} packed")
        # What is mounted in a root file system, such as its /proc, is no part of it.
        mounted = member.isdir() and member.name != "." and (root / member.name).is_mount()
        return None if mounted else own_by_root(member)

    with destination.open("wb") as file:
        blob = _Hashed(file)
        with gzip.GzipFile(fileobj=cast("IO[bytes]", blob), mode="wb", compresslevel=1, mtime=0, filename="") as plain:
            content = _Hashed(cast("IO[bytes]", plain))
            with tarfile.open(fileobj=cast("IO[bytes]", content), mode="w|", format=tarfile.PAX_FORMAT) as layer:
                for tree in (root, *above):
                    layer.add(tree, ".", filter=add)
    return blob.found.hexdigest(), content.found.hexdigest()


def own_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A filter for `tarfile`: whatever the owner here, it is root in the image."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
