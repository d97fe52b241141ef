"""The one table of this face: methods, addresses, the codes of success that clients insist on, names in the audit log.

The socket (`channels`) is beside it: it is no request and answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kernel_gateway.faces import scopes
from kernel_gateway.faces.jupyter import kernels, kernelspecs, service, sessions
from kernel_gateway.faces.jupyter.calls import Endpoint
from kernel_gateway.faces.jupyter.requests import Nothing, PutSession, StartKernel
from sandcell.models.scopes import Scope

ONE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
KERNEL = rf"/api/kernels/(?P<session_id>{ONE})"
SESSION = rf"/api/sessions/(?P<session_id>{ONE})"
CHANNELS = rf"{KERNEL}/channels"
SPEC = rf"/api/kernelspecs/(?P<kernel_name>{ONE})"
FILE = rf"/kernelspecs/(?P<kernel_name>{ONE})/(?P<file>{ONE})"
PARAMETER = re.compile(r"\(\?P<(?:\w+_)?(\w+)>" + re.escape(ONE) + r"\)")


@dataclass(frozen=True)
class Route:
    """One method at one address, which is a regular expression. `body` is what its body is read as, if it has one.

    `scope`, what a credential must be good for, is in `faces.scopes`: a route that is not there cannot be made.
    """

    method: str
    pattern: str
    endpoint: Endpoint
    event: str
    summary: str
    status: int = 200
    body: Any = None
    scope: Scope = field(init=False, default="admin")

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", scopes.of_jupyter(self.event))


OPEN_CHANNELS = "OpenChannels"
CHANNELS_SCOPE = scopes.of_jupyter(OPEN_CHANNELS)
"""What a credential must be good for that opens the socket."""
TABLE: tuple[Route, ...] = (
    Route("GET", "/api", service.version, "GetVersion", "The version of the service"),
    Route("GET", "/api/status", service.status, "GetStatus", "How many kernels and connections there are"),
    Route("GET", "/api/kernelspecs", kernelspecs.index, "ListKernelSpecs", "Your environments as kernelspecs"),
    Route("GET", SPEC, kernelspecs.show, "GetKernelSpec", "One of them"),
    Route("GET", FILE, kernelspecs.logo, "GetKernelSpecFile", "A logo"),
    Route("GET", "/api/kernels", kernels.index, "ListKernels", "Your live sessions as kernels"),
    Route("POST", "/api/kernels", kernels.start, "StartKernel", "Start a session; its owner's alone", 201, StartKernel),
    Route("GET", KERNEL, kernels.show, "GetKernel", "One kernel; `dead`, with why, when its session ended by itself"),
    Route("DELETE", KERNEL, kernels.delete, "DeleteKernel", "End the session; with an attach token nothing", 204),
    Route("POST", f"{KERNEL}/interrupt", kernels.interrupt, "InterruptKernel", "Interrupt what runs", 204, Nothing),
    Route(
        "POST",
        f"{KERNEL}/restart",
        kernels.restart,
        "RestartKernel",
        "Start a blank kernel; an attach token needs the right `restart`",
        200,
        Nothing,
    ),
    Route("GET", "/api/sessions", sessions.index, "ListJupyterSessions", "The same as sessions, which VS Code lists"),
    Route(
        "POST",
        "/api/sessions",
        sessions.create,
        "CreateJupyterSession",
        "For a live kernel, by its id, or for a new one, which is its owner's alone",
        201,
        PutSession,
    ),
    Route("GET", SESSION, sessions.show, "GetJupyterSession", "One session"),
    Route(
        "PATCH",
        SESSION,
        sessions.change,
        "ChangeJupyterSession",
        "Another title, or go to another kernel",
        200,
        PutSession,
    ),
    Route("DELETE", SESSION, sessions.delete, "DeleteJupyterSession", "As of its kernel", 204),
)
PATTERNS = {route.pattern: re.compile(route.pattern) for route in TABLE}


def at(path: str) -> tuple[dict[str, Route], dict[str, str]]:
    """The routes of an address by method, and the parameters in it."""
    path = path.rstrip("/") or "/"
    found: dict[str, Route] = {}
    ids: dict[str, str] = {}
    for route in TABLE:
        match = PATTERNS[route.pattern].fullmatch(path)
        if match is not None:
            found[route.method] = route
            ids = match.groupdict()
    return found, ids


def documented() -> list[tuple[str, str, str, str]]:
    """Method, address, success and summary of every route and of the socket, for the docs."""
    rows = [(each.method, _address(each.pattern), str(each.status), each.summary) for each in TABLE]
    return [*rows, ("GET", _address(CHANNELS), "101", "The WebSocket: shell, iopub, stdin and control")]


def _address(pattern: str) -> str:
    return PARAMETER.sub(r"{\1}", pattern)
