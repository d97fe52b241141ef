"""Create a session and get its first result, against a bare `runc run` of the same bundle with just a kernel in it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from benchmarks.bounds import at_most
from benchmarks.raw_kernel import RawKernel
from kernels.environment import Environment
from kernels.oci import bundle, environments, runtime
from kernels.oci.cgroups import Cgroups
from kernels.sandbox import SandboxSpec
from tests.running_service import RunningService

UID_BASE = 3_000_000_000
CGROUP = "sandcell-bench"
MOST_RATIO = 0.35
CONNECTION = {
    "transport": "ipc", "ip": "/run/sandcell/k", "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4,
    "hb_port": 5, "key": "0" * 64, "signature_scheme": "hmac-sha256",
}  # fmt: skip


def run(service: RunningService, environments_dir: Path, *, rounds: int = 12) -> str:
    environment = environments.find_installed(environments_dir)["python"]
    bare, ours = [], []
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=60) as http:
        for _ in range(rounds):
            bare.append(measure_bare(environment))
            ours.append(measure_session(http))
    Cgroups(CGROUP).remove_parent()
    ratio = statistics.median(ours) / statistics.median(bare)
    return (
        f"create to first result {statistics.median(ours) * 1000:.0f} ms, bare runc and kernel"
        f" {statistics.median(bare) * 1000:.0f} ms (p50 of {rounds}); {at_most('ratio', ratio, MOST_RATIO)}"
    )


def measure_session(http: httpx.Client, wanted: Mapping[str, str] | None = None) -> float:
    """Seconds from the request for a session to its first result through REST."""
    started = time.perf_counter()
    session = http.post("/v1/sessions", json=wanted or {}).raise_for_status().json()
    path = f"/v1/sessions/{session['id']}"
    outcome = http.post(f"{path}/executions", json={"code": "1 + 1"}).raise_for_status().json()
    taken = time.perf_counter() - started
    assert outcome["outputs"][0]["data"]["text/plain"] == "2"
    http.delete(path).raise_for_status()
    return taken


def measure_bare(environment: Environment) -> float:
    """Seconds from `runc run` of the same bundle to its kernel's first reply."""
    with tempfile.TemporaryDirectory(prefix="scbare", dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        _write_bundle(directory, environment)
        command = ["runc", "--root", str(directory / "state")]
        started = time.perf_counter()
        subprocess.run(
            [*command, "run", "--detach", "--bundle", str(directory), directory.name],
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with RawKernel(directory / "transport" / "k.json") as kernel:
                kernel.first_reply()
                return time.perf_counter() - started
        finally:
            subprocess.run([*command, "delete", "--force", directory.name], check=True)


def _write_bundle(directory: Path, environment: Environment) -> None:
    for name in ("guest", "transport", "workspace", "home", "tmp"):
        (directory / name).mkdir()
        os.chown(directory / name, UID_BASE + bundle.USER_ID, UID_BASE + bundle.USER_ID)
    connection = directory / "transport" / "k.json"
    connection.write_text(json.dumps(CONNECTION))
    connection.chmod(0o644)
    places = bundle.Places(
        guest=str(directory / "guest"),
        transport=str(directory / "transport"),
        workspace=str(directory / "workspace"),
        home=str(directory / "home"),
        temporary=str(directory / "tmp"),
        processors=str(runtime.make_processor_files(directory, environment.resources.vcpus)),
        uid_base=UID_BASE,
        cgroup=f"{CGROUP}/{directory.name}",
    )
    config = bundle.config(SandboxSpec(directory.name, environment), places, machine=os.uname().machine, swap=True)
    config["process"]["user"] = {"uid": bundle.USER_ID, "gid": bundle.USER_ID}
    config["process"]["args"] = ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "/run/sandcell/k.json"]
    config["process"]["env"] += ["HOME=/home/user"]
    config["process"]["cwd"] = "/workspace"
    (directory / "config.json").write_text(json.dumps(config))
