"""What builds from Dockerfiles begin with: a Debian, and the tools' environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.oci import image_archives
from kernels.sandbox import RuntimeSettings
from tests.integration.kernels.images.dockerfiles import bootstrap

AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Where Debian's `ca-certificates` finds those of the place, which it adds to its own."""


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI archive of a minimal Debian, which knows the authorities that were added to this host's."""
    place = tmp_path_factory.mktemp("base")
    bootstrap("bookworm", place / "root")
    shutil.copytree(AUTHORITIES, place / "root" / AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
    image_archives.pack_root(place / "root", place / "debian.tar", "debian", lambda _line: None)
    return place / "debian.tar"


@pytest.fixture(scope="session")
def variables() -> Iterator[dict[str, str]]:
    """The tools' environment. What buildah keeps of the base goes at the end."""
    found = {**os.environ}
    before = _list_images(found)
    yield found
    for image in _list_images(found) - before:
        subprocess.run(["buildah", "rmi", "--force", image], check=True, capture_output=True, env=found, timeout=300)


def _list_images(variables: dict[str, str]) -> set[str]:
    done = subprocess.run(
        ["buildah", "images", "--quiet", "--no-trunc"], check=True, capture_output=True, text=True, env=variables
    )
    return set(done.stdout.split())


@pytest.fixture
def settings(tmp_path: Path, short_directory: Path) -> RuntimeSettings:
    return RuntimeSettings("runc", tmp_path / "trials", short_directory)
