"""A Kubernetes cluster in network namespaces of this machine, by a folder of scripts: `SANDCELL_KUBERNETES` names it.

The folder has `prepare.sh`, `cluster/up.sh` and `cluster/down.sh`; its daemons and what they need are the folder's
business. Nothing of the cluster reaches out of its namespaces: who talks to it enters one (`Cluster.entered`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.kubernetes import images
from kernels.oci import environments
from kernels.system_calls import failure, libc

REPOSITORY = Path(__file__).parent.parent
PROGRAMS = ("containerd", "runc", "etcd", "iptables", "ip", "bc", "openssl", "xz", "kubectl")
REGISTRY = "sandcell.local"
NAMESPACE = "sandcell"
PREFIX = "sck"
"""Of network namespaces and control groups."""
NEW_NETWORK = 0x40000000
NAMESPACES = Path("/var/run/netns")
LOCK = Path(f"/run/{PREFIX}-cluster.lock")
"""Held by who has the cluster: its names and addresses are the same for all checkouts of a machine."""
_KUBELET = "{cpu: 1000m, memory: 16Gi}\nkubeAPIQPS: 50\nkubeAPIBurst: 100"
"""Of a kubelet's configuration: what it leaves to the machine, and how often it may ask, which is as it is since 1.27.

With what it has of its own (5 a second) it tells of its pods late when many start or end.
"""
TURN_SECONDS = 900.0
"""How long a cluster of somebody else's is waited for."""


def folder() -> Path:
    """Where the scripts are, whether or not they are there."""
    return Path(os.environ.get("SANDCELL_KUBERNETES", REPOSITORY.parent / "shared/kubernetes")).absolute()


def why_not() -> str:
    """What is missing for a cluster, empty when nothing is."""
    place = folder()
    if not (place / "cluster/up.sh").exists():
        return f"SANDCELL_KUBERNETES names no folder of a Kubernetes: there is no {place}/cluster/up.sh"
    if missing := [each for each in PROGRAMS if shutil.which(each) is None]:
        return f"a Kubernetes cluster needs {', '.join(missing)}: scripts/install kubernetes installs what is missing"
    return "" if os.geteuid() == 0 else "a Kubernetes cluster needs root"


class NotStarted(Exception):
    """No cluster could be started here: nothing is known of what was to be tried on it."""


