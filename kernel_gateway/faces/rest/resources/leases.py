"""Endpoints of leases, and the rows of the table of routes for them. They translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.route import Route
from sandcell.models.leases import Lease, TakeLease

LEASE: Final = "/v1/sessions/{session_id}/lease"
LEASE_HEADER: Final = "Sandcell-Lease"
HOLDS: Final = {LEASE_HEADER: "the id of the lease that the caller holds"}


async def take(call: Call) -> Lease:
    held = call.headers.get(LEASE_HEADER)
    return await call.services.leases.take(call.principal, call.ids["session_id"], call.body, held)


async def show(call: Call) -> Lease:
    return await call.services.leases.show(call.principal, call.ids["session_id"])


async def give_back(call: Call) -> None:
    await call.services.leases.give_back(call.principal, call.ids["session_id"])


LIVE: Final = (e.NotFound, e.SessionTerminated)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        LEASE,
        take,
        "Have a session to yourself for a while, or, with the lease's id, for longer",
        Lease,
        body=TakeLease,
        headers=HOLDS,
        errors=(*LIVE, e.SessionBusy, e.ShuttingDown),
    ),
    Route("GET", LEASE, show, "Show who holds a session, and until when", Lease, errors=LIVE),
    Route("DELETE", LEASE, give_back, "End the lease on a session", status=204, errors=LIVE),
)
