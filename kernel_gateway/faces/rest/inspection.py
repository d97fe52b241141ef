"""Endpoints that look into a session: its variables, and its outputs in full. They translate and decide nothing."""

from __future__ import annotations

from functools import partial

from kernel_gateway.faces.rest.calls import OCTETS, Call, Piece
from kernel_gateway.faces.rest.ranges import bounds
from kernel_gateway.inspection_shapes import Variables


async def variables(call: Call) -> Variables:
    return await call.services.inspection.variables(call.principal, call.ids["session_id"])


async def output(call: Call) -> Piece:
    """All of an output, or the range that is asked for; with `If-Range` of another one all of it."""
    digest = call.ids["sha256"]
    wanted = call.headers.get("Range")
    if call.headers.get("If-Range", f'"{digest}"') != f'"{digest}"':
        wanted = None
    found = await call.services.outputs.read(call.principal, call.ids["session_id"], digest, partial(bounds, wanted))
    media_type = found.media_type or OCTETS
    return Piece(found.chunks, found.start, found.end, found.size, digest, media_type, digest)
