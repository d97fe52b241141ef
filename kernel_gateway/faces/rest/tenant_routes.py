"""The rows of the table of routes that are about principals and, for administrators, about anybody's sessions."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest import tenants
from kernel_gateway.faces.rest.calls import NOTEBOOK
from kernel_gateway.faces.rest.parameters import AnyObject, OwnedSessionsPage, PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.principal_shapes import Disabled, DisablePrincipal, OwnedSession, PrincipalInfo, SetQuota
from kernel_gateway.shapes import Execution, Page

ADMIN: Final[Errors] = (e.Forbidden,)
ONE: Final[Errors] = (e.Forbidden, e.NotFound)
P: Final = "/v1/principals/{principal}"
S: Final = "/v1/admin/sessions"
S_ONE: Final = "/v1/admin/sessions/{session_id}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET", "/v1/principals", tenants.principals, "List principals", Page[PrincipalInfo], query=PageOf, errors=ADMIN
    ),
    Route(
        "POST",
        f"{P}/disable",
        tenants.disable,
        "Disable a principal: its credentials, open calls, streams, sockets and replays end at once, its sessions too",
        Disabled,
        body=DisablePrincipal,
        errors=(*ONE, e.Conflict),
    ),
    Route("POST", f"{P}/enable", tenants.enable, "Let its credentials count again", PrincipalInfo, errors=ONE),
    Route(
        "PUT",
        f"{P}/quota",
        tenants.set_quota,
        "Say how many live sessions a principal may have",
        PrincipalInfo,
        body=SetQuota,
        errors=ONE,
    ),
    Route(
        "GET",
        S,
        tenants.sessions,
        "List anybody's sessions, newest first (administrators)",
        Page[OwnedSession],
        query=OwnedSessionsPage,
        errors=ADMIN,
    ),
    Route("GET", S_ONE, tenants.session, "Show anybody's session", OwnedSession, errors=ONE),
    Route("DELETE", S_ONE, tenants.stop, "Stop anybody's session", OwnedSession, errors=(*ONE, e.DeadlinePassed)),
    Route(
        "GET",
        f"{S_ONE}/executions",
        tenants.executions,
        "List the executions of anybody's session",
        Page[Execution],
        query=PageOf,
        errors=ONE,
    ),
    Route(
        "GET",
        f"{S_ONE}/notebook",
        tenants.notebook,
        "The `.ipynb` of anybody's session",
        AnyObject,
        media=NOTEBOOK,
        errors=ONE,
    ),
)