class Cluster:
    """One of some nodes, one at a time on a machine; `config` is its administrator's kubeconfig."""

    def __init__(self, place: Path, archives: list[Path], *, nodes: int = 1, grace_seconds: int = 10) -> None:
        self._turn: int | None = None
        self.place = place
        self._nodes = nodes
        prepared = subprocess.run(
            ["bash", folder() / "prepare.sh", place], check=True, capture_output=True, text=True, timeout=120
        ).stdout
        assert "export W=" in prepared, prepared
        pause = place / "img/pause.tar"
        self._variables = {
            **os.environ,
            "P": PREFIX,
            "W": str(place / "run"),
            "B": str(place / "bin"),
            "ETCD": str(place / "etcd"),
            "IMAGES": " ".join(map(str, (pause, *archives))),
            "NODE_GRACE": f"{grace_seconds}s",
            "RESERVED": _KUBELET,
        }
        self.config = place / "run/pki/admin.kubeconfig"

    def start(self) -> None:
        """Returns when all nodes are ready and the namespace is there. Raises NotStarted."""
        turn = _take_turn()
        try:
            remove_leftovers(PREFIX)
        except BaseException:
            os.close(turn)
            raise
        self._turn = turn
        try:
            self._script("up.sh", str(self._nodes))
            self.kubectl("create", "namespace", NAMESPACE)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            raise NotStarted(f"the cluster did not start: {error}") from error

    def stop(self) -> None:
        """End all of it; leaves nothing, and the next one may start. One that was never begun is somebody else's."""
        if self._turn is not None:
            self._script("down.sh")
            os.close(self._turn)
            self._turn = None

    def _script(self, name: str, *arguments: str) -> None:
        log = self.place / f"{name}.log"
        with log.open("wb") as said:
            done = subprocess.run(
                ["bash", folder() / "cluster" / name, *arguments],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=420,
                check=False,
            )
        assert done.returncode == 0 or name == "down.sh", log.read_text()[-4000:]

    @property
    def network(self) -> str:
        """The network namespace from which the API server and the pods are reached."""
        return str(NAMESPACES / f"{PREFIX}-cp")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread, and what it starts from now on, in the cluster's network."""
        with Path("/proc/thread-self/ns/net").open() as before, Path(self.network).open() as inside:
            _enter(inside.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def kubectl(self, *arguments: str) -> str:
        command = ["nsenter", f"--net={self.network}", "kubectl", f"--kubeconfig={self.config}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """All of this kind in the namespace, but for what the cluster itself puts into each."""
        found = json.loads(self.kubectl("-n", NAMESPACE, "get", kind, "-o", "json"))["items"]
        return [each for each in found if each["metadata"]["name"].startswith("sandcell-")]

    def kill_node(self, number: int) -> None:
        """A power cut: everything on the node is gone at once."""
        top = int((self.place / f"run/pid/node-n{number}").read_text())
        (first,) = Path(f"/proc/{top}/task/{top}/children").read_text().split()
        os.kill(int(first), signal.SIGKILL)

    def start_node(self, number: int) -> None:
        """Have one that was killed start again, as after a reboot: what is on its disk is there."""
        self._script("node.sh", str(number))


def find_groups(pod: dict[str, Any]) -> list[Path]:
    """The control groups of a pod and its containers, which are on this machine."""
    name = f"pod{pod['metadata']['uid']}"
    return [Path(top) for top, _, _ in os.walk("/sys/fs/cgroup") if name in Path(top).parts]


def _take_turn() -> int:
    """The lock, once nobody else has it; the kernel gives it back when its holder is killed."""
    turn, give_up = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), time.monotonic() + TURN_SECONDS
    while True:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(turn)
                raise NotStarted(f"another test has had a cluster for {TURN_SECONDS:.0f} s: see {LOCK}") from None
            time.sleep(1)
        else:
            return turn


def remove_leftovers(prefix: str) -> None:
    """Remove the network namespaces of a cluster whose test was killed, for the one that has the lock now.

    Its daemons may have outlived it, and nobody knows any more what they leave behind: raises NotStarted then.
    """
    left = {place.stat().st_ino: place.name for place in NAMESPACES.glob(f"{prefix}-*")}
    if left and (used := [left[each] for each in _list_used_networks() if each in left]):
        raise NotStarted(f"a cluster whose test was killed still runs, in the network {used[0]}: end it")
    for name in left.values():
        subprocess.run(["ip", "netns", "del", name], check=True, capture_output=True, timeout=60)


def _list_used_networks() -> set[int]:
    """The inodes of the network namespaces that some thread of this machine is in."""
    used = set()
    for place in Path("/proc").glob("[0-9]*/task/[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # it has ended
            used.add(place.stat().st_ino)
    return used


def _enter(namespace: int) -> None:
    if libc.setns(namespace, NEW_NETWORK) != 0:
        raise failure("setns")


def write_image(directory: Path) -> Path:
    """The image `python` as the nodes run it, kept for as long as it and the guest are of the same version."""
    version = images.reference(environments.find_installed(directory)["python"], REGISTRY).rpartition(":")[2]
    place = directory.parent / "kubernetes-images"
    place.mkdir(exist_ok=True)
    archive = place / f"python-{version}.tar"
    if not archive.exists():
        for each in place.glob("python-*.tar"):
            each.unlink()
        images.write_archive("python", directory, REGISTRY, archive, lambda line: None)
    return archive


@contextlib.contextmanager
def running_cluster(environments_dir: Path, place: Path, *, nodes: int = 1) -> Iterator[Cluster]:
    """A cluster that has the image `python`, entered by this thread; skips the test where none can be had."""
    if why := why_not():
        pytest.skip(why)
    cluster = Cluster(place, [write_image(environments_dir)], nodes=nodes)
    try:
        cluster.start()
        with cluster.entered():
            yield cluster
    finally:
        cluster.stop()
