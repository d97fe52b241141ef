"""The rows of the table of routes that look into a session."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest import inspection
from kernel_gateway.faces.rest.calls import OCTETS
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.inspection_shapes import Variables
from kernel_gateway.services.outputs import MEDIA_TYPES

ONE: Final = "/v1/sessions/{session_id}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        f"{ONE}/variables",
        inspection.variables,
        "Look at the names that code has defined, also while it runs",
        Variables,
        errors=(e.NotFound, e.SessionTerminated, e.SandboxUnavailable, e.WorkspaceRestoring, e.DeadlinePassed),
    ),
    Route(
        "GET",
        f"{ONE}/outputs/{{sha256}}",
        inspection.output,
        "Read an output in full of which a cell has a part; `Range` is heeded (206)",
        media=OCTETS,
        more_media=tuple(MEDIA_TYPES.values()),
        headers={"Range": "one range of bytes, as `bytes=0-999`, `bytes=1000-` or `bytes=-1000`"},
        errors=(e.NotFound, r.RangeNotSatisfiable, e.StoreUnavailable, e.DeadlinePassed),
    ),
)
