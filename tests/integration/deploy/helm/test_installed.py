"""The chart's objects in a real cluster: a gateway without privileges, its sessions in pods, and its next version.

`tests/kubernetes_chart.py` says what their containers are.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandcell.errors import SandcellError
from sandcell.result import Result
from tests.doubles.s3_servers import ACCESS_KEY, BIN, BUCKET, LOG, make_bucket
from tests.doubles.server_process import answers, free_port, server_process
from tests.kubernetes_chart import (
    CONTROL_PLANE,
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
from tests.kubernetes_cluster import NAMESPACE, Cluster, running_cluster
from tests.postgresql_server import find_programs, postgresql_server

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
GUARD_SECONDS = 180


def wait(holds: Callable[[], bool]) -> None:
    """Until it holds; the deadline is a guard."""
    give_up = time.monotonic() + GUARD_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.5)


@pytest.fixture(scope="module")
def cluster(environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(environments_dir, tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of this machine, which is the nodes' as well."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def find_gateway(cluster: Cluster) -> dict[str, Any] | None:
    """The one pod of the service, once it is ready and no other one is there."""
    pods = find_pods(cluster)
    return pods[0] if len(pods) == 1 and is_ready(pods[0]) else None


def test_a_gateway_of_the_chart_serves_and_its_successor_goes_on(
    cluster: Cluster, place: Path, environments_dir: Path
) -> None:
    objects = render(environments_dir, place)
    apply(cluster, place, objects, "--dry-run=server")
    give_volume(cluster, place, "data")
    make_secret(cluster, "operator", {"SANDCELL_TOKEN": TOKEN})
    apply(cluster, place, objects)
    wait(lambda: find_gateway(cluster) is not None)
    first = find_gateway(cluster)
    assert first is not None
    with call(first) as client:
        session = client.start_session()
        assert client.run(session.id, "x = 6 * 7\nopen('f', 'w').write('kept')\nprint(x)").stdout == "42\n"
    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", f"deployment/{RELEASE}")
    wait(lambda: (find_gateway(cluster) or first)["metadata"]["uid"] != first["metadata"]["uid"])
    successor = find_gateway(cluster)
    assert successor is not None
    with call(successor) as client:
        assert client.run(session.id, "print(x, open('f').read())").stdout == "42 kept\n"
        assert client.get_session(session.id).generation == 1
        client.stop_session(session.id)
        assert client.workspace_read(session.workspace_id, "f") == b"kept"
    wait(lambda: [each["metadata"]["name"] for each in cluster.objects("pods")] == [successor["metadata"]["name"]])
    cluster.kubectl("delete", "-f", str(place / "objects.json"), "--wait=true")
    wait(lambda: not find_pods(cluster))


@contextlib.contextmanager
def s3_of_all_addresses(place: Path) -> Iterator[int]:
    """The port of a store that pods reach, too, at the address of the control plane."""
    port, directory = free_port(), place / "s3"
    directory.mkdir()
    command = [str(BIN / "moto_server"), "-H", "0.0.0.0", "-p", str(port)]
    with server_process(command, directory, LOG) as process:
        assert answers(process, port, GUARD_SECONDS)
        make_bucket(f"http://127.0.0.1:{port}")
        yield port


def ask(cluster: Cluster, session_id: str, code: str) -> Result:
    """The first answer of any gateway that is ready; while some are being replaced callers try again."""
    give_up = time.monotonic() + GUARD_SECONDS
    while True:
        try:
            pod = random.choice([each for each in find_pods(cluster) if is_ready(each)])
            with call(pod) as client:
                return client.run(session_id, code)
        except (SandcellError, IndexError):
            assert time.monotonic() < give_up
            time.sleep(0.5)


def test_several_gateways_of_the_chart_are_replaced_one_by_one_with_sessions_alive(
    cluster: Cluster, place: Path, environments_dir: Path
) -> None:
    programs = find_programs()
    assert programs is not None, "PostgreSQL is not installed: scripts/install dev does it"
    with postgresql_server(programs) as server, s3_of_all_addresses(place) as port:
        database = server.create_database(migrated=False)
        values = {
            "secret": "several",
            "store": f"s3://{BUCKET}/chart?endpoint_url=http://{CONTROL_PLANE}:{port}&region=us-east-1",
            "gateways": {"several": True, "replicas": 2},
            "podDisruptionBudget": True,
        }
        objects = render(environments_dir, place, values, database.rpartition("host=")[2])
        secret = {"SANDCELL_TOKEN": TOKEN, "SANDCELL_DATABASE": database, "SANDCELL_SECRETS_KEY": SECRETS_KEY}
        secret |= {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
        make_secret(cluster, "several", secret)
        for each in ("one", "other"):
            give_volume(cluster, place, each)
        scaled = {**values, "gateways": {"several": True, "autoscaling": {"enabled": True}}}
        apply(cluster, place, render(environments_dir, place, scaled), "--dry-run=server")
        apply(cluster, place, objects)
        try:
            roll_over(cluster)
        finally:
            cluster.kubectl("delete", "-f", str(place / "objects.json"), "--wait=true")
            wait(lambda: not find_pods(cluster))


def roll_over(cluster: Cluster) -> None:
    """Both gateways are replaced while a session of each is used: each goes on in the kernel that it had."""

    def ready() -> set[str]:
        return {each["metadata"]["uid"] for each in find_pods(cluster) if is_ready(each)}

    wait(lambda: len(ready()) == 2)
    before, sessions, answered = ready(), [], 0
    for pod in find_pods(cluster):
        with call(pod) as client:
            sessions.append(client.start_session())
            assert client.run(sessions[-1].id, "x = 6 * 7\nprint(x)").stdout == "42\n"
    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", f"statefulset/{RELEASE}")
    give_up = time.monotonic() + 2 * GUARD_SECONDS
    while len(ready() - before) < 2:
        assert time.monotonic() < give_up
        for each in sessions:
            assert ask(cluster, each.id, "print(x)").stdout == "42\n"
            answered += 1
    assert answered > 0
    for pod in find_pods(cluster):
        with call(pod) as client:
            for each in sessions:
                assert client.run(each.id, "print(x)").stdout == "42\n"
                assert client.get_session(each.id).generation == 1
    with call(find_pods(cluster)[0]) as client:
        for each in sessions:
            client.stop_session(each.id)
    wait(lambda: len(cluster.objects("pods")) == 2)
