"""The chart's objects on a cluster of the tests.

The gateways' image is the project's `service`, but for where the code comes from: the nodes are on this machine, so the
container runs on the image of sessions, with the code, its packages and the built environments shown to it from here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kernels.kubernetes import images
from kernels.oci import environments
from sandcell import Client
from tests.helm import Helm
from tests.kubernetes_cluster import NAMESPACE, REGISTRY, REPOSITORY, Cluster
from tests.reachable_python import list_packages, make_reachable_python

TOKEN = "the-token-of-the-operator-of-this-cluster"
USER = 10001
RELEASE = "sandcell"
PART = "app.kubernetes.io/instance"
SECRETS_KEY = "5" * 64
CONTROL_PLANE = "10.55.0.1"
"""An address of what the tests start in the cluster's network, as pods reach it."""


def render(
    environments_dir: Path,
    place: Path,
    more: dict[str, Any] | None = None,
    *also_shown: str,
    settings: dict[str, object] | None = None,
) -> list[dict[str, Any]]:
    """What Helm makes of the chart for a cluster of this version, with the content of its image from this machine."""
    repository, _, tag = images.reference(environments.find_installed(environments_dir)["python"], REGISTRY).rpartition(
        ":"
    )
    values = {
        "image": {"repository": repository, "tag": tag},
        "secret": "operator",
        "sandboxes": {"registry": REGISTRY},
        "settings": {"environments_dir": str(environments_dir), "requests_per_second": 10_000, **(settings or {})},
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
        **(more or {}),
    }
    (place / "home").mkdir(exist_ok=True)
    objects = Helm(environments_dir.parent, place / "home").render(values, "--kube-version", "1.20.2")
    (deployment,) = [each for each in objects if each["kind"] in {"Deployment", "StatefulSet"}]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    if not (place / "python").exists():
        make_reachable_python(place / "python")
    container["command"] = [str(place / "python/bin/python"), "-m", "kernel_gateway", "serve"]
    shown = [str(place / "python"), str(environments_dir), *list_packages(), *also_shown]
    for number, each in enumerate(each for each in shown if not each.startswith(f"{REPOSITORY}/")):
        container["volumeMounts"].append({"name": f"shown-{number}", "mountPath": each, "readOnly": True})
        pod["volumes"].append({"name": f"shown-{number}", "hostPath": {"path": each, "type": "Directory"}})
    return objects


def give_volume(cluster: Cluster, place: Path, name: str) -> None:
    """What a cluster with a provisioner does by itself."""
    data = place / name
    data.mkdir()
    os.chown(data, USER, USER)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
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


def make_secret(cluster: Cluster, name: str, variables: dict[str, str]) -> None:
    """What an operator makes: variables of the gateways' environment."""
    literals = [f"--from-literal={each}={value}" for each, value in variables.items()]
    cluster.kubectl("-n", NAMESPACE, "create", "secret", "generic", name, *literals)


def find_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """Those of gateways."""
    return [each for each in cluster.objects("pods") if each["metadata"]["labels"].get(PART) == RELEASE]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any({"type": "Ready", "status": "True"}.items() <= each.items() for each in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def call(pod: dict[str, Any]) -> Client:
    return Client(f"http://{pod['status']['podIP']}:8899", TOKEN)
