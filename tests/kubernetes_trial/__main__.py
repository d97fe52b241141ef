"""The trial as a program; its last line sums up, and its exit status is 0 when nothing was found that should not be."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import helm
from tests.doubles.faulty_s3 import FaultyS3
from tests.doubles.s3_servers import bare_s3_server
from tests.kubernetes_chart import CONTROL_PLANE
from tests.kubernetes_cluster import REPOSITORY, Cluster, NotStarted, why_not, write_image
from tests.kubernetes_trial import faults
from tests.kubernetes_trial.counted import count
from tests.kubernetes_trial.gateways import Gateways
from tests.kubernetes_trial.trial import Trial, say
from tests.postgresql_server import PostgresqlServer, find_programs, postgresql_server
from tests.running_service import RunningService

NODES = 3
NOT_TRIED = os.EX_TEMPFAIL
RUN = Path("/run/sandcell-trial")


@dataclass(frozen=True)
class Size:
    """How many sessions are live at once, and how many are created and stopped at the end, within how long.

    And how long the API server is away, and a node's pods are cut off.
    """

    live: int
    churned: int
    churn_seconds: float
    away_seconds: float
    cut_seconds: float


SHORT, FULL = Size(12, 24, 300, 10, 8), Size(40, 1000, 2700, 30, 15)
CHURNED_AT_ONCE = 20


class Place:
    """A cluster with gateways of the chart, a database and a store; entered by this thread."""

    def __init__(self, environments: Path, opened: ExitStack) -> None:
        place, data = (Path(tempfile.mkdtemp(prefix=each, dir="/tmp")) for each in ("sckube", "scdata"))
        for each in (data, place):
            opened.callback(shutil.rmtree, each, ignore_errors=True)
        self._environments, self._data = environments, data
        try:
            helm.find(environments.parent)  # while registries are reached: the cluster's network leads nowhere
        except (pytest.skip.Exception, subprocess.SubprocessError) as error:
            raise NotStarted(f"Helm, which installs the gateways, cannot be had: {error}") from None
        self.cluster = Cluster(place, [write_image(environments)], nodes=NODES)
        opened.callback(self.cluster.stop)
        self.cluster.start()
        opened.callback(shutil.rmtree, RUN, ignore_errors=True)  # once the cluster is there, this is nobody else's
        opened.callback(_unmount)
        opened.enter_context(self.cluster.entered())
        programs = find_programs()
        assert programs is not None, "PostgreSQL is not installed: scripts/install dev does it"
        self.database: PostgresqlServer = opened.enter_context(postgresql_server(programs))
        (data / "s3").mkdir()
        server = opened.enter_context(bare_s3_server("moto", data / "s3"))
        self.store = opened.enter_context(FaultyS3(server, address=CONTROL_PLANE))
        data.chmod(0o755)  # the users of the gateways' pods find their volumes in it
        self.gateways = Gateways(self.cluster, data, opened)
        self.gateways.install(environments, self.database.create_database(migrated=False), self.store.endpoint)

    @contextmanager
    def serving(self, name: str, **settings: Any) -> Iterator[RunningService]:
        """A service of this machine that makes pods, with a database and a store of its own."""
        data = self._data / name
        data.mkdir()
        common = {
            "environments_dir": self._environments,
            "runtime": "kubernetes",
            "kubernetes_config": self.cluster.config,
            "run_dir": RUN / name,
        }
        service = RunningService(data, common | settings)
        try:
            service.start()
            yield service
        finally:
            service.stop()


def run(place: Place, trial: Trial, size: Size) -> str:
    """All of it; gives the line that sums up."""
    trial.sessions = [trial.start()]
    alone = trial.starts[0]
    trial.sessions += trial.pool.map(trial.start, range(size.live - 1))
    at_once = statistics.median(trial.starts[1:])
    say(f"{size.live} sessions in pods: create to first result {alone:.2f} s alone, {at_once:.2f} s (median) at once")
    began = time.monotonic()
    trial.each(trial.work, trial.sessions)
    say(f"{trial.cells} cells, in all of them at once: {time.monotonic() - began:.1f} s")
    full = trial.start_on("n1")
    with ThreadPoolExecutor(1) as beside:  # it waits for a node, which looks at its disks once a minute
        filled = beside.submit(_happen, trial, "fill_disk", lambda: faults.fill_disk(trial, full))
        happened = [
            _happen(trial, fault.__name__, lambda fault=fault: fault(trial))
            for fault in (faults.exhaust_quota, faults.drain, faults.lose_node)
        ]
        happened.append(filled.result())
    trial.require_going_on([full])  # its next pod may have been on the node that was lost meanwhile
    trial.sessions.append(full)
    with ThreadPoolExecutor(2) as beside:
        others = [
            beside.submit(_happen, trial, "miss_image", lambda: _miss_image(place, trial)),
            beside.submit(_happen, trial, "return_node", lambda: faults.return_node(trial)),
        ]
        happened.append(_happen(trial, "cut_gateway", lambda: faults.cut_gateway(trial, size.cut_seconds)))
        happened += [each.result() for each in others]
    happened.append(_happen(trial, "stop_api_server", lambda: faults.stop_api_server(trial, size.away_seconds)))
    for fault in (faults.stop_gateway, faults.hang_gateway, faults.lose_gateway):
        happened.append(_happen(trial, fault.__name__, lambda fault=fault: fault(trial, place.gateways)))
    trial.each(trial.client.stop_session, trial.sessions)
    say("all sessions are stopped")
    _require_nothing_left(place, trial)
    say("nothing is left of them")
    churned = _churn(place, trial, size)
    trial.findings += place.gateways.crashes()
    return (
        f"{size.live} sessions on {NODES} nodes: create to first result {alone:.2f} s alone, {at_once:.2f} s (median)"
        f" at once; {trial.cells} cells; {'; '.join(happened)}; {trial.told} executions told of it; {churned};"
        f" {len(trial.findings)} findings"
    )


def _miss_image(place: Place, trial: Trial) -> str:
    with place.serving("missing", kubernetes_registry="missing.local") as service, service.client() as client:
        return faults.miss_image(trial, client)


def _happen(trial: Trial, name: str, fault: Any) -> str:
    """One of them; what breaks in it is a finding, and the trial goes on."""
    before = len(trial.findings)
    try:
        said = str(fault())
    except Exception as error:
        said = f"{name} failed"
        trial.findings.append(f"{name}: {error!r}"[:2000])
    say(said)
    for finding in trial.findings[before:]:
        say(f"found: {finding}")
    return said


def _churn(place: Place, trial: Trial, size: Size) -> str:
    """Sessions that come and go, of which nothing stays."""
    before, began = count(place.cluster, place.database, place.store), time.monotonic()

    def live(number: int) -> bool:
        if time.monotonic() - began > size.churn_seconds:
            return False
        trial.client.stop_session(trial.start())
        if number % 100 == 99:
            say(f"about {number + 1} sessions created and stopped")
        return True

    with ThreadPoolExecutor(CHURNED_AT_ONCE) as pool:
        done = sum(pool.map(live, range(size.churned)))
    seconds = time.monotonic() - began
    if done < size.churned:
        trial.findings.append(f"{done} of {size.churned} sessions were created and stopped within {seconds:.0f} s")
    _require_nothing_left(place, trial)
    say(count(place.cluster, place.database, place.store).since(before, done))
    return f"{done} sessions created and stopped in {seconds:.0f} s with nothing left"


def _require_nothing_left(place: Place, trial: Trial) -> None:
    trial.require_nothing_left()
    trial.require(lambda: not place.gateways.list_files(), "files of sandboxes are left with the gateways")


def _unmount() -> None:
    for each in RUN.glob("*/*/views"):  # the launcher's, which stays with a host
        subprocess.run(["umount", "--lazy", each], check=False, timeout=60)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes_trial", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("SANDCELL_DATA_DIR", REPOSITORY / ".sandcell"))
    )
    parser.add_argument("--full", action="store_true", help="40 sessions, and 1,000 that come and go")
    parser.add_argument(
        "--if-possible", action="store_true", help=f"exit with {NOT_TRIED} where no cluster can be started, not with 2"
    )
    arguments = parser.parse_args()
    try:
        if why := why_not():
            raise NotStarted(why)
        return _try_all(arguments.data_dir.absolute() / "environments", FULL if arguments.full else SHORT)
    except NotStarted as error:
        print(f"kubernetes-trial: not tried: {error}", file=sys.stderr)
        return NOT_TRIED if arguments.if_possible else 2


def _try_all(environments: Path, size: Size) -> int:
    signal.signal(
        signal.SIGTERM, lambda number, _frame: sys.exit(128 + number)
    )  # what it has started goes all the same
    with ExitStack() as opened:
        say(f"a cluster of {NODES} nodes, a database, a store ...")
        place = Place(environments, opened)
        say("they are there")
        # More than there are sessions: where all of some nodes' wait, the others are asked all the same.
        pool = opened.enter_context(ThreadPoolExecutor(2 * size.live))
        trial = Trial(place.cluster, place.gateways.clients, pool)
        trial.require(lambda: place.gateways.ready(2), "the gateways of the chart are not ready")
        say("two gateways of the chart are ready")
        line = run(place, trial, size)
    for finding in trial.findings:
        print(f"found: {finding}")
    print(f"kubernetes-trial: {line}")
    return 1 if trial.findings else 0


if __name__ == "__main__":
    sys.exit(main())
