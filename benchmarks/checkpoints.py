"""Checkpoints: what one costs of 10 and 100 MB of variables, and how long forks take with and without one.

Beside it: the start of a session; a fork of a session as it is now; one after the last of 20 cells of 0.5 s, with a
checkpoint after the 18th and by running all of them; and the copy of a gigabyte of files inside the store.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bounds import at_most
from sandcell import Client, Session
from sandcell.models.sessions import Session as SessionInfo
from tests.running_service import RunningService
from workspace_sync import DurableWorkspace
from workspace_sync.stores.local import LocalStore

FILL = "import os; a, b, c, d, e, f, g, h = (bytearray(os.urandom({each})) for _ in range(8))"
SLOW = "import time; time.sleep(0.5); x{number} = {number}"
CELLS = 20
GIGABYTE_FILES = 64


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    with service.client() as client:
        parts = [_measure_size(client, megabytes, rounds) for megabytes in ((10, 100) if rounds > 2 else (10,))]
        parts.append(_measure_cells(client, rounds))
    copied = _median(lambda: _copy_gigabyte(service.data_dir / "gigabyte"), rounds)
    return "; ".join([*parts, at_most("1 GB of files copied in a local store, s", copied, 1.0)])


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


def _copy_gigabyte(place: Path) -> float:
    """A copy of 64 files of 16 MB each, which are made the first time."""
    files, store = place / "first" / "workspace", LocalStore(str(place))
    if not files.exists():
        files.mkdir(parents=True)
        block = os.urandom(16 << 20)
        for number in range(GIGABYTE_FILES):
            (files / f"file{number}").write_bytes(block)
    taken = _time(lambda: DurableWorkspace(store, "first").copy_to("second"))
    DurableWorkspace(store, "second").clear()
    return taken
