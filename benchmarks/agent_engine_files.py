"""100 MB into a sandbox by one request of Agent Engine's client, and out of it by one answer: how long each takes."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from pathlib import Path

from benchmarks.doors import DOORS, DoorClient, find_interpreter, start_client
from tests.running_service import RunningService

DOOR = "Agent Engine"


def run(service: RunningService, environments_dir: Path, *, rounds: int = 5) -> str:
    """`rounds` of both, in one sandbox."""
    name, place = DOORS[DOOR]
    found = sorted(environments_dir.parent.glob(place))
    if not found:
        return f"no client is there for {DOOR}"
    with ExitStack() as stack:
        client = stack.enter_context(start_client(find_interpreter(DOOR, found[0]), name, service))
        created = client.ask("create")
        taken, given = _ask(client, "take", rounds), _ask(client, "give", rounds)
    return f"create {created * 1000:.0f} ms; 100 MB in {_say(taken)}, 100 MB out {_say(given)}"


def _ask(client: DoorClient, command: str, rounds: int) -> list[float]:
    return [client.ask(command) for _ in range(rounds)]


def _say(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"
