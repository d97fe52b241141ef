"""What is put beside an image whose Python has no ipykernel: which packages, and what of the image they cannot use."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.images import kernel_packages
from kernels.images.kernel_packages import PLACE, Floor

METADATA = """Metadata-Version: 2.1
Name: ipykernel
Version: 7.4.0
Requires-Dist: tornado>=6.4.1
Requires-Dist: jupyter-client (!=7.0,>=8.8)
Requires-Dist: traitlets <6,>=5.4.0
Requires-Dist: appnope>=0.1.2; platform_system == 'Darwin'
Requires-Dist: pytest>=9; extra == 'test'
Requires-Dist: exceptiongroup>=1; python_version < "3.11"
Requires-Dist: comm
"""
OTHER = """Metadata-Version: 2.1
Name: jupyter_client
Version: 8.10.0
Requires-Dist: tornado>=6.2
Requires-Dist: Python.DateUtil>=2.8.2
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "packages.tar"
    with tarfile.open(path, "w") as layer:
        for name, text in (
            (f"{PLACE}/ipykernel-7.4.0.dist-info/METADATA", METADATA),
            (f"{PLACE}/jupyter_client-8.10.0.dist-info/METADATA", OTHER),
            (f"{PLACE}/debugpy/_vendored/x-1.dist-info/METADATA", "Name: x\nRequires-Dist: tornado>=99\n"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            layer.addfile(member, io.BytesIO(text.encode()))
    return path


def test_what_they_need_at_least_is_read_off_their_metadata(archive: Path) -> None:
    assert kernel_packages.read_floors(archive) == [
        Floor("appnope", "0.1.2", "ipykernel 7.4.0"),
        Floor("jupyter-client", "8.8", "ipykernel 7.4.0"),
        Floor("python-dateutil", "2.8.2", "jupyter_client 8.10.0"),
        Floor("tornado", "6.4.1", "ipykernel 7.4.0"),
        Floor("traitlets", "5.4.0", "ipykernel 7.4.0"),
    ]


@pytest.mark.parametrize("version", ["6.4.1", "6.4.1.post1", "6.10", "7", "v6.5"])
def test_a_package_of_the_image_that_is_new_enough_is_left_to_it(archive: Path, version: str) -> None:
    floors = kernel_packages.read_floors(archive)
    kernel_packages.require_compatible(floors, {"tornado": version, "requests": "0.1"})


@pytest.mark.parametrize("version", ["6.4", "6.4.0", "4.5.3", "6.3.99", "odd"])
def test_one_that_is_too_old_is_refused_by_name(archive: Path, version: str) -> None:
    floors = kernel_packages.read_floors(archive)
    with pytest.raises(
        EnvironmentBuildFailed, match=rf"has tornado {version}, and ipykernel 7\.4\.0, .* needs 6\.4\.1 or"
    ):
        kernel_packages.require_compatible(floors, {"tornado": version})


def test_each_python_has_a_lock_and_a_digest_of_its_own() -> None:
    locks = [kernel_packages.find_lock(minor) for minor in range(9, 15)]
    assert all(lock.read_text().count("ipykernel==") == 1 for lock in locks)
    assert len(set(locks)) == 3
    assert len({kernel_packages.digest_lock(minor) for minor in range(9, 15)}) == 6
