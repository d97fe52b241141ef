"""What the launcher gives a sandbox at most: all that a made environment may have, and nothing beyond."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.server import starting
from kernel_gateway.settings import Settings
from kernels.environment import Environment, NetworkMode, Resources
from kernels.errors import LauncherRefused
from kernels.launcher import wire
from kernels.launcher.checks import Bounds, Checks
from kernels.sandbox import RuntimeSettings

DIGEST = "sha256:" + "ab" * 32
HOST = Environment("python", "/e/root", DIGEST, image="python", resources=Resources(2048, 512, 512))
OCI = RuntimeSettings("runc", Path("/var/lib/x"), Path("/run/x"))


def bounds(settings: Settings, *environments: Environment) -> Bounds:
    return starting._compute_bounds(settings, OCI, {each.name: each for each in (HOST, *environments)})


def ask(**changes: Any) -> wire.Create:
    return wire.Create(
        sandbox_id="11111111-2222-3333-4444-555555555555",
        image="python",
        digest=DIGEST,
        generation=1,
        hostname="sandcell",
        memory_mb=changes.get("memory_mb", 2048),
        storage_mb=changes.get("storage_mb", 512),
        pids=changes.get("pids", 512),
        vcpus=changes.get("vcpus", 1.0),
        runtime="",
        network=NetworkMode.SANDBOX,
        role=None,
    )


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A directory with one built image, root's own as the launcher wants it."""
    build = tmp_path / "environments" / "python" / DIGEST.replace(":", "-")
    (build / "root").mkdir(parents=True)
    said = {"name": "python", "digest": DIGEST, "description": "", "python": "/usr/bin/python3"}
    (build / "environment.json").write_text(json.dumps(said))
    for path in (tmp_path / "environments", *(tmp_path / "environments").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "environments"


def test_the_bounds_cover_what_principals_may_make(images: Path) -> None:
    checks = Checks(images, bounds(Settings(data_dir="/x")))
    spec = checks.spec(ask(memory_mb=10_240, storage_mb=10_240, vcpus=6.0), sandboxes=0)
    assert spec.environment.resources == Resources(10_240, 10_240, 512, 6.0)
    for beyond in (
        {"memory_mb": 10_241},
        {"storage_mb": 10_241},
        {"pids": 513},
        {"vcpus": 6.01},
        {"vcpus": float("nan")},
    ):
        with pytest.raises(LauncherRefused, match="a sandbox gets at most"):
            checks.spec(ask(**beyond), sandboxes=0)


def test_the_operators_most_is_the_launchers(images: Path) -> None:
    strict = Settings(data_dir="/x", memory_mb_max=3_000, storage_mb_max=600, vcpus_max=2.0)
    checks = Checks(images, bounds(strict))
    checks.spec(ask(memory_mb=3_000, storage_mb=600, vcpus=2.0), sandboxes=0)
    for beyond in ({"memory_mb": 3_001}, {"storage_mb": 601}, {"vcpus": 2.01}):
        with pytest.raises(LauncherRefused):
            checks.spec(ask(**beyond), sandboxes=0)


def test_what_the_operator_gives_his_own_environments_counts_too() -> None:
    large = dataclasses.replace(HOST, name="large", resources=Resources(8_000, 9_000, 1_000, 16.0))
    found = bounds(Settings(data_dir="/x", memory_mb_max=3_000, storage_mb_max=600), large)
    assert (found.memory_mb, found.storage_mb, found.pids, found.vcpus) == (8_000, 9_000, 1_000, 16.0)
