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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sandcell import Client
from sandcell.errors import SandcellError
from tests.kubernetes_cluster import REPOSITORY, Cluster, why_not, write_image
from tests.running_service import RunningService

SESSIONS = 10
NODES = 3
GUARD_SECONDS = 240.0
RUN = Path("/run/sandcell-trial")
BEGAN = time.monotonic()


@dataclass
class Trial:
    """What was measured, and `findings`: what should not have been."""

    cluster: Cluster
    client: Client
    starts: list[float] = field(default_factory=list)
    cells: int = 0
    restored: int = 0
    told: int = 0
    """Executions that heard that their sandbox is gone."""
    findings: list[str] = field(default_factory=list)

    def start(self, _number: int) -> str:
        """One session with its first result."""
        began = time.monotonic()
        session = self.client.start_session()
        self.expect(session.id, "x = 6 * 7\nprint(x)", "42\n")
        self.starts.append(time.monotonic() - began)
        return session.id

    def work(self, session_id: str) -> None:
        """Cells that need each other, and a file that is in the store when the last of them has ended."""
        for number in range(10):
            self.expect(session_id, f"x += 1\nprint(x - {number})", "43\n")
        self.client.run(session_id, "open('kept', 'w').write('kept')", sync="before_return")

    def expect(self, session_id: str, code: str, printed: str) -> None:
        result = self.client.run(session_id, code)
        self.cells += 1
        if result.stdout != printed:
            self.findings.append(f"{session_id}: {code!r} printed {result.stdout!r}: {result!r}")

    def lose_node(self, sessions: list[str], pool: ThreadPoolExecutor) -> str:
        """Cut the power of the last node: its sessions say so and go on elsewhere, the others notice nothing."""
        places = {
            pod["metadata"]["labels"]["sandcell.dev/sandbox"]: pod["spec"]["nodeName"]
            for pod in self.cluster.objects("pods")
        }
        lost = f"n{NODES}"
        hit = [each for each in sessions if places.get(each) == lost]
        if not hit:
            self.findings.append(f"no session was on {lost}: {places}")
        began = time.monotonic()
        self.cluster.kill_node(NODES)
        for each in sessions:
            if each not in hit:
                self.expect(each, "print(x)", "52\n")
        list(pool.map(self.require_restored, hit))
        return f"{len(hit)} sessions of a lost node went on {time.monotonic() - began:.0f} s later"

    def require_restored(self, session_id: str) -> None:
        """In another pod, of the next generation, with its files and without its globals."""
        give_up = time.monotonic() + GUARD_SECONDS
        while True:
            try:
                result = self.client.run(session_id, "print('x' in globals(), open('kept').read())")
                if result.status != "died":
                    break
                why, self.told = repr(result), self.told + 1
            except SandcellError as error:
                why = str(error)
            if time.monotonic() > give_up:
                return self.findings.append(f"{session_id} did not go on: {why}")
            time.sleep(1)
        generation = self.client.get_session(session_id).generation
        if result.stdout != "False kept\n" or generation < 2:
            return self.findings.append(f"{session_id} went on at generation {generation} with {result!r}")
        self.restored += 1
        return None

    def require_nothing_left(self) -> None:
        give_up = time.monotonic() + GUARD_SECONDS
        while left := [each["metadata"]["name"] for kind in ("pods", "secrets") for each in self.cluster.objects(kind)]:
            if time.monotonic() > give_up:
                return self.findings.append(f"left in the cluster: {', '.join(left)}")
            time.sleep(0.5)
        return None


def run(trial: Trial) -> str:
    """All of it; returns the line that sums up."""
    with ThreadPoolExecutor(SESSIONS) as pool:
        first = trial.start(0)
        alone = trial.starts[0]
        sessions = [first, *pool.map(trial.start, range(SESSIONS - 1))]
        say(f"{SESSIONS} sessions in pods: first results after {', '.join(f'{each:.2f}' for each in trial.starts)} s")
        began = time.monotonic()
        list(pool.map(trial.work, sessions))
        say(f"{trial.cells} cells, in all of them at once: {time.monotonic() - began:.1f} s")
        lost = trial.lose_node(sessions, pool)
        say(lost)
        list(pool.map(trial.client.stop_session, sessions))
    trial.require_nothing_left()
    return (
        f"{SESSIONS} sessions on {NODES} nodes: create to first result {alone:.2f} s alone,"
        f" {statistics.median(trial.starts[1:]):.2f} s (median) with {SESSIONS - 1} at once; {trial.cells} cells;"
        f" {lost}, {trial.restored} with their files and {trial.told} told of it; {len(trial.findings)} findings"
    )


def say(line: str) -> None:
    print(f"[{time.monotonic() - BEGAN:4.0f} s] {line}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes_trial", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("SANDCELL_DATA_DIR", REPOSITORY / ".sandcell"))
    )
    environments = parser.parse_args().data_dir / "environments"
    if why := why_not():
        print(f"kubernetes-trial: {why}", file=sys.stderr)
        return 2
    signal.signal(
        signal.SIGTERM, lambda number, _frame: sys.exit(128 + number)
    )  # what it has started goes all the same
    place, data = (Path(tempfile.mkdtemp(prefix=each, dir="/tmp")) for each in ("sckube", "scdata"))
    cluster = Cluster(place, [write_image(environments)], nodes=NODES)
    try:
        say(f"a cluster of {NODES} nodes ...")
        cluster.start()
        say("it is ready")
        settings = {
            "environments_dir": environments,
            "runtime": "kubernetes",
            "kubernetes_config": cluster.config,
            "requests_per_second": 10_000,
            "invocations_per_second": 1_000,
            "run_dir": RUN,
        }
        with cluster.entered():
            service = RunningService(data, settings)
            try:
                service.start()
                with service.client() as client:
                    trial = Trial(cluster, client)
                    line = run(trial)
            finally:
                service.stop()
    finally:
        cluster.stop()
        for each in RUN.glob("*/views"):  # the launcher's, which stays with a host
            subprocess.run(["umount", "--lazy", each], check=False, timeout=60)
        for each in (place, data, RUN):
            shutil.rmtree(each, ignore_errors=True)
    for finding in trial.findings:
        print(f"found: {finding}")
    print(f"kubernetes-trial: {line}")
    return 1 if trial.findings else 0


if __name__ == "__main__":
    sys.exit(main())
