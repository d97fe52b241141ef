"""The image `data`: its recipe, its lock, its tests and its table say the same; nothing is built."""

from __future__ import annotations

import re

import pytest

from scripts import data_image
from tests.integration.environments.data.cells import CELLS, COVERED

LOCK = dict(data_image.LOCKED.findall((data_image.RECIPE / "requirements.txt").read_text()))


def test_every_library_and_tool_of_the_recipe_is_tried() -> None:
    named = {*data_image.requirements(), *data_image.debian_packages()}
    tried = [name for cells in CELLS.values() for name in cells]
    assert len(tried) == len(set(tried))
    assert {*tried, *COVERED} == named
    assert set(COVERED.values()) <= set(tried)
    assert not COVERED.keys() & set(tried)


@pytest.mark.parametrize("name", sorted({name for cells in CELLS.values() for name in cells}))
def test_a_cell_can_fail(name: str) -> None:
    """It asserts, runs what must end well, or shows what the test looks at."""
    (code,) = [cells[name] for cells in CELLS.values() if name in cells]
    assert re.search(r"\bassert\b|check=True|run\(|\.save\(\)|plt\.show|zip", code)
    assert " or True" not in code


def test_torch_and_numpy_come_from_one_place_each() -> None:
    """PyPI's wheels of PyTorch are of CUDA: a package that wants them would bring gigabytes."""
    assert not [name for name in LOCK if re.match(r"torch|nvidia-|triton|cuda", name)]


def test_what_is_missing_has_a_reason_and_what_is_here_has_none() -> None:
    lists = data_image.compared()
    listed = set().union(*lists["services"].values())
    here = {*LOCK, *lists["instead"]}
    assert lists["missing"].keys() == listed - here
    assert lists["instead"].keys() <= listed
    assert {*lists["instead"].values()} <= {*LOCK, *data_image.debian_packages()}


def test_the_table_is_of_this_recipe() -> None:
    """`make test-data` wrote down what it tried; a change of the recipe alone is found by .ci/run, which tries it."""
    built = data_image.read_built()
    assert sorted(built["debian"]) == sorted(data_image.debian_packages())
    assert built["download_bytes"] > 500_000_000
    assert built["disk_bytes"] > built["download_bytes"]
    assert re.fullmatch(r"[0-9a-f]{64}", built["tried"])
    versions = {line[0].strip("`"): line[1] for line in data_image.library_lines()}
    assert versions["numpy"] == LOCK["numpy"]
    assert versions["torch"] == built["debian"]["python3-torch"]
    assert versions["tensorflow"] == "no"


def test_a_change_of_recipe_lock_or_test_is_to_be_tried() -> None:
    names = {str(path.relative_to(data_image.REPOSITORY)) for path in data_image.tried_files()}
    recipe = {f"environments/data/{name}" for name in ("environment.toml", "requirements.txt", "finish.sh")}
    assert names >= {*recipe, "environments/python/finish.sh", "tests/integration/environments/data/cells.py"}
