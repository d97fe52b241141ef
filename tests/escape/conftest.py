"""Services, one per runtime; the host's and the neighbour's bait; sessions in first, reused and claimed positions.

A claimed position is a sandbox of a warm pool, of a service of its own.

A session is shared by the attempts of one family: they run each in a process of its own. Tests are ordered so that a
position's first session is destroyed before its second one is made.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandcell.models.environments import PoolInfo
from tests.escape import traces
from tests.escape.attempt import RUNTIMES, Family
from tests.escape.bucket import Bucket, bucket
from tests.escape.families import NAMES
from tests.escape.indexes import Indexes, indexes
from tests.escape.position import Position
from tests.escape.unharmed import Host, Limits, Neighbour, groups_of
from tests.running_service import RunningService


@dataclass(frozen=True)
class Place:
    """Where a family's attempts are made: under a runtime, in a `first`, a `reused` or a `claimed` position."""

    runtime: str
    family: Family = field(hash=False)  # a place without a hash would not be known again: a session for each attempt
    turn: str

    def __str__(self) -> str:
        return f"{self.runtime}-{self.family.name}-{self.turn}"


@dataclass(frozen=True)
class Yard:
    """One service with all that attempts may harm. `left` is what the first session of each family was: mark, uids."""

    runtime: str
    service: RunningService
    host: Host
    neighbour: Neighbour
    role: Bucket
    index: Indexes
    left: dict[str, tuple[str, set[int]]]


@dataclass(frozen=True)
class Stand:
    """A position with its yard, and the traces of a predecessor that its session found at its start."""

    position: Position
    yard: Yard
    limits: Limits
    found: list[str]

    def unharmed(self) -> None:
        """Assert that all is as it was around the position."""
        self.yard.host.unharmed()
        self.yard.neighbour.unharmed()
        self.limits.unharmed()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the attempts of one place in a row, places in the order of their list."""
    found = [index for index, item in enumerate(items) if _place(item)]
    for index, item in zip(found, sorted((items[index] for index in found), key=_rank), strict=True):
        items[index] = item


def _place(item: pytest.Item) -> Place | None:
    callspec = getattr(item, "callspec", None)
    place = callspec.params.get("stand") if callspec else None
    return place if isinstance(place, Place) else None


def _rank(item: pytest.Item) -> tuple[int, int, str]:
    place = _place(item)
    assert place is not None
    return RUNTIMES.index(place.runtime), list(NAMES).index(place.family.name), place.turn


@pytest.fixture(scope="session")
def yards(
    make_shared_service: Callable[..., RunningService], environments_dir: Path
) -> Iterator[Callable[[str, bool], Yard]]:
    """Opens the yard of a runtime, once; and one in which every environment has a warm pool."""
    opened: dict[str, Yard] = {}
    bait = Path(tempfile.mkdtemp(prefix="bait", dir="/tmp"))
    # Directories and uids of our own: no other run on this host takes a position between two sessions.
    run_dir = Path(f"/run/sce{os.getpid()}")

    serving = ExitStack()
    role = serving.enter_context(bucket(bait / "bucket"))
    index = serving.enter_context(indexes())
    with role.environments_file.open("a") as file:
        file.write(f'\n[public]\nimage = "python"\nnetwork = "PUBLIC"\n{index.environments}')

    warm_file = bait / "warm.toml"
    declared = re.sub(r"^\[\w+\]$", r"\g<0>\nwarm = 1", role.environments_file.read_text(), flags=re.MULTILINE)
    warm_file.write_text(f"{declared}\n[python]\nwarm = 1\n")

    def open_yard(runtime: str, warm: bool) -> Yard:
        name = f"{runtime}-warm" if warm else runtime
        if name not in opened:
            # Pools have three of them, and what an ended session had is free only once it has been removed.
            ranges = 16 if warm else 8
            place = os.getpid() % 450 * 2 * ranges + RUNTIMES.index(runtime) * ranges
            first_uid = 2_000_000_000 + (place + warm * 900 * 8) * 65_536
            service = make_shared_service(
                None,
                role.variables,
                environments_file=warm_file if warm else role.environments_file,
                runtime=runtime,
                run_dir=run_dir / name,
                uid_base=first_uid,
                uid_ranges=ranges,
                invocations_per_second=1000,
                memory_guard_percent=0,  # attempts are to reach the limit itself: the guard is a kindness, no boundary
            )
            directory = bait / name
            directory.mkdir()
            host = Host(directory, service, environments_dir)
            opened[name] = Yard(runtime, service, host, Neighbour(service), role, index, {})
        return opened[name]

    yield open_yard
    for yard in opened.values():
        yard.neighbour.close()
        yard.service.stop()
        yard.host.close()
    serving.close()
    shutil.rmtree(run_dir, ignore_errors=True)
    shutil.rmtree(bait)


@pytest.fixture(scope="module")
def stand(request: pytest.FixtureRequest, yards: Callable[[str, bool], Yard]) -> Iterator[Stand]:
    """A session of a family at a place; a first one leaves its mark everywhere before it is destroyed."""
    place: Place = request.param
    yard = yards(place.runtime, place.turn == "claimed")
    if place.turn == "claimed":
        before = _wait_for_pool(yard, place.family)
    if place.turn == "reused" and place.family.name not in yard.left:
        _precede(yard, place.family)
    mark, places = yard.left.pop(place.family.name) if place.turn == "reused" else ("", set())
    position = _enter(yard, place.family, mark)
    begun = position.uid_base
    assert place.turn != "claimed" or _count_hits(yard, place.family) == before + 1
    try:
        found = position.traces_of(mark) if mark else []
        assert not mark or begun in places, "the second session took the place of the first"
        yield Stand(position, yard, Limits(groups_of(position.session.id)), found)
        if place.turn == "first":
            _leave(yard, place.family, position, begun)
    finally:
        position.close()


def _enter(yard: Yard, family: Family, predecessor: str) -> Position:
    position = Position(yard.service, yard.runtime, family, predecessor=predecessor)
    position.known = {
        "host": yard.host.known(),
        "neighbour": yard.neighbour.known(),
        "role": yard.role.known(),
        "index": yard.index.known(),
    }
    return position


def _wait_for_pool(yard: Yard, family: Family) -> int:
    """Wait for a sandbox that is ready; how many sessions got one so far."""
    give_up = time.monotonic() + 300
    while not _show_pool(yard, family).ready:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    return _count_hits(yard, family)


def _count_hits(yard: Yard, family: Family) -> int:
    return _show_pool(yard, family).hits


def _show_pool(yard: Yard, family: Family) -> PoolInfo:
    with yard.service.client() as client:
        pool = client.get_environment(str(family.session.get("environment", "python"))).pool
    assert pool is not None
    return pool


def _leave(yard: Yard, family: Family, position: Position, begun: int) -> None:
    """Mark all that can be marked, and see that a search finds it. The session may have moved since it began."""
    assert position.leave_traces() == traces.KINDS
    yard.left[family.name] = (position.mark, {begun, position.uid_base})


def _precede(yard: Yard, family: Family) -> None:
    """Have a predecessor when only the reused position was asked for: it leaves its mark and makes no attempt."""
    position = _enter(yard, family, "")
    try:
        _leave(yard, family, position, position.uid_base)
    finally:
        position.close()
