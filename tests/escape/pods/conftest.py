"""A cluster of one node, a service on it, the host's and a neighbour pod's bait, a session for each family."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.escape.attempt import Family
from tests.escape.bucket import bucket
from tests.escape.indexes import indexes
from tests.escape.position import Position
from tests.escape.unharmed import Host, Limits, Neighbour
from tests.integration.kernels.kubernetes.conftest import serving
from tests.kubernetes_cluster import Cluster, find_groups, running_cluster


@dataclass
class PodStand:
    """A session in a pod, and all around it that is to be as it was."""

    cluster: Cluster
    position: Position
    host: Host
    neighbour: Neighbour
    limits: Limits | None = None

    def unharmed(self) -> None:
        self.host.unharmed()
        self.neighbour.unharmed()
        if self.limits is not None and not self.limits.gone:
            return self.limits.unharmed()
        groups = groups_of(self.cluster, self.position.session.id)  # an attempt may end its pod: then of the next one
        self.limits = Limits(groups) if groups else None
        return None


def groups_of(cluster: Cluster, session_id: str) -> list[Path]:
    """The control groups of a session's pod, none where it has no pod."""
    pods = [each for each in cluster.objects("pods") if each["metadata"]["name"] == f"sandcell-{session_id}"]
    return [group for pod in pods for group in find_groups(pod)]


@pytest.fixture(scope="package")
def place_of(
    environments_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Family], PodStand]]:
    """Starts a session for a family's attempts, beside one neighbour."""
    with ExitStack() as opened:
        cluster = opened.enter_context(running_cluster(environments_dir, tmp_path_factory.mktemp("kubernetes")))
        bait = Path(tempfile.mkdtemp(prefix="bait", dir="/tmp"))
        opened.callback(shutil.rmtree, bait, ignore_errors=True)
        role = opened.enter_context(bucket(bait / "bucket"))
        index = opened.enter_context(indexes())
        service = opened.enter_context(
            serving(
                cluster,
                environments_dir,
                f'{role.environments_file.read_text()}\n[public]\nimage = "python"\nnetwork = "PUBLIC"\n'
                + index.environments,
                role.variables,
                invocations_per_second=1000,
                memory_guard_percent=0,
            )
        )
        (bait / "host").mkdir()
        host = Host(bait / "host", service, environments_dir)
        opened.callback(host.close)
        neighbour = Neighbour(service, lambda session_id: groups_of(cluster, session_id))
        opened.callback(neighbour.close)

        def enter(family: Family) -> PodStand:
            position = Position(service, "runc", family)
            position.known = {
                "host": host.known(),
                "neighbour": neighbour.known(),
                "role": role.known(),
                "index": index.known(),
            }
            return PodStand(cluster, position, host, neighbour)

        yield enter


@pytest.fixture(scope="module")
def pod_stand(request: pytest.FixtureRequest, place_of: Callable[[Family], PodStand]) -> Iterator[PodStand]:
    stand = place_of(request.param)
    try:
        yield stand
    finally:
        stand.position.close()
