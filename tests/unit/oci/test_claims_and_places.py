"""uid ranges are claimed once, and paths stay short enough for sockets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernels.errors import RuntimeUnusable, SandboxFailed, UnknownEnvironment
from kernels.oci import recipe
from kernels.oci.command import OciCommand
from kernels.oci.places import HostPlaces, OciSettings
from kernels.oci.uid_ranges import UidRanges


def owner(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    return path


def test_ranges_are_disjoint_and_come_back(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=1000, count=2)
    first, second = ranges.claim(owner(tmp_path, "a")), ranges.claim(owner(tmp_path, "b"))
    assert (first, second) == (1000, 1000 + 65_536)
    with pytest.raises(SandboxFailed, match="all 2 uid ranges"):
        ranges.claim(owner(tmp_path, "c"))
    ranges.release(first, tmp_path / "a")
    assert ranges.claim(owner(tmp_path, "c")) == first


def test_only_the_owner_gives_a_range_back(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=1000, count=1)
    first = ranges.claim(owner(tmp_path, "a"))
    ranges.release(first, tmp_path / "b")
    with pytest.raises(SandboxFailed):
        ranges.claim(owner(tmp_path, "c"))


def test_a_claim_whose_sandbox_is_gone_is_taken_over(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=1000, count=1)
    ranges.claim(owner(tmp_path, "a"))
    (tmp_path / "a").rmdir()
    assert ranges.claim(owner(tmp_path, "b")) == 1000


def test_a_run_directory_too_long_for_sockets_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnusable, match=r"run_dir .* at most"):
        HostPlaces(OciSettings("runc", tmp_path, Path("/run") / ("x" * 60)))


def test_two_services_on_one_host_have_directories_of_their_own() -> None:
    run = Path("/run/sandcell")
    one, two = (HostPlaces(OciSettings("runc", Path(data), run)) for data in ("/a", "/b"))
    assert one.run != two.run
    assert one.uid_claims == two.uid_claims


def test_an_unknown_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnusable, match="runc"):
        OciCommand("docker", tmp_path)


def test_the_recipe_of_the_default_environment() -> None:
    found = recipe.read("python")
    assert found.python == "/usr/bin/python3"
    assert found.digest.startswith("sha256:")
    pinned = re.findall(r"^(\S+)==\S+ \\\n +--hash=sha256:", found.requirements.read_text(), re.MULTILINE)
    assert {"ipykernel", "numpy", "pandas", "pyarrow", "matplotlib"} <= set(pinned)


def test_an_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(UnknownEnvironment, match="python"):
        recipe.read("cobol")
