"""Looks into a session: variables, completions, names, outputs in full. Endpoints translate and decide nothing."""

from __future__ import annotations

from functools import partial
from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.ranges import parse_range
from kernel_gateway.faces.rest.responses import OCTETS, answer_output
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.services.executions.outputs import MEDIA_TYPES
from sandcell.models.inspection import (
    CompletionRequest,
    Completions,
    InspectedName,
    InspectionRequest,
    RowsRequest,
    TableRows,
    Variables,
)


async def list_variables(call: Call) -> Variables:
    return await call.services.inspection.variables(call.principal, call.ids["session_id"])


async def list_completions(call: Call) -> Completions:
    return await call.services.inspection.complete(call.principal, call.ids["session_id"], call.body)


async def inspect_name(call: Call) -> InspectedName:
    return await call.services.inspection.inspect(call.principal, call.ids["session_id"], call.body)


async def list_rows(call: Call) -> TableRows:
    return await call.services.inspection.rows(call.principal, call.ids["session_id"], call.body)


async def get_output(call: Call) -> Response:
    """All of an output, or the range that is asked for; with `If-Range` of another one all of it."""
    digest = call.ids["sha256"]
    wanted = call.headers.get("Range")
    if call.headers.get("If-Range", f'"{digest}"') != f'"{digest}"':
        wanted = None
    found = await call.services.outputs.read(
        call.principal, call.ids["session_id"], digest, partial(parse_range, wanted)
    )
    media_type = found.media_type or OCTETS
    return answer_output(found.chunks, found.start, found.end, found.size, tag=digest, media_type=media_type)


LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable, e.WorkspaceRestoring, e.DeadlinePassed)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/sessions/{session_id}/variables",
        list_variables,
        name="listVariables",
        event="ListVariables",
        summary="Look at the names that code has defined, also while it runs",
        result=Variables,
        errors=LIVE,
    ),
    Route(
        "POST",
        "/v1/sessions/{session_id}/completions",
        list_completions,
        name="listCompletions",
        event="ListCompletions",
        summary="Complete code as the kernel does at TAB; 409 while code runs",
        result=Completions,
        body=CompletionRequest,
        looks=True,
        errors=(*LIVE, e.SessionBusy),
    ),
    Route(
        "POST",
        "/v1/sessions/{session_id}/inspections",
        inspect_name,
        name="getInspection",
        event="GetInspection",
        summary="What the kernel knows of a name in code: signature, help, source; 409 while code runs",
        result=InspectedName,
        body=InspectionRequest,
        looks=True,
        errors=(*LIVE, e.SessionBusy),
    ),
    Route(
        "POST",
        "/v1/sessions/{session_id}/rows",
        list_rows,
        name="listRows",
        event="ListRows",
        summary="Rows of a table under a name, what is in its columns, or any value as a whole; 409 while code runs",
        result=TableRows,
        body=RowsRequest,
        looks=True,
        errors=(*LIVE, e.SessionBusy),
    ),
    Route(
        "GET",
        "/v1/sessions/{session_id}/outputs/{sha256}",
        get_output,
        name="getOutput",
        event="GetOutput",
        summary="Read an output in full of which a cell has a part; `Range` is heeded (206)",
        media=OCTETS,
        more_media=tuple(MEDIA_TYPES.values()),
        headers={"Range": "one range of bytes, as `bytes=0-999`, `bytes=1000-` or `bytes=-1000`"},
        errors=(e.NotFound, r.RangeNotSatisfiable, e.StoreUnavailable, e.DeadlinePassed),
    ),
)
