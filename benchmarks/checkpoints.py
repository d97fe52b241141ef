"""Checkpoints: what one costs of 10 and 100 MB of variables, and how long forks take with and without one.

Beside it: the start of a session; a fork of a session as it is now; one after the last of 20 cells of 0.5 s, with a
checkpoint after the 18th and by running all of them; and the copy of a gigabyte of files, as a fork has it, inside a
local store, by hard links, and inside Ceph's S3, by copies of the server's.
"""

from __future__ import annotations

import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bounds import at_most
from sandcell import Client, Session
from sandcell.models.sessions import Session as SessionInfo
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, bare_s3_server
from tests.running_service import RunningService
from workspace_sync import DurableWorkspace
from workspace_sync.store import ObjectStore
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

FILL = "import os; a, b, c, d, e, f, g, h = (bytearray(os.urandom({each})) for _ in range(8))"
SLOW = "import time; time.sleep(0.5); x{number} = {number}"
CELLS = 20
FILES = {
    "1,073": ((1, 512 << 20), (8, 32 << 20), (64, 2 << 20), (1_000, 100_000)),
    "10": ((10, 100 << 20),),
}
"""By their number, how many of which size: a gigabyte of files as a workspace may have them."""
COPY_SECONDS = 1.0


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    with service.client() as client:
        parts = [_measure_size(client, megabytes, rounds) for megabytes in ((10, 100) if rounds > 2 else (10,))]
        parts.append(_measure_cells(client, rounds))
    with tempfile.TemporaryDirectory(prefix="sccopies", dir=service.data_dir) as name:
        place = Path(name)
        parts += [_measure_copies("a local store", LocalStore(str(place / each)), each, rounds) for each in FILES]
        if rounds > 2:  # its packages come with the benchmarks alone
            (place / "ceph").mkdir()
            with bare_s3_server("ceph", place / "ceph") as endpoint:
                for each in FILES:
                    s3 = S3Store(BUCKET, each, endpoint_url=endpoint, region="us-east-1", access_key=ACCESS_KEY)
                    parts.append(_measure_copies("Ceph's S3", s3, each, rounds))
    return "; ".join(parts)


def _measure_size(client: Client, megabytes: int, rounds: int) -> str:
    with client.session(keep_variables_mb=200) as session:
        session.run(FILL.format(each=(megabytes << 20) // 8))
        kept = _median(lambda: _time(session.create_checkpoint), rounds)
        start = _median(lambda: _time_session(client, client.start_session), rounds)
        fork = _median(lambda: _time_session(client, lambda: client.fork_session(session.id)), rounds)
    kept, fork, start = (round(each * 1e3) for each in (kept, fork, start))
    return f"{megabytes} MB: a checkpoint {kept} ms, a fork as it is now {fork}, a start {start}"


def _measure_cells(client: Client, rounds: int) -> str:
    with client.session() as session:
        for number in range(CELLS):
            _run(session, SLOW.format(number=number))
            if number == CELLS - 3:
                session.create_checkpoint()
        last = client.list_executions(session.id).items[-1].id

        def fork(*, replay: bool) -> float:
            return _time_session(client, lambda: client.fork_session(session.id, cell=last, replay=replay))

        near, far = (_median(partial(fork, replay=replay), rounds) for replay in (False, True))
        undo = _time(session.undo)
    return f"a fork after {CELLS} cells of 0.5 s {near:.2f} s, without a checkpoint {far:.2f}; undo of one {undo:.2f}"


def _run(session: Session, code: str) -> None:
    done = session.run(code)
    if done.execution.status != "ok":
        raise RuntimeError(done)


def _time(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _time_session(client: Client, start: Callable[[], SessionInfo]) -> float:
    began = time.perf_counter()
    session = start()
    taken = time.perf_counter() - began
    client.stop_session(session.id)
    return taken


def _median(measure: Callable[[], float], rounds: int) -> float:
    return statistics.median(measure() for _ in range(rounds))


def _measure_copies(what: str, store: ObjectStore, files: str, rounds: int) -> str:
    """Copies of a workspace inside a store, each beneath a prefix of its own as a fork's is."""
    block = os.urandom(1 << 20)
    for count, size in FILES[files]:
        for number in range(count):
            source = io.BytesIO((block * (size // len(block) + 1))[:size])
            store.put(f"first/workspace/{size}-{number}", source, size)

    def copy() -> float:
        taken = _time(lambda: DurableWorkspace(store, "first").copy_to("second"))
        DurableWorkspace(store, "second").clear()
        return taken

    return at_most(f"1 GB in {files} files copied in {what}, s", _median(copy, rounds), COPY_SECONDS)
