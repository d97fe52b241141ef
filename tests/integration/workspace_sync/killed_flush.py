"""A process that flushes two states of one directory and may be killed meanwhile; what the tests of that start.

Steps are the calls of the store in the second flush: of a local store the process kills itself there, of S3 the
proxy in front of it does.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.doubles.forked import die, serve
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from workspace_sync import AsOf, Mirror, TransferLimits
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

LARGE_BYTES = 8 * 1024 * 1024 + 1_000
"""Sent to S3 in parts."""
LIMITS = TransferLimits(settle_seconds=0.0, retry_seconds=0.01, retry_max_seconds=0.05, concurrency=1)
DEADLINE_SECONDS = 120.0
FIRST, SECOND = AsOf("first", 1), AsOf("second", 2)

Tree = dict[str, bytes | str | None]
"""Files by their content, links by their target (text), directories by None."""

BEFORE: Tree = {
    "kept.txt": b"kept",
    "changed.txt": b"one",
    "of-one-size.txt": b"aaaa",
    "removed.txt": b"removed",
    "old-name.bin": b"renamed" * 30_000,
    "sub": None,
    "sub/inner.txt": b"inner",
    "void": None,
    "link": "kept.txt",
    "file-then-directory": b"a file",
    "directory-then-file": None,
    "directory-then-file/below": b"below",
}
AFTER: Tree = {
    "kept.txt": b"kept",
    "changed.txt": b"two, and longer",
    "of-one-size.txt": b"bbbb",
    "sub": None,
    "sub/inner.txt": b"inner",
    "sub/new-name.bin": b"renamed" * 30_000,
    "fresh": None,
    "link": "changed.txt",
    "added.txt": b"added",
    "large.bin": b"0123456789abcdef" * (LARGE_BYTES // 16),
    "file-then-directory": None,
    "file-then-directory/inside.txt": b"inside",
    "directory-then-file": b"a file now",
}
RENAMED = {"old-name.bin": "sub/new-name.bin"}


def plant(directory: Path, tree: Tree) -> None:
    """Make the directory hold that tree, by the steps that code takes: what is renamed is renamed."""
    for old, new in RENAMED.items():
        for source, target in ((old, new), (new, old)):
            if target in tree and (directory / source).is_file() and not (directory / target).exists():
                (directory / target).parent.mkdir(exist_ok=True)
                (directory / source).rename(directory / target)
    for path in sorted(directory.rglob("*"), reverse=True):
        wanted = tree.get(str(path.relative_to(directory)), ...)
        kind = ... if path.is_symlink() or path.is_file() else None
        if wanted is ... or isinstance(wanted, str) or (wanted is None) != (kind is None):
            shutil.rmtree(path) if kind is None else path.unlink()
    for name, content in tree.items():
        path = directory / name
        if content is None:
            path.mkdir(exist_ok=True)
        elif isinstance(content, str):
            path.symlink_to(content)
        elif not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


class Steps:
    """A local store whose calls are counted; at one of them the process dies."""

    def __init__(self, behind: LocalStore, step: int, moment: str) -> None:
        self.description = behind.description
        self.armed = False
        self._behind = behind
        self._left = step
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._behind, name)
        return self._counted(call) if self.armed else call

    def put(self, key: str, source: Any, size: int) -> Any:
        if not self.armed:
            return self._behind.put(key, source, size)
        return self._counted(lambda: self._behind.put(key, self._source(source, size), size), torn=size > 1)()

    def _counted(self, call: Callable[..., Any], *, torn: bool = False) -> Callable[..., Any]:
        """What cannot be killed within is killed before."""

        def counted(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if not self._left and (self._moment == "before" or (self._moment == "within" and not torn)):
                die()
            answer = call(*arguments, **named)
            if not self._left and self._moment == "after":
                die()
            return answer

        return counted

    def _source(self, source: Any, size: int) -> Any:
        """The same bytes; the process dies when half of them are read."""
        within = not self._left and self._moment == "within"
        return _Half(source, size) if within else source


class _Half:
    def __init__(self, source: Any, size: int) -> None:
        self._source, self._left = source, size // 2

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            die()
        piece: bytes = self._source.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece


async def flush(store: Any, order: dict[str, Any], arm: Callable[[], None]) -> None:
    """Both states, one after another; `arm` is called between them."""
    directory = Path(order["directory"])
    with ThreadPoolExecutor(4) as pool:
        mirror = Mirror(str(directory), store, order["prefix"], limits=LIMITS, executor=pool)
        try:
            for tree, as_of in ((BEFORE, FIRST), (AFTER, SECOND)):
                plant(directory, tree)
                await mirror.wait_flushed(mirror.request_flush(as_of), DEADLINE_SECONDS)
                if as_of is FIRST:
                    await asyncio.sleep(0.03)  # so that what is unchanged is known to be
                    arm()
        finally:
            await mirror.aclose()


def carry_out(order: dict[str, Any]) -> None:
    """In a process of its own."""
    where = order["store"]
    if not where.startswith("http"):
        steps = Steps(LocalStore(where), order["step"], order["moment"])
        asyncio.run(flush(steps, order, lambda: setattr(steps, "armed", True)))
    else:
        store = S3Store(BUCKET, endpoint_url=where, access_key=ACCESS_KEY)
        asyncio.run(flush(store, order, Path(order["armed"]).touch))


if __name__ == "__main__":
    serve(carry_out)
