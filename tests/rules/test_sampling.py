"""A sample is the same for the same seed and has one value of an axis for each other case; samples cover all of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

Collect = Callable[..., list[str]]

HOOKS = """
import pytest
from tests import sampling

def pytest_addoption(parser):
    sampling.add_option(parser)

@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    sampling.mark_matrices(items)
    yield
    sampling.draw(config, items)

sampling.GROUPS["walks"] = 3

@pytest.fixture(params=["local", "rclone", "moto"])
def store(request):
    return request.param
"""

MATRICES = """
import pytest

@pytest.mark.parametrize("fault", ["reset", "stall"])
def test_each_store_by_each_fault(store, fault): pass

@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_two_of_four(name): pass

@pytest.mark.parametrize("name", ["a", "b"])
def test_all(name): pass

@pytest.mark.sample("walks")
def test_walk_of_a_store(store): pass

@pytest.mark.sample("walks")
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_walk(name): pass
"""


@pytest.fixture
def collect(pytester: pytest.Pytester) -> Collect:
    pytester.makeini("[pytest]\nmarkers =\n    sample: of a matrix\n")
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(test_matrices=MATRICES)

    def run(*options: str) -> list[str]:
        done = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider", *options)
        return [line.partition("::")[2] for line in done.outlines if "::" in line]

    return run


def test_without_a_seed_every_case_runs(collect: Collect) -> None:
    assert len(collect()) == 6 + 4 + 2 + 3 + 4


def test_a_sample_has_one_value_of_an_axis_for_each_other_case(collect: Collect) -> None:
    drawn = collect("--sample=7")
    assert drawn == collect("--sample=7")
    by_store = [name.partition("[")[2] for name in drawn if "each_store" in name]
    assert sorted(name.partition("-")[2] for name in by_store) == ["reset]", "stall]"]
    assert len({name.partition("-")[0] for name in by_store}) == 1, "a module draws one value for all its tests"
    assert len([name for name in drawn if "two_of_four" in name]) == 2
    assert [name for name in drawn if "test_all" in name] == ["test_all[a]", "test_all[b]"]


def test_what_is_asked_for_by_mark_is_sampled_after(collect: Collect) -> None:
    assert len(collect("-m", "sample")) == 6 + 4 + 3 + 4
    assert len(collect("-m", "sample", "--sample=7")) == 2 + 2 + 3


def test_of_a_group_as_many_tests_run_as_it_says_and_one_value_of_an_axis_at_most(collect: Collect) -> None:
    for seed in range(5):
        walks = [name for name in collect(f"--sample={seed}") if "test_walk" in name]
        assert len(walks) == 3
        assert len([name for name in walks if "of_a_store" in name]) <= 1


def test_the_samples_of_many_seeds_are_the_matrix(collect: Collect) -> None:
    assert set().union(*(collect(f"--sample={seed}") for seed in range(30))) == set(collect())
