"""Which cases of a large matrix a run takes: `--sample=SEED` draws some of them, without it all of them run.

A test that runs once for each of several real parts (each OCI runtime, each store, each way to a guest) runs with one
of them, for each combination of its other parameters: `AXES` names the fixtures. The tests of a module that have the
same parts draw the same one, so that what they share is set up once. Other tests whose cases cost much carry the mark
`sample(n)`: n of the test's cases. Tests that are dear and have much of their way in common, wherever they are, carry
`sample(group)`: `GROUPS` says how many of a group run. Properties that Hypothesis tries run all, with fewer examples.

`make test` draws by the commit, so that a commit always runs the same cases and each commit runs others; `make
test-long` runs every case of every matrix.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterable

import pytest
from hypothesis import is_hypothesis_test

AXES = frozenset({"runtime_name", "runtime", "store", "proxy_of_each", "server", "on_guest"})
"""Parameters whose values are real parts that must all do the same."""

GROUPS = {
    "kills": 4,  # a service, a launcher, a gateway or a store ends or is away, and what was acknowledged comes true
    "clients": 2,  # other people's clients and tools, each in an environment that is installed for it
    "doors": 3,  # a door or a command of a service with settings of its own, or that is started again
    "pools": 3,  # a warm pool of its own, which is filled and claimed from
    "packages": 2,  # pip, uv or apt install into sandboxes and images
    "again under gVisor": 270,  # of `make escape`: attempts in a place where they were just made in another session
    "sandboxed": 3,  # the life of one sandbox and its kernel, below the service
    "images": 1,  # a session under gVisor that hibernates with its processes
    "pages": 3,  # the console and shown files in Chromium
    "properties": 10_000,  # all of them: `make test` draws 20 examples for each that does not say how many it needs
}
"""How many tests of each group `make test` draws: most start services, sandboxes or a browser of their own."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--sample", metavar="SEED", help="run a sample of the tests marked `sample`, drawn by this seed")


def header(config: pytest.Config) -> str:
    seed = config.getoption("--sample")
    return f"sample: drawn by seed {seed}" if seed else "sample: every case (a seed draws some: --sample=SEED)"


def mark_matrices(items: Iterable[pytest.Item]) -> None:
    """Mark what has an axis; before pytest deselects by mark, so that `-m sample` finds it."""
    for item in items:
        if AXES & _parameters(item).keys() and _cases(item) is None:
            item.add_marker(pytest.mark.sample(1))
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.sample("properties"))


def draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that were not drawn."""
    seed = config.getoption("--sample")
    if not seed:
        return
    matrices: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if _cases(item) is not None:
            matrices[_matrix(item)].append(item)
    left_out: set[pytest.Item] = set()
    for cases in matrices.values():
        wanted = _cases(cases[0])
        assert wanted is not None
        test = cases[0].nodeid
        drawn_for = test.partition("::")[0] if AXES & _parameters(cases[0]).keys() else test
        left_out.update(_leave_out(cases, wanted, f"{seed} {drawn_for}"))
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item not in left_out and (group := _group(item)) is not None:
            groups[group].append(item)
    for group, tests in groups.items():
        left_out.update(_leave_out(tests, GROUPS[group], f"{seed} {group}"))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def _leave_out(items: list[pytest.Item], wanted: int, seed: str) -> set[pytest.Item]:
    return set(items) - set(random.Random(seed).sample(items, min(wanted, len(items))))


def _cases(item: pytest.Item) -> int | None:
    """How many cases of the item's matrix run; None for one that is in none."""
    return next((mark.args[0] for mark in item.iter_markers("sample") if isinstance(mark.args[0], int)), None)


def _group(item: pytest.Item) -> str | None:
    return next((mark.args[0] for mark in item.iter_markers("sample") if isinstance(mark.args[0], str)), None)


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
