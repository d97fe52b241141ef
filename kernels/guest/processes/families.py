"""Who is whose child: a snapshot of /proc, and the killing of whole families.

A family is a process, its session and all their descendants: those who left the process group belong to it too.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable

KILL_DEADLINE_SECONDS = 15.0
"""What was killed needs the processor to end, and there may be hundreds of it."""
AT_ANY_PRICE_SECONDS = 2.5
ROUND_SECONDS = 0.01
SETTLE_SECONDS = 0.25
"""More than the control group keeps a process waiting for its next share of the processor, in a fork as elsewhere."""


class Kin:
    """The parent and the session of a process."""

    def __init__(self, parent: int, session: int) -> None:
        self.parent = parent
        self.session = session


def snapshot() -> dict[int, Kin]:
    """Every process that can be seen, dead ones excepted."""
    found: dict[int, Kin] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, parent, _, session = stat.read().rpartition(b") ")[2].split()[:4]
            except OSError:
                continue
            if state not in (b"Z", b"X"):
                found[int(name)] = Kin(int(parent), int(session))
    return found


def family(heads: Iterable[int], all_kin: dict[int, Kin]) -> set[int]:
    """The heads, the members of the sessions they lead, and all descendants of these (pure)."""
    children: dict[int, list[int]] = {}
    for pid, kin in all_kin.items():
        children.setdefault(kin.parent, []).append(pid)
        if kin.session != pid:
            children.setdefault(kin.session, []).append(pid)
    members: set[int] = set()
    waiting = list(heads)
    while waiting:
        member = waiting.pop()
        if member not in members:
            members.add(member)
            waiting.extend(children.get(member, ()))
    return members & all_kin.keys()


def parents_first(members: set[int], all_kin: dict[int, Kin]) -> list[int]:
    """The members in an order in which each comes after its parent, if that is one of them (pure)."""
    children: dict[int, list[int]] = {}
    for pid in members:
        children.setdefault(all_kin[pid].parent, []).append(pid)
    ordered = [pid for pid in members if all_kin[pid].parent not in members]
    for pid in ordered:  # it grows meanwhile
        ordered.extend(children.get(pid, ()))
    return [*ordered, *members.difference(ordered)]


def signal_family(head: int, number: int) -> set[int]:
    """Signal a process and its family, which is returned; parents before their children.

    A shell that saw its child die of the signal before its own came would go on with its next line, or exit with a
    code in the place of dying of the signal.
    """
    all_kin = snapshot()
    members = family([head], all_kin)
    signal_all(parents_first(members, all_kin), number)
    return members


def signal_all(pids: Iterable[int], number: int) -> None:
    """Signal each that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


async def kill_all(
    spared: Callable[[], Iterable[int]],
    reap: Callable[[], None],
    *,
    seconds: float = KILL_DEADLINE_SECONDS,
    at_any_price: bool = True,
) -> bool:
    """Kill every process below this one but the families of `spared()`; True when none is left.

    In rounds, since the hunted may fork between look and kill. When that does not end soon they are stopped, so that
    they keep the places that others would fork into, and killed once no new one has appeared for a while. After
    `AT_ANY_PRICE_SECONDS` PID 1 kills all there is in one call, the spared with it, if that price may be paid.
    """
    loop = asyncio.get_running_loop()
    begun = settled = loop.time()
    stopped: set[int] = set()
    while True:
        victims = _victims(spared())
        if not victims:
            reap()
            return True
        now = loop.time()
        if now - begun > seconds:
            return False
        if at_any_price and now - begun > AT_ANY_PRICE_SECONDS and os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        if not victims <= stopped:
            settled = now + SETTLE_SECONDS
        if now < begun + SETTLE_SECONDS or now > settled:
            signal_all(victims, signal.SIGKILL)
        else:
            signal_all(victims - stopped, signal.SIGSTOP)
            stopped |= victims
        reap()
        await asyncio.sleep(ROUND_SECONDS)


def _victims(spared: Iterable[int]) -> set[int]:
    all_kin = snapshot()
    me = os.getpid()
    return family([me], all_kin) - family(spared, all_kin) - {me}
