"""Which builds go: none that is current, none that a sandbox runs on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.images import pruning
from kernels.images.kernel_packages import CACHE
from kernels.oci import environments


def build(directory: Path, name: str, digest: str, packages: str = "") -> Path:
    place = environments.locate(directory, name, f"sha256:{digest}")
    (place / "root").mkdir(parents=True)
    (place / "root/file").write_bytes(bytes(1000))
    origin = {"kernel_packages": packages}
    environments.declare(
        place, name=name, digest=f"sha256:{digest}", description="", python="/usr/bin/python3", origin=origin
    )
    environments.point(directory / name / "current", place.name)
    return place


def sandbox(tmp_path: Path, number: int, journal: str) -> Path:
    home = tmp_path / f"sandbox{number}"
    home.mkdir()
    (home / "sandbox.json").write_text(journal)
    claims = tmp_path / "run/uids"
    claims.mkdir(parents=True, exist_ok=True)
    (claims / "lock").touch()
    (claims / str(number)).write_text(str(home))
    return home


def test_what_is_replaced_goes_and_what_is_needed_stays(tmp_path: Path) -> None:
    directory, run = tmp_path / "environments", tmp_path / "run"
    (tmp_path / "elsewhere").mkdir()
    directory.symlink_to("elsewhere")
    used, old, new = (build(directory, "own", digest, packages=digest * 32) for digest in "abc")
    other = build(directory, "other", "d")
    environments.point(directory / "own" / "sha256-f", old.name)
    left = directory / "own" / ".sha256-e"
    left.mkdir()
    downloads, cut_off = directory / "own" / ".cache", directory / "unbuilt" / ".cache"
    for each in (downloads, cut_off):
        (each / "wheels").mkdir(parents=True)
    archives = [directory / CACHE / f"python3.11-{digest * 32}.tar" for digest in "bc"]
    archives[0].parent.mkdir()
    for archive in archives:
        archive.write_bytes(bytes(10))
    sandbox(tmp_path, 65536, json.dumps({"environment_digest": "sha256:a"}))
    (tmp_path / "run/uids/131072").write_text(str(tmp_path / "gone"))
    going = {each.path for each in pruning.find_unused(directory, pruning.find_digests_in_use(run))}
    assert going == {each.resolve() for each in (old, left, downloads, archives[0])}
    assert old.exists()
    lines: list[str] = []
    assert pruning.remove_unused(directory, run, lines.append) > 1000
    assert len(lines) == 4
    assert not any(each.exists() for each in going)
    assert all(each.exists() for each in (used, new, other, cut_off, archives[1]))
    assert not (directory / "own" / "sha256-f").is_symlink()
    assert environments.find_installed(directory).keys() == {"own", "other"}
    assert pruning.find_unused(directory, pruning.find_digests_in_use(run)) == []


def test_nothing_goes_while_a_sandbox_does_not_say_what_it_runs_on(tmp_path: Path) -> None:
    directory = tmp_path / "environments"
    old, _ = build(directory, "own", "a"), build(directory, "own", "b")
    home = sandbox(tmp_path, 65536, "{}")
    with pytest.raises(EnvironmentBuildFailed, match="does not say what image it runs on"):
        pruning.remove_unused(directory, tmp_path / "run", print)
    (home / "sandbox.json").unlink()
    with pytest.raises(EnvironmentBuildFailed, match="is being made; try again"):
        pruning.remove_unused(directory, tmp_path / "run", print)
    assert old.exists()
