"""Images of added packages on disk: what is taken of a hostile workspace, what is left when that fails, removal."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, LauncherRefused, UnknownEnvironment
from kernels.images import added_packages, contents, pruning
from kernels.images.added_packages import Added, Container, Part
from kernels.images.packages import read_packages
from kernels.oci.places import HostPlaces, read_uid_base, write_journal
from kernels.oci.uid_ranges import UidRanges
from kernels.sandbox import RuntimeSettings

DIGEST = "sha256:" + "1" * 64
SITE = "lib/python3.11/site-packages"


@pytest.fixture
def base(tmp_path: Path) -> Environment:
    """A small image, with the directory that the guest's code is bound to."""
    root = tmp_path / "base/root"
    (root / "opt/sandcell/guest").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").write_text("the image's")
    return Environment("python", str(root), "sha256:" + "0" * 64, image="python", variables=(("A", "b"),))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """What pip of a sandbox has left, and more that is none of its business."""
    place = tmp_path / "workspace"
    packages = place / ".sandcell/packages" / SITE
    (packages / "tiny-1.0.dist-info").mkdir(parents=True)
    (packages / "tiny-1.0.dist-info/METADATA").write_text("Name: tiny\nVersion: 1.0\n")
    (packages / "tiny.py").write_text("x = 1")
    (packages / "away").symlink_to("/etc")
    os.mkfifo(packages / "fifo")
    (place / ".sandcell/packages/bin").mkdir()
    script = place / ".sandcell/packages/bin/tiny"
    script.write_text("#!/bin/sh")
    script.chmod(0o6777)
    (place / "usr/bin").mkdir(parents=True)
    (place / "usr/bin/python3").write_text("the sandbox's")
    return place


def added(
    workspace: Path,
    part: Part = "python",
    most_bytes: int = 10_000,
    *,
    given_up: bool = False,
    run: Path = Path("/run"),
) -> Added:
    settings = RuntimeSettings("runc", workspace.parent, run)
    container = Container("runc", settings, 256 << 20, 64, 1.0, 60)
    return Added(part, workspace, most_bytes, container, lambda: given_up)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / ".layers"))  # noqa: PTH208 - names alone


def test_packages_get_to_their_own_place_and_nothing_else_of_the_image_changes(
    base: Environment, workspace: Path, tmp_path: Path
) -> None:
    added_packages.lay(tmp_path, base, DIGEST, added(workspace))
    added_packages.lay(tmp_path, base, DIGEST, added(tmp_path / "not looked at: it is there"))
    found = added_packages.find(tmp_path, DIGEST)
    root = Path(found.root)
    assert (found.image, found.digest, found.python, found.variables) == (
        ".layers",
        DIGEST,
        base.python,
        base.variables,
    )
    assert (root / "usr/bin/python3").samefile(Path(base.root, "usr/bin/python3"))
    assert (root / "usr/bin/python3").read_text() == "the image's"
    place = root / "opt/sandcell/packages"
    assert sorted(os.listdir(place / SITE)) == ["tiny-1.0.dist-info", "tiny.py"]  # noqa: PTH208
    assert (place / "bin/tiny").stat().st_mode & 0o7777 == 0o755
    assert [(each.name, each.version) for each in read_packages(found.root, found.python)] == [("tiny", "1.0")]
    assert added_packages.list_digests(tmp_path) == [DIGEST]
    known = contents.read(found)
    assert known is not None
    assert [(each.kind, each.name, each.version) for each in known.packages] == [("pypi", "tiny", "1.0")]


@pytest.mark.parametrize("how", ["too large", "given up", "a link for the packages", "a link in the image"])
def test_what_cannot_be_taken_leaves_nothing(base: Environment, workspace: Path, tmp_path: Path, how: str) -> None:
    taken = added(workspace, most_bytes=5 if how == "too large" else 10_000, given_up=how == "given up")
    precious = tmp_path / "precious"
    precious.mkdir()
    if how == "a link for the packages":
        (workspace / ".sandcell").rename(workspace / "moved")
        (workspace / ".sandcell").symlink_to("moved")
    if how == "a link in the image":
        (Path(base.root) / "opt/sandcell/packages").symlink_to(precious)
    with pytest.raises((EnvironmentBuildFailed, OSError)):
        added_packages.lay(tmp_path, base, DIGEST, taken)
    assert names(tmp_path) == [".lock"]
    assert list(precious.iterdir()) == []
    with pytest.raises(UnknownEnvironment):
        added_packages.find(tmp_path, DIGEST)


