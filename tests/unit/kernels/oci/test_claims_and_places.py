"""uid ranges are claimed once, and paths stay short enough for sockets."""

from __future__ import annotations

import contextlib
import itertools
import re
from pathlib import Path

import pytest

from kernels.errors import RuntimeUnusable, SandboxFailed, UnknownEnvironment
from kernels.oci import recipe
from kernels.oci.command import OciCommand
from kernels.oci.places import HostPlaces, read_uid_base
from kernels.oci.uid_ranges import UidRanges
from kernels.sandbox import RuntimeSettings


def owner(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    return path


def test_ranges_are_disjoint_and_come_back(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=100_000, count=2)
    first, second = ranges.claim(owner(tmp_path, "a")), ranges.claim(owner(tmp_path, "b"))
    assert (first, second) == (100_000, 165_536)
    with pytest.raises(SandboxFailed, match="all 2 uid ranges"):
        ranges.claim(owner(tmp_path, "c"))
    ranges.release(first, tmp_path / "a")
    assert ranges.claim(owner(tmp_path, "c")) == first


def test_only_the_owner_gives_a_range_back(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=100_000, count=1)
    first = ranges.claim(owner(tmp_path, "a"))
    ranges.release(first, tmp_path / "b")
    with pytest.raises(SandboxFailed):
        ranges.claim(owner(tmp_path, "c"))


def test_a_claim_whose_sandbox_is_gone_is_taken_over(tmp_path: Path) -> None:
    ranges = UidRanges(tmp_path / "uids", base=100_000, count=1)
    ranges.claim(owner(tmp_path, "a"))
    (tmp_path / "a").rmdir()
    assert ranges.claim(owner(tmp_path, "b")) == 100_000


@pytest.mark.parametrize("offset", [0, 1, 32_768, 65_535, 65_536, 2 * 65_536 + 7, -1])
def test_services_that_count_from_different_ids_never_share_one(tmp_path: Path, offset: int) -> None:
    one = UidRanges(tmp_path / "uids", base=1_000_000, count=3)
    other = UidRanges(tmp_path / "uids", base=1_000_000 + offset, count=3)
    firsts = []
    for number in range(3):
        for ranges in (one, other):
            with contextlib.suppress(SandboxFailed):
                firsts.append(ranges.claim(owner(tmp_path, f"{number}-{ranges is one}")))
    assert len(firsts) >= 2
    assert all(later - earlier >= 65_536 for earlier, later in itertools.pairwise(sorted(firsts)))


def test_a_claim_of_an_older_version_holds_what_its_sandbox_has(tmp_path: Path) -> None:
    """It was named after a slot, and did not say from which id its service counts."""
    sandbox, claims = owner(tmp_path, "a"), tmp_path / "uids"
    (sandbox / "sandbox.json").write_text('{"uid_base": 1065536, "runtime": "runc"}')
    claims.mkdir()
    (claims / "7").write_text(str(sandbox))
    ranges = UidRanges(claims, base=1_000_000, count=2, first_id=read_uid_base)
    assert ranges.claim(owner(tmp_path, "b")) == 1_000_000
    with pytest.raises(SandboxFailed, match="all 2 uid ranges"):
        ranges.claim(owner(tmp_path, "c"))
    ranges.release(1_065_536, sandbox)
    assert ranges.claim(owner(tmp_path, "c")) == 1_065_536


def test_a_run_directory_too_long_for_sockets_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnusable, match=r"run_dir .* at most"):
        HostPlaces(RuntimeSettings("runc", tmp_path, Path("/run") / ("x" * 60)))


def test_two_services_on_one_host_have_directories_of_their_own() -> None:
    run = Path("/run/sandcell")
    one, two = (HostPlaces(RuntimeSettings("runc", Path(data), run)) for data in ("/a", "/b"))
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


def test_a_workspace_is_ready_once_it_is_marked_by_this_version_or_the_one_before(tmp_path: Path) -> None:
    places = HostPlaces(RuntimeSettings("runc", data_directory=tmp_path / "data", run_directory=Path("/run")))
    new, old, part = (places.of(name) for name in ("new", "old", "part"))
    for each in (new, old, part):
        each.home.mkdir(parents=True)
    new.workspace_ready.touch()
    (old.home / "furnished").touch()
    assert [each.info().workspace_ready for each in (new, old, part)] == [True, True, False]
