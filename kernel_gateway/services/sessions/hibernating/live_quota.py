"""How many sessions there may be: asked in the transaction that makes one more, so that no two get the last place."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from kernel_gateway.errors import QuotaReached, SessionLimit, Unauthorized
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.mirroring.carried_variables import CarriedVariables
from kernel_gateway.settings import Settings
from kernel_gateway.storage import hibernations, principals, sessions
from kernel_gateway.storage.locks import hold

RETRY_SECONDS: Final = 10.0
MEGABYTE: Final = 1 << 20
T = TypeVar("T")


async def wait_for_place(take: Callable[[], Awaitable[T]], dead: DeadSandboxes, seconds: float) -> T:
    """What `take` gives, which raises SessionLimit; a place that a session has just left is waited for.

    `take` holds nothing while this waits.
    """
    give_up = time.monotonic() + seconds
    while True:
        try:
            return await take()
        except SessionLimit as error:
            left = give_up - time.monotonic()
            if not error.removal_helps or left <= 0 or not await dead.wait_for_one(error.removal_of, left):
                raise


def require_place(connection: Connection, settings: Settings, principal_id: str, dead: DeadSandboxes) -> None:
    """For one more session with a sandbox; those of ended sessions count too.

    Raises SessionLimit, which says whether a removal under way makes the difference, and Unauthorized.
    """
    hold(connection, "live sessions")
    most = settings.live_sessions
    disabled, quota = principals.standing(connection, principal_id)
    if disabled:  # since this call was let in
        raise Unauthorized
    own = quota or settings.own_sessions
    live, own_live = sessions.count_places(connection, principal_id)
    all_taken = f"{most:,} sessions are live, which is the most"
    own_taken = f"{own:,} of your sessions are live, which is the most that one principal may have: stop one first"
    # Live sessions alone first: where these are too many no removal helps, and nobody waits for one.
    if live >= most:
        raise SessionLimit(all_taken, retry_after_seconds=RETRY_SECONDS)
    if own < most and own_live >= own:
        raise SessionLimit(own_taken, retry_after_seconds=RETRY_SECONDS)
    if own < most and own_live + dead.count(principal_id) >= own:
        raise _until_removed(own_taken, principal_id)
    if live + dead.count() >= most:
        raise _until_removed(all_taken, None)


def _until_removed(message: str, principal_id: str | None) -> SessionLimit:
    error = SessionLimit(message, retry_after_seconds=RETRY_SECONDS)
    error.removal_helps, error.removal_of = True, principal_id
    return error


def require_hibernated_place(
    connection: Connection, settings: Settings, carried: CarriedVariables, principal_id: str, size: int
) -> None:
    """For one more hibernated session that takes so many bytes of store and disk; raises QuotaReached."""
    hold(connection, "hibernated sessions", principal_id)
    most, most_bytes = settings.hibernated_sessions, settings.hibernated_mb * MEGABYTE
    if sessions.count_live(connection, principal_id, status="HIBERNATED") >= most:
        raise QuotaReached(
            f"{most:,} of your sessions are hibernated, which is the most (hibernated_sessions): use or stop one",
            quota=most,
        )
    taken, brought = hibernations.sum_bytes(connection, principal_id), carried.sum_bytes(connection, principal_id)
    if taken + brought + size > most_bytes:
        beside = f", and what was kept of lost sandboxes {brought:,}" if brought else ""
        raise QuotaReached(
            f"your hibernated sessions take {taken:,} bytes{beside}, and this one takes {size:,}; {most_bytes:,} is the"
            " most (hibernated_mb): use or stop one of them",
            quota=most_bytes,
        )