def test_a_failed_setup_of_debian_packages_leaves_nothing_and_blocks_no_removal(
    base: Environment, workspace: Path, tmp_path: Path, short_directory: Path
) -> None:
    archives = workspace / ".sandcell/debian/cache/archives"
    archives.mkdir(parents=True)
    (archives / "some.deb").write_text("no package")
    Path(base.root).rename(tmp_path / "away")
    with pytest.raises(EnvironmentBuildFailed, match="the packages could not be set up"):
        added_packages.lay(tmp_path, base, DIGEST, added(workspace, "debian", 100_000_000, run=short_directory))
    assert names(tmp_path) == [".lock"]
    assert pruning.find_digests_in_use(short_directory) == set()
    (tmp_path / "away").rename(base.root)
    added_packages.lay(tmp_path, base, DIGEST, added(workspace))
    over = "sha256:" + "2" * 64
    found = added_packages.find(tmp_path, DIGEST)
    added_packages.lay(tmp_path, dataclasses.replace(base, root=found.root), over, added(workspace))
    assert (Path(added_packages.find(tmp_path, over).root) / "opt/sandcell/packages" / SITE / "tiny.py").exists()


def test_an_image_is_removed_with_what_killed_builds_have_left_unless_a_sandbox_runs_on_it(
    base: Environment, workspace: Path, tmp_path: Path
) -> None:
    added_packages.lay(tmp_path, base, DIGEST, added(workspace))
    built = DIGEST.replace(":", "-")
    with pytest.raises(LauncherRefused, match="a sandbox runs on"):
        added_packages.remove(tmp_path, DIGEST, lambda: {DIGEST})
    assert added_packages.find(tmp_path, DIGEST)
    (tmp_path / ".layers" / f".{built}/root").mkdir(parents=True)
    assert added_packages.list_digests(tmp_path) == [DIGEST]
    added_packages.remove(tmp_path, DIGEST, set)
    assert names(tmp_path) == [".lock"]
    (tmp_path / ".layers" / f".removed-{built}/root").mkdir(parents=True)
    assert added_packages.list_digests(tmp_path) == [DIGEST]
    added_packages.remove(tmp_path, DIGEST, set)
    added_packages.remove(tmp_path, DIGEST, set)
    assert (names(tmp_path), added_packages.list_digests(tmp_path)) == ([".lock"], [])


def test_what_a_killed_build_has_left_is_removed_and_the_image_below_is_in_use_no_more(
    base: Environment, workspace: Path, tmp_path: Path, short_directory: Path
) -> None:
    settings = RuntimeSettings("runc", tmp_path, short_directory)
    assert added_packages.remove_unfinished(settings) == []
    added_packages.lay(tmp_path, base, DIGEST, added(workspace))
    left, away = (tmp_path / ".layers" / f"{name}sha256-{'2' * 64}" for name in (".", ".removed-"))
    away.mkdir()  # perhaps a sandbox runs on it
    (left / "setup").mkdir(parents=True)
    places = HostPlaces(settings)
    uids = UidRanges(places.uid_claims, base=settings.uid_base, count=1, first_id=read_uid_base)
    write_journal(left / "setup", uids.claim(left / "setup"), "runc", base.digest)
    assert pruning.find_digests_in_use(short_directory) == {base.digest}
    assert added_packages.remove_unfinished(settings) == ["sha256:" + "2" * 64]
    assert pruning.find_digests_in_use(short_directory) == set()
    assert list(places.uid_claims.glob("[0-9]*")) == [], "its range is free"
    assert names(tmp_path) == [".lock", away.name, DIGEST.replace(":", "-")]
