"""The chart's objects in a real cluster: a gateway without privileges, its sessions in pods, and its next version.

Its image is the project's `service`, but for where the code comes from: the nodes are on this machine, so the container
runs on the image of sessions, with the code, its packages and the built environments shown to it from here.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.kubernetes import images
from kernels.oci import environments
from sandcell import Client
from tests.helm import Helm
from tests.kubernetes_cluster import NAMESPACE, REGISTRY, REPOSITORY, Cluster, running_cluster
from tests.reachable_python import list_packages, make_reachable_python

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
GUARD_SECONDS = 180
TOKEN = "the-token-of-the-operator-of-this-cluster"
USER = 10001
RELEASE = "sandcell"
PART = "app.kubernetes.io/instance"


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


def render(environments_dir: Path, place: Path) -> list[dict[str, Any]]:
    """What Helm makes of the chart for a cluster of this version, with the content of its image from this machine."""
    repository, _, tag = images.reference(environments.find_installed(environments_dir)["python"], REGISTRY).rpartition(
        ":"
    )
    values = {
        "image": {"repository": repository, "tag": tag},
        "secret": "operator",
        "sandboxes": {"registry": REGISTRY},
        "settings": {"environments_dir": str(environments_dir), "requests_per_second": 10_000},
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
    }
    (place / "home").mkdir()
    objects = Helm(environments_dir.parent, place / "home").render(values, "--kube-version", "1.20.2")
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["command"] = [str(make_reachable_python(place / "python")), "-m", "kernel_gateway", "serve"]
    shown = [str(place / "python"), str(environments_dir), *list_packages()]
    for number, each in enumerate(each for each in shown if not each.startswith(f"{REPOSITORY}/")):
        container["volumeMounts"].append({"name": f"shown-{number}", "mountPath": each, "readOnly": True})
        pod["volumes"].append({"name": f"shown-{number}", "hostPath": {"path": each, "type": "Directory"}})
    return objects


def give_volume(cluster: Cluster, place: Path) -> None:
    """What a cluster with a provisioner does by itself."""
    data = place / "data"
    data.mkdir()
    os.chown(data, USER, USER)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "data"},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(data), "type": "Directory"},
        },
    }
    apply(cluster, place, [volume])


def apply(cluster: Cluster, place: Path, objects: list[dict[str, Any]], *more: str) -> None:
    file = place / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster.kubectl("apply", "-f", str(file), *more)


def find_gateway(cluster: Cluster) -> dict[str, Any] | None:
    """The one pod of the service, once it is ready and no other one is there."""
    pods = [each for each in cluster.objects("pods") if each["metadata"]["labels"].get(PART) == RELEASE]
    ready = [{"type": "Ready", "status": "True"}.items() <= each.items() for pod in pods for each in _conditions(pod)]
    return pods[0] if len(pods) == 1 and any(ready) and not pods[0]["metadata"].get("deletionTimestamp") else None


def _conditions(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod.get("status", {}).get("conditions", [])
    return found


def call(pod: dict[str, Any]) -> Client:
    return Client(f"http://{pod['status']['podIP']}:8899", TOKEN)


def test_a_gateway_of_the_chart_serves_and_its_successor_goes_on(
    cluster: Cluster, place: Path, environments_dir: Path
) -> None:
    objects = render(environments_dir, place)
    apply(cluster, place, objects, "--dry-run=server")
    give_volume(cluster, place)
    cluster.kubectl(
        "-n", NAMESPACE, "create", "secret", "generic", "operator", f"--from-literal=SANDCELL_TOKEN={TOKEN}"
    )
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
