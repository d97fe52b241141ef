"""The one table of this face: methods, addresses, the codes of success that clients insist on, names in the audit log.

The socket (`channels`) is beside it: it is no request and answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kernel_gateway.faces.jupyter import kernels, kernelspecs, service, sessions
from kernel_gateway.faces.jupyter.calls import Endpoint
from kernel_gateway.faces.jupyter.requests import Nothing, PutSession, StartKernel

ONE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
KERNEL = rf"/api/kernels/(?P<session_id>{ONE})"
SESSION = rf"/api/sessions/(?P<session_id>{ONE})"
CHANNELS = rf"{KERNEL}/channels"


@dataclass(frozen=True)
class Route:
    """One method at one address, which is a regular expression. `body` is what its body is read as, if it has one."""

    method: str
    pattern: str
    endpoint: Endpoint
    event: str
    status: int = 200
    body: Any = None


TABLE: tuple[Route, ...] = (
    Route("GET", "/api", service.version, "GetVersion"),
    Route("GET", "/api/status", service.status, "GetStatus"),
    Route("GET", "/api/kernelspecs", kernelspecs.index, "ListKernelSpecs"),
    Route("GET", rf"/api/kernelspecs/(?P<kernel_name>{ONE})", kernelspecs.show, "GetKernelSpec"),
    Route("GET", rf"/kernelspecs/(?P<kernel_name>{ONE})/(?P<file>{ONE})", kernelspecs.logo, "GetKernelSpecFile"),
    Route("GET", "/api/kernels", kernels.index, "ListKernels"),
    Route("POST", "/api/kernels", kernels.start, "StartKernel", 201, StartKernel),
    Route("GET", KERNEL, kernels.show, "GetKernel"),
    Route("DELETE", KERNEL, kernels.delete, "DeleteKernel", 204),
    Route("POST", f"{KERNEL}/interrupt", kernels.interrupt, "InterruptKernel", 204, Nothing),
    Route("POST", f"{KERNEL}/restart", kernels.restart, "RestartKernel", 200, Nothing),
    Route("GET", "/api/sessions", sessions.index, "ListJupyterSessions"),
    Route("POST", "/api/sessions", sessions.create, "CreateJupyterSession", 201, PutSession),
    Route("GET", SESSION, sessions.show, "GetJupyterSession"),
    Route("PATCH", SESSION, sessions.change, "ChangeJupyterSession", 200, PutSession),
    Route("DELETE", SESSION, sessions.delete, "DeleteJupyterSession", 204),
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
