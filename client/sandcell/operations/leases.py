"""The client's operations on leases; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from sandcell.models.leases import Lease
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote


def take_lease(session_id: str, *, seconds: float = 600, name: str = "", lease: str | None = None) -> Operation[Lease]:
    """Have a session to yourself for a while; with the id of the `lease` that you hold, for longer."""
    ask = Ask(
        "POST", _lease(session_id), json=omit_none(seconds=seconds, name=name or None), headers=lease_header(lease)
    )
    return decode((yield from exchange(ask)), Lease)


def get_lease(session_id: str) -> Operation[Lease]:
    """Who holds a session, and until when; raises `NotFound` when there is no lease."""
    return decode((yield from exchange(Ask("GET", _lease(session_id)))), Lease)


def give_back_lease(session_id: str) -> Operation[None]:
    """End the lease on a session, if there is one. Never sent twice: the second could end the next holder's."""
    yield from exchange(Ask("DELETE", _lease(session_id)), repeatable=False)


def lease_header(lease: str | None) -> dict[str, str]:
    """The header that names the lease a caller holds."""
    return {} if lease is None else {"Sandcell-Lease": lease}


def _lease(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id)}/lease"
