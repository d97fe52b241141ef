"""What the image's entry point readies, and how a root unpacked by an image build becomes an environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels.errors import UnknownEnvironment
from kernels.oci import container, environments, recipe


def test_an_unpacked_root_is_found_as_the_environment_of_its_recipe(tmp_path: Path) -> None:
    root = tmp_path / "python/image/root"
    root.mkdir(parents=True)
    adopted = environments.adopt("python", root)
    assert environments.find_installed(tmp_path) == {"python": adopted}
    assert adopted.root == str(root)
    assert adopted.digest == recipe.read("python").digest


def test_an_adopted_root_is_not_built_again(tmp_path: Path) -> None:
    root = tmp_path / "python/image/root"
    root.mkdir(parents=True)
    environments.adopt("python", root)
    said: list[str] = []
    built = environments.build("python", tmp_path, said.append, variables={})
    assert said == []
    assert Path(built.root).samefile(root)


def test_a_root_without_a_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownEnvironment):
        environments.adopt("nonesuch", tmp_path / "nonesuch/image/root")


@pytest.mark.parametrize("arguments", [[], ["serve"], ["adopt", "python"]])
def test_an_unknown_verb_says_how_it_is_used(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage"):
        container.main(arguments)


def test_loop_nodes_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "LOOP_NODES", 3)
    (tmp_path / "loop1").touch()
    container.make_loop_nodes(tmp_path)
    container.make_loop_nodes(tmp_path)
    assert {path.name: os.major(path.stat().st_rdev) for path in tmp_path.iterdir()} == {
        "loop-control": 10,
        "loop0": 7,
        "loop1": 0,
        "loop2": 7,
    }
    assert os.minor((tmp_path / "loop2").stat().st_rdev) == 2


def test_on_cgroup_v2_every_process_leaves_the_top_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    monkeypatch.setattr(container, "_read_own_group", lambda: "/")
    monkeypatch.setattr(Path, "write_text", lambda path, text: moved.append(f"{path.relative_to(tmp_path)} {text}"))
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "cgroup.procs").write_bytes(b"1\n17\n")
    container.leave_top_group(tmp_path)
    assert moved == ["service/cgroup.procs 1", "service/cgroup.procs 17"]


def test_on_cgroup_v1_nothing_is_moved(tmp_path: Path) -> None:
    container.leave_top_group(tmp_path)
    assert list(tmp_path.iterdir()) == []
