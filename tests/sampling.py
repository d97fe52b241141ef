"""Which cases of a large matrix a run takes: `--sample=SEED` draws some of them, without it all of them run.

A test that runs once for each of several real parts (each OCI runtime, each store, each way to a guest) runs with one
of them, for each combination of its other parameters: `AXES` names the fixtures. The tests of a module that have the
same parts draw the same one, so that what they share is set up once. Other tests whose cases cost much carry the mark
`sample(n)`: n of the test's cases.

`make test` draws by the commit, so that a commit always runs the same cases and each commit runs others; `make
test-long` runs every case of every matrix.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterable

import pytest

AXES = frozenset({"runtime_name", "runtime", "store", "proxy_of_each", "server", "on_guest"})
"""Parameters whose values are real parts that must all do the same."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--sample", metavar="SEED", help="run a sample of the tests marked `sample`, drawn by this seed")


def header(config: pytest.Config) -> str:
    seed = config.getoption("--sample")
    return f"sample: drawn by seed {seed}" if seed else "sample: every case (a seed draws some: --sample=SEED)"


def mark_matrices(items: Iterable[pytest.Item]) -> None:
    """Mark what has an axis; before pytest deselects by mark, so that `-m sample` finds it."""
    for item in items:
        if AXES & _parameters(item).keys() and item.get_closest_marker("sample") is None:
            item.add_marker(pytest.mark.sample(1))


def draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that were not drawn."""
    seed = config.getoption("--sample")
    if not seed:
        return
    matrices: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample"):
            matrices[_matrix(item)].append(item)
    left_out: set[pytest.Item] = set()
    for cases in matrices.values():
        mark = cases[0].get_closest_marker("sample")
        assert mark is not None
        test = cases[0].nodeid
        drawn_for = test.partition("::")[0] if AXES & _parameters(cases[0]).keys() else test
        drawn = random.Random(f"{seed} {drawn_for}").sample(cases, min(mark.args[0], len(cases)))
        left_out.update(set(cases) - set(drawn))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def _matrix(item: pytest.Item) -> Hashable:
    """What the case is one of: all cases of its test or, where it has an axis, those that differ in that alone."""
    test = item.nodeid.partition("[")[0]
    parameters = _parameters(item)
    if not AXES & parameters.keys():
        return test
    # The cases of a test share their values: identity tells them apart also where they have neither hash nor name.
    return test, frozenset((name, id(value)) for name, value in parameters.items() if name not in AXES)


def _parameters(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}
