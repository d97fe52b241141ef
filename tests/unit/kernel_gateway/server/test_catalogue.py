"""The environments there are: a new build is there at once, and what has not changed is not read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel_gateway.server.sandboxes import Catalogue
from kernel_gateway.settings import Settings
from kernels.oci import environments


def build(directory: Path, name: str, digest: str) -> None:
    place = directory / name / digest
    place.mkdir(parents=True)
    declared = {"name": name, "digest": digest, "description": "", "python": "/usr/bin/python3"}
    (place / "environment.json").write_text(json.dumps(declared))
    environments.point(directory / name / "current", digest)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """How often all images were looked through."""
    find, made = environments.find_installed, list[Path]()

    def count(directory: Path) -> dict[str, environments.Environment]:
        made.append(directory)
        return find(directory)

    monkeypatch.setattr(environments, "find_installed", count)
    return made


def test_builds_that_come_go_and_are_replaced_show_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    monkeypatch.setattr("kernel_gateway.server.sandboxes.LOOK_SECONDS", 3600.0)
    catalogue = Catalogue(Settings(data_dir=str(tmp_path / "data"), environments_dir=str(tmp_path)), "")
    assert catalogue() == {}
    build(tmp_path, "python", "one")
    assert catalogue()["python"].digest == "one"
    before = len(reads)
    assert catalogue() is catalogue()
    assert len(reads) == before
    build(tmp_path, "python", "two")
    assert catalogue()["python"].root == str(tmp_path / "python" / "two" / "root")
    build(tmp_path, "data", "one")
    assert sorted(catalogue()) == ["data", "python"]
    (tmp_path / "data" / "current").unlink()
    assert sorted(catalogue()) == ["python"]


def test_what_no_sign_tells_of_is_seen_a_while_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    monkeypatch.setattr("kernel_gateway.server.sandboxes.LOOK_SECONDS", 0.0)
    catalogue = Catalogue(Settings(data_dir=str(tmp_path / "data"), environments_dir=str(tmp_path)), "")
    assert (catalogue(), catalogue()) == ({}, {})
    assert len(reads) == 2
