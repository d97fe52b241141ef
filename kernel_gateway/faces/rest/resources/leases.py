"""Leases: a session for one caller alone, for a while. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.leases import Lease, TakeLease

LEASE_HEADER: Final = "Sandcell-Lease"
HOLDS: Final = {LEASE_HEADER: "the id of the lease that the caller holds"}
"""The header of every route that a lease opens to its holder, as the OpenAPI document says it."""


async def take_lease(call: Call) -> Lease:
    held = call.headers.get(LEASE_HEADER)
    return await call.services.leases.take(call.principal, call.ids["session_id"], call.body, held)


async def get_lease(call: Call) -> Lease:
    return await call.services.leases.show(call.principal, call.ids["session_id"])


async def release_lease(call: Call) -> None:
    await call.services.leases.give_back(call.principal, call.ids["session_id"])


LEASE: Final = "/v1/sessions/{session_id}/lease"
LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        LEASE,
        take_lease,
        name="takeLease",
        event="TakeLease",
        summary="Have a session to yourself for a while, or, with the lease's id, for longer",
        result=Lease,
        body=TakeLease,
        headers=HOLDS,
        errors=(*LIVE, e.SessionBusy, e.ShuttingDown),
    ),
    Route(
        "GET",
        LEASE,
        get_lease,
        name="getLease",
        event="GetLease",
        summary="Show who holds a session, and until when",
        result=Lease,
        errors=LIVE,
    ),
    Route(
        "DELETE",
        LEASE,
        release_lease,
        name="releaseLease",
        event="GiveBackLease",
        summary="End the lease on a session",
        status=204,
        errors=LIVE,
    ),
)
