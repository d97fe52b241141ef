"""What mirroring costs an execution that touches no file.

Measured as the service does it after each execution (the provenance's look, the mirror's request), on a workspace with
no files and on one with 100,000, against what a walk of it costs. Then from outside: the same execution through REST in
a session whose workspace holds many files, against one whose workspace is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from benchmarks.warm_execution import WARM_UP, KeptAlive
from tests.running_service import RunningService
from workspace_sync import AsOf, Mirror, ObjectStore, StoredObject, Written
from workspace_sync.directory.changes import Watched
from workspace_sync.errors import ObjectNotFound
from workspace_sync.store import Item, Opened, one_by_one

FILES, FEW_FILES = 100_000, 500
IN_SESSION, FEW_IN_SESSION = 20_000, 200
IN_DIRECTORY = 500
FLUSH_SECONDS = 600.0


class NothingKept(ObjectStore):
    """A store that takes everything at once and has nothing: what is measured is not the store."""

    description = "a store that keeps nothing"

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        while source.read(1 << 20):
            pass
        return Written("etag")

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        raise ObjectNotFound(key)

    def get_ahead(
        self, wanted: Iterable[tuple[Item, str]]
    ) -> contextlib.AbstractContextManager[Iterator[tuple[Item, Opened]]]:
        return one_by_one(self.get, wanted)

    def stat(self, key: str) -> StoredObject:
        raise ObjectNotFound(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return iter(())

    def delete(self, keys: Iterable[str]) -> None:
        pass

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        raise ObjectNotFound(source)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        return None

    def check(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


def run(service: RunningService, _environments_dir: Path, *, rounds: int = 400) -> str:
    short = rounds <= 10
    empty, _ = asyncio.run(_asked(0, rounds))
    full, walk = asyncio.run(_asked(FEW_FILES if short else FILES, rounds))
    alone, more = _executions(service, FEW_IN_SESSION if short else IN_SESSION, rounds)
    files = FEW_FILES if short else FILES
    return (
        f"after an execution that touched nothing {empty * 1e3:.3f} ms on no files (at most 0.2),"
        f" {full * 1e3:.3f} ms on {files:,} (at most 1; a walk of them {walk * 1e3:.0f} ms; p50 of {rounds});"
        f" `pass` through REST on no files {alone * 1e3:.2f} ms, on {IN_SESSION if not short else FEW_IN_SESSION:,}"
        f" {more * 1e3:+.2f} ms (at most 0.2)"
    )


async def _asked(files: int, rounds: int) -> tuple[float, float]:
    """The seconds that the service spends on files after an execution that touched none, and those of a walk."""
    with tempfile.TemporaryDirectory(prefix="scmirror", dir="/tmp") as name, ThreadPoolExecutor(4) as executor:
        _fill(Path(name), files)
        mirror = Mirror(name, NothingKept(), "workspaces/sessions/s", executor=executor)
        watched = Watched(name, tree=mirror.tree)
        try:
            await mirror.restore()  # of nothing: the last flush has nothing to read
            await mirror.flush(FLUSH_SECONDS)
            await asyncio.to_thread(watched.look)
            taken = [await _one(mirror, watched, number) for number in range(rounds)]
            begun = time.perf_counter()
            await mirror.flush(FLUSH_SECONDS, final=True)
            walk = time.perf_counter() - begun
        finally:
            await mirror.aclose()
    return statistics.median(taken), walk


async def _one(mirror: Mirror, watched: Watched, number: int) -> float:
    """Until the loop has nothing more to do for it, but for a turn of the loop itself."""
    begun = time.perf_counter()
    await asyncio.sleep(0)
    idle = time.perf_counter()
    assert watched.is_quiet()
    mirror.request_flush(AsOf("an execution", number))
    await asyncio.sleep(0)
    ended = time.perf_counter()
    assert not mirror.state.pending
    return (ended - idle) - (idle - begun)


def _fill(directory: Path, files: int) -> None:
    for number in range(files):
        if number % IN_DIRECTORY == 0:
            (directory / f"{number // IN_DIRECTORY:03}").mkdir()
        (directory / f"{number // IN_DIRECTORY:03}" / f"{number:06}").touch()


def _executions(service: RunningService, files: int, rounds: int) -> tuple[float, float]:
    """The seconds of an execution on no files, and how many more it takes on files."""
    rest = KeptAlive(service)
    sessions = [rest.call("POST", "/v1/sessions", {})["id"] for _ in range(2)]
    make = f"import pathlib\nfor n in range({files}):\n    pathlib.Path(f'f{{n:05}}').touch()"
    assert _execute(rest, sessions[1], make, sync="before_return")[1] == "ok"
    alone, more = [], []
    for number in range(rounds + WARM_UP):
        seconds = {}
        for session in sessions if number % 2 else reversed(sessions):
            seconds[session], status = _execute(rest, session, "pass")
            assert status == "ok"
        if number >= WARM_UP:
            alone.append(seconds[sessions[0]])
            more.append(seconds[sessions[1]] - seconds[sessions[0]])
    for session in sessions:
        rest.call("DELETE", f"/v1/sessions/{session}")
    rest.close()
    return statistics.median(alone), statistics.median(more)


def _execute(rest: KeptAlive, session: str, code: str, sync: str = "async") -> tuple[float, str]:
    begun = time.perf_counter()
    outcome = rest.call("POST", f"/v1/sessions/{session}/executions", {"code": code, "sync": sync})
    return time.perf_counter() - begun, str(outcome["status"])
