"""Who is whose child: a snapshot of /proc, and the killing of whole families.

A process group is what its members keep together; a family also has those who left the group by setsid.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable

KILL_DEADLINE_SECONDS = 5.0
ROUND_SECONDS = 0.01


def parents() -> dict[int, int]:
    """Every process that can be seen, dead ones excepted, and its parent."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    fields = stat.read().rpartition(b") ")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def family(roots: Iterable[int], of: dict[int, int]) -> set[int]:
    """The roots and all their descendants (pure)."""
    children: dict[int, list[int]] = {}
    for child, parent in of.items():
        children.setdefault(parent, []).append(child)
    members: set[int] = set()
    waiting = list(roots)
    while waiting:
        member = waiting.pop()
        if member not in members:
            members.add(member)
            waiting.extend(children.get(member, ()))
    return members


def signal_all(pids: Iterable[int], number: int) -> None:
    """Signal each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


async def kill_all(spared: Callable[[], Iterable[int]], reap: Callable[[], None]) -> bool:
    """Kill every process below this one but the families of `spared()`; True when none is left.

    Rounds, since the hunted may fork between look and kill. Half the time over, PID 1 kills all there is in one call
    that no fork escapes, the spared with it.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        victims = _victims(spared())
        if not victims:
            return True
        elapsed = loop.time() - begun
        if elapsed > KILL_DEADLINE_SECONDS:
            return False
        if elapsed > KILL_DEADLINE_SECONDS / 2 and os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        signal_all(victims, signal.SIGKILL)
        reap()
        await asyncio.sleep(ROUND_SECONDS)


def _victims(spared: Iterable[int]) -> set[int]:
    of = parents()
    me = os.getpid()
    return family([me], of) - family(spared, of) - {me}
