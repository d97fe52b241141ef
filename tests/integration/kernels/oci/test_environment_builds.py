"""Builds of an environment that fail: of them only downloads stay, and nothing of the host goes with them."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.oci import environments, recipe
from tests.integration.kernel_gateway.server.eventually import eventually

HANGS = """\
#!/bin/sh
# Mounts what a bootstrap mounts in the new root, leaves a child behind, and never ends.
for root; do :; done
mkdir -p "$root/dev/shm"
mount --bind {shared} "$root/dev/shm"
sleep 987654 &
sleep 987654
"""


def test_a_bootstrap_that_hangs_leaves_nothing_and_takes_nothing_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "of the host").write_text("kept")
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(HANGS.format(shared=shared))
    program.chmod(0o755)
    monkeypatch.setattr(environments, "_STEP_SECONDS", 1)
    with pytest.raises(EnvironmentBuildFailed, match="did not end in 1 s"):
        environments.build(
            "python",
            tmp_path / "environments",
            lambda _step: None,
            variables={"PATH": f"{program.parent}:{os.environ['PATH']}"},
        )
    assert (shared / "of the host").read_text() == "kept"
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    eventually(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"987654" in _read(path)])
    assert environments.find_installed(tmp_path / "environments") == {}


BOOTSTRAPS = """\
#!/bin/sh
# A root without anything in it, so that the last step of a build fails.
for root; do :; done
mkdir -p "$root/var/lib/dpkg" && : > "$root/var/lib/dpkg/status"
"""
TOML = """\
description = "a recipe to try"
suite = "trixie"
python = "/usr/bin/python3"
python_version = "3.13"
packages = ["python3"]
"""


@pytest.fixture
def build_tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[str]]:
    """Build a recipe of one tiny package; what can be fetched lies in the given folder. Returns what was said."""
    folder = tmp_path / "recipes/tiny"
    folder.mkdir(parents=True)
    (folder / "environment.toml").write_text(TOML)
    (folder / "finish.sh").write_text("true\n")
    (program := tmp_path / "bin/mmdebstrap").parent.mkdir()
    program.write_text(BOOTSTRAPS)
    program.chmod(0o755)
    monkeypatch.setattr(recipe, "_FOLDERS", (folder.parent,))

    def build(wheels: Path) -> list[str]:
        lines: list[str] = []
        variables = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
        }
        with pytest.raises(EnvironmentBuildFailed, match=r"finish\.sh failed"):
            environments.build("tiny", tmp_path / "environments", lines.append, variables=variables)
        return [line for line in lines if not line.startswith(" ")]

    return build


def make_wheel(folder: Path) -> Path:
    folder.mkdir()
    wheel = folder / "tiny_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_package.py", "")
        # For the image's Python, which need not be that of the service.
        said = "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\nRequires-Python: ==3.13.*\n"
        archive.writestr("tiny_package-1.0.dist-info/METADATA", said)
        archive.writestr(
            "tiny_package-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_package-1.0.dist-info/RECORD", "")
    return wheel


@pytest.mark.sample("packages")
def test_a_build_after_one_that_failed_fetches_nothing_again(
    tmp_path: Path, build_tiny: Callable[[Path], list[str]]
) -> None:
    wheel = make_wheel(tmp_path / "index")
    lock = f"tiny-package==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    (tmp_path / "recipes/tiny/requirements.txt").write_text(lock)
    assert "2/4 fetching 1 of 1 Python packages" in build_tiny(wheel.parent)
    (nowhere := tmp_path / "nowhere").mkdir()
    said = build_tiny(nowhere)
    assert said[1:] == ["2/4 nothing to fetch", "3/4 installing 1 Python packages", "4/4 compiling, fonts, the user"]
    (kept,) = (tmp_path / "environments/tiny/.cache/wheels").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert "2/4 fetching 1 of 1 Python packages" in build_tiny(wheel.parent)


def test_an_image_that_cannot_fit_is_refused_before_anything_is_fetched(
    tmp_path: Path, build_tiny: Callable[[Path], list[str]]
) -> None:
    del build_tiny  # it made the recipe
    (tmp_path / "recipes/tiny/requirements.txt").touch()
    (tmp_path / "recipes/tiny/built.json").write_text('{"download_bytes": 5000000, "disk_bytes": 9000000000000000}')
    lines: list[str] = []
    with pytest.raises(EnvironmentBuildFailed, match=r"takes 9,000,000,000 MB.*make room"):
        environments.build("tiny", tmp_path / "environments", lines.append, variables=dict(os.environ))
    (said,) = lines
    assert "about 5 MB to download" in said


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
