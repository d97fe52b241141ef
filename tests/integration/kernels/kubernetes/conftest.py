"""One cluster for all modules here that need one, and services on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import UNHURRIED
from tests.kubernetes_cluster import Cluster, running_cluster
from tests.running_service import RunningService


@pytest.fixture(scope="package")
def cluster(environments_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(environments_dir, tmp_path_factory.mktemp("kubernetes"), nodes=2) as cluster:
        yield cluster


@contextmanager
def serving(
    cluster: Cluster,
    environments_dir: Path,
    environments: str = "",
    keys: Mapping[str, str] | None = None,
    **more: object,
) -> Iterator[RunningService]:
    """A service on pods, with directories of its own."""
    directory = Path(tempfile.mkdtemp(prefix="scdata", dir="/tmp"))
    directory.joinpath("environments.toml").write_text(environments)
    settings = {
        "environments_dir": environments_dir,
        "runtime": "kubernetes",
        "kubernetes_config": cluster.config,
        "interrupt_grace_seconds": 1,
        **UNHURRIED,
        **more,
    }
    service = RunningService(directory, settings, keys)
    try:
        service.start()
        yield service
    finally:
        service.stop()
        shutil.rmtree(directory, ignore_errors=True)
