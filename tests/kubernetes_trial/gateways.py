"""The gateways of a trial: those that the chart installs, in pods of a node that nothing is done to."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from sandcell import Client
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.kubernetes_chart import (
    RELEASE,
    SECRETS_KEY,
    TOKEN,
    apply,
    call,
    find_pods,
    give_volume,
    is_ready,
    make_secret,
    render,
)
from tests.kubernetes_cluster import NAMESPACE, Cluster, find_groups

NODE = "n1"
VOLUMES = ("one", "other")
CRASH = "Fatal Python error"
SETTINGS: dict[str, object] = {
    "invocations_per_second": 1_000,
    "keep_variables": "off",  # what is restored comes from the store
    "idle_memory_seconds": 0,
    "start_deadline_seconds": 300,  # how fast the machine is does not decide
    "log_level": "info",
}


class Gateways:
    """Two, as a StatefulSet; `clients` has one client for each that is ready."""

    def __init__(self, cluster: Cluster, place: Path, opened: ExitStack) -> None:
        self._cluster, self._place, self._opened = cluster, place, opened
        self.clients: list[Client] = []

    def install(self, environments_dir: Path, database: str, store: str) -> None:
        """As an operator does: a Secret, volumes, the chart. `store` is the endpoint that pods reach."""
        secret = {"SANDCELL_TOKEN": TOKEN, "SANDCELL_DATABASE": database, "SANDCELL_SECRETS_KEY": SECRETS_KEY}
        secret |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
        make_secret(self._cluster, "operator", secret)
        for each in VOLUMES:
            give_volume(self._cluster, self._place, each)
        values = {
            "store": f"s3://{BUCKET}/trial?endpoint_url={store}&region=us-east-1",
            "gateways": {"several": True, "replicas": 2},
            "podDisruptionBudget": True,
            "nodeSelector": {"kubernetes.io/hostname": NODE},
        }
        objects = render(environments_dir, self._place, values, database.rpartition("host=")[2], settings=SETTINGS)
        apply(self._cluster, self._place, objects)

    def ready(self, number: int) -> bool:
        """Whether so many are, and no other one is there; then `clients` are theirs."""
        pods = find_pods(self._cluster)
        if len(pods) != number or not all(map(is_ready, pods)):
            return False
        for each in self.clients:
            each.close()
        self.clients[:] = [self._opened.enter_context(call(each)) for each in pods]
        return True

    def scale(self, number: int) -> None:
        self._cluster.kubectl("-n", NAMESPACE, "scale", f"statefulset/{RELEASE}", f"--replicas={number}")

    def kill(self) -> None:
        """All processes of the second one at once; its node starts it again."""
        self._signal(signal.SIGKILL)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """All processes of the second one stand still, and then go on."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pod = next(each for each in find_pods(self._cluster) if each["metadata"]["name"] == f"{RELEASE}-1")
        files = [each / "cgroup.procs" for each in find_groups(pod)]
        for pid in {pid for file in files if file.exists() for pid in file.read_text().split()}:
            with contextlib.suppress(OSError):  # one ends with another
                if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes():  # not what holds the pod
                    os.kill(int(pid), number)

    def count_logged(self, words: str) -> int:
        """How often those that run have logged this."""
        found = [each["metadata"]["name"] for each in find_pods(self._cluster)]
        return sum(self._cluster.kubectl("-n", NAMESPACE, "logs", each).count(words) for each in found)

    def list_files(self) -> list[str]:
        """What they keep on their volumes of sandboxes."""
        return [str(each) for name in VOLUMES for each in (self._place / name / "data/pods").glob("*-*-*-*-*")]

    def crashes(self) -> list[str]:
        """What those that run have logged of a crash of their process, with its stacks."""
        found = []
        for pod in find_pods(self._cluster):
            said = self._cluster.kubectl("-n", NAMESPACE, "logs", pod["metadata"]["name"])
            found += [f"{CRASH}{after[:1500]}" for after in said.split(CRASH)[1:]]
        return found

    def restarts(self) -> int:
        """How often their nodes have started one again."""
        found = [each["status"].get("containerStatuses", []) for each in find_pods(self._cluster)]
        return sum(int(status["restartCount"]) for statuses in found for status in statuses)
