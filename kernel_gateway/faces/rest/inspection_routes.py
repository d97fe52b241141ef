"""The rows of the table of routes that look into a session."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest import inspection
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.inspection_shapes import Variables

ONE: Final = "/v1/sessions/{session_id}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        f"{ONE}/variables",
        inspection.variables,
        "Look at the names that code has defined, also while it runs",
        Variables,
        errors=(e.NotFound, e.SessionTerminated, e.SandboxUnavailable, e.DeadlinePassed),
    ),
)
