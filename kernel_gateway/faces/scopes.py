"""The one table of what a credential must be good for, route by route of every face. Pure.

A route that no row names cannot be served: the faces ask here when they are imported, and that raises. `read` looks,
`run` changes and runs what is the caller's own, `admin` is for administrators, `metrics` for who scrapes figures; what
else a call needs (whose session it is, an administrator's rights) is the services' to say. What is open to all needs no
scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kernel_gateway.errors import ScopeMissing
from kernel_gateway.identity.principal import Caller
from sandcell.models.credentials import Scope

Table = Mapping[Scope, tuple[str, ...]]
S: Final = "/v1/sessions/{session_id}"
G: Final = f"{S}/programs/{{program_id}}"
W: Final = "/v1/workspaces/{workspace_id}"
E: Final = "/v1/environments/{environment_id}"
D: Final = f"{W}/datasets/{{name}}"
L: Final = "/v1/admin/sessions/{session_id}"
P: Final = "/v1/principals/{principal}"

OPEN: Final = ("GET /v1/openapi.json", "GET /healthz", "GET /readyz")
"""Routes of the REST face that need no credential."""
OPEN_CONSOLE: Final = (
    *(
        "GetConsole",
        "GetConsoleFrame",
        "GetConsolePdfFrame",
        "GetConsoleProseFrame",
        "GetConsolePlotlyFrame",
        "GetConsoleVegaFrame",
        "GetConsoleParquetFrame",
        "GetConsoleWidgetsFrame",
        "GetConsoleAsset",
        "LookAtConsoleLink",
        "SignIn",
        "SignOut",
    ),
    *("GetIdentityProvider", "BeginSignIn"),
)
"""The same of the console's face."""

REST: Final[Table] = {
    "read": (
        *("GET /v1/sessions", f"GET {S}", f"GET {S}/events"),
        *(f"GET {S}/executions", f"GET {S}/executions/{{execution_id}}"),
        *(f"GET {S}/executions/{{execution_id}}/events", f"GET {S}/tasks/{{task_id}}"),
        *(f"GET {S}/programs", f"GET {G}"),
        *(f"GET {S}/files", f"GET {S}/files/{{path}}", f"GET {S}/notebook", f"GET {S}/notebook/manifest"),
        *(f"GET {owner}/uploads{rest}" for owner in (S, W) for rest in ("", "/{upload_id}")),
        *(f"GET {S}/attach-tokens", f"GET {S}/variables", f"GET {S}/outputs/{{sha256}}", f"GET {S}/lease"),
        *(f"GET {S}/notes", f"GET {S}/checkpoints", f"GET {S}/checkpoints/{{checkpoint_id}}"),
        f"GET {S}/checkpoints/{{checkpoint_id}}/files/{{path}}",
        *("GET /v1/replays/{replay_id}", "GET /v1/replays/{replay_id}/events", "GET /v1/replays/{replay_id}/notebook"),
        *("GET /v1/workspaces", f"GET {W}", f"GET {W}/files", f"GET {W}/stat", f"GET {W}/archive"),
        *(f"GET {W}/files/{{path}}", f"HEAD {W}/files/{{path}}", f"GET {W}/datasets", f"GET {D}"),
        *("GET /v1/environments", f"GET {E}", f"GET {E}/dependents", f"GET {E}/packages"),
        *("GET /v1/agents", "GET /v1/agents/{agent_id}"),
        *("GET /v1/images", "GET /v1/images/{image_id}", "GET /v1/images/{image_id}/sbom"),
        *("GET /v1/usage", "GET /v1/audit", "POST /v1/console/links"),
    ),
    "run": (
        *("POST /v1/sessions", f"DELETE {S}", f"POST {S}/interrupt", f"POST {S}/restart", f"POST {S}/executions"),
        *(f"POST {S}/hibernate", f"POST {S}/resume"),
        *(f"POST {S}/undo", f"POST {S}/checkpoints", f"DELETE {S}/checkpoints/{{checkpoint_id}}"),
        *(f"POST {S}/executions/{{execution_id}}/{verb}" for verb in ("interrupt", "widgets")),
        *(f"POST {S}/commands", f"DELETE {S}/tasks/{{task_id}}"),
        # To follow one is `run` too: it keeps the program, and with it the session, from ending.
        *(f"POST {S}/programs", f"GET {G}/events"),
        *(f"POST {G}/{verb}" for verb in ("input", "size", "signal")),
        *(f"PUT {S}/files/{{path}}", f"DELETE {S}/files/{{path}}"),
        *(f"POST {owner}/uploads{rest}" for owner in (S, W) for rest in ("", "/{upload_id}/complete")),
        *(f"{method} {owner}/uploads/{{upload_id}}" for owner in (S, W) for method in ("PATCH", "DELETE")),
        *(f"POST {S}/attach-tokens", f"DELETE {S}/attach-tokens/{{token_id}}", f"POST {S}/lease", f"DELETE {S}/lease"),
        # They look, and to look may run code of the session's (a property, `__dir__`): no `read` may do that.
        *(f"POST {S}/completions", f"POST {S}/inspections", f"POST {S}/rows"),
        *("POST /v1/notebooks/replay", "DELETE /v1/replays/{replay_id}"),
        *(f"DELETE {W}", f"PUT {W}/files/{{path}}", f"DELETE {W}/files/{{path}}", f"POST {W}/copy", f"POST {W}/links"),
        *(f"POST {W}/datasets", f"POST {D}/copy", f"DELETE {D}"),
        *("POST /v1/environments", f"DELETE {E}", f"POST {E}/tags", f"POST {E}/detach", f"POST {E}/attach"),
        *("PUT /v1/agents/{agent_id}", "DELETE /v1/agents/{agent_id}"),
    ),
    "admin": (
        *("POST /v1/tokens", "GET /v1/tokens", "DELETE /v1/tokens/{token_id}", "POST /v1/tokens/{token_id}/rotate"),
        *("POST /v1/audit/verification", "GET /v1/audit/verification"),
        *("POST /v1/keys", "GET /v1/keys", "DELETE /v1/keys/{key_id}", "POST /v1/retention"),
        *("GET /v1/doctor", "GET /v1/principals", f"POST {P}/disable", f"POST {P}/enable", f"PUT {P}/quota"),
        *("GET /v1/admin/sessions", f"GET {L}", f"DELETE {L}", f"GET {L}/executions", f"GET {L}/notebook"),
    ),
    "metrics": ("GET /metrics",),
}
JUPYTER: Final[Table] = {
    "read": (
        *("GetVersion", "GetStatus", "ListKernelSpecs", "GetKernelSpec", "GetKernelSpecFile"),
        *("ListKernels", "GetKernel", "ListJupyterSessions", "GetJupyterSession"),
    ),
    "run": (
        *("StartKernel", "DeleteKernel", "InterruptKernel", "RestartKernel", "OpenChannels"),
        *("CreateJupyterSession", "ChangeJupyterSession", "DeleteJupyterSession"),
    ),
}
AGENTCORE: Final[Table] = {
    "read": (
        *("GetCodeInterpreterSession", "ListCodeInterpreterSessions"),
        *("ListCodeInterpreters", "GetCodeInterpreter", "ListTagsForResource"),
    ),
    "run": (
        *("StartCodeInterpreterSession", "StopCodeInterpreterSession", "InvokeCodeInterpreter"),
        *("CreateCodeInterpreter", "DeleteCodeInterpreter", "TagResource", "UntagResource"),
    ),
}
MCP: Final[Table] = {
    "read": (
        *("initialize", "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read"),
        "notifications/initialized",
    ),
    "run": ("tools/call", "notifications/cancelled", "DELETE"),
}
"""By a message's method; what is no method of these does nothing, and needs what looking needs."""
AGENT_ENGINE: Final[Table] = {
    "read": (
        *("ListReasoningEngines", "GetReasoningEngine", "GetReasoningEngineOperation"),
        *("ListSandboxEnvironments", "GetSandboxEnvironment", "GetSandboxEnvironmentOperation"),
        *("ListSandboxEnvironmentSnapshots", "GetSandboxEnvironmentSnapshot", "GetSandboxEnvironmentSnapshotOperation"),
        *("ListSandboxEnvironmentTemplates", "GetSandboxEnvironmentTemplate", "GetSandboxEnvironmentTemplateOperation"),
    ),
    "run": (
        *("CreateReasoningEngine", "DeleteReasoningEngine"),
        *("CreateSandboxEnvironment", "DeleteSandboxEnvironment", "ExecuteSandboxEnvironment"),
        *("PauseSandboxEnvironment", "ResumeSandboxEnvironment", "SnapshotSandboxEnvironment"),
        "DeleteSandboxEnvironmentSnapshot",
        *("CreateSandboxEnvironmentTemplate", "DeleteSandboxEnvironmentTemplate"),
    ),
}
E2B: Final[Table] = {
    "read": (
        *("GetSandbox", "ListSandboxes", "ListSandboxesV2", "GetSandboxMetrics", "ListSnapshots"),
        *("ListContexts", "GetHealth", "GetVariables", "DownloadFile", "StatFile", "ListDirectory", "ListPrograms"),
        *("WatchDirectory", "GetWatcherEvents"),
    ),
    "run": (
        *("CreateSandbox", "CreateSandboxV2", "ConnectSandbox", "ConnectSandboxV2", "ResumeSandbox", "KillSandbox"),
        *("SetSandboxTimeout", "RefreshSandbox", "RunCode", "CreateContext", "RestartContext", "RemoveContext"),
        *("UploadFile", "MakeDirectory", "MoveFile", "RemoveFile", "StartProgram", "FollowProgram", "SendInput"),
        *("StreamInput", "CloseInput", "SignalProgram", "ResizeTerminal"),
        *("PauseSandbox", "SnapshotSandbox", "DeleteSnapshot", "ForkSandbox", "ChangeNetwork"),
        *("CreateWatcher", "RemoveWatcher"),
    ),
}
LIBRECHAT: Final[Table] = {
    "read": ("ListFiles", "StatFile", "DownloadFile"),
    "run": ("ExecuteCode", "ExecuteProgrammatic", "UploadFile", "UploadFiles", "DeleteFile"),
}

CONSOLE: Final[Table] = {"read": ("GetSignIn", "LookAtPrincipal")}


def find_rest_scope(method: str, path: str) -> Scope | None:
    """The scope that a route of the REST face needs; None for one that is open to all."""
    route = f"{method} {path}"
    return None if route in OPEN else _find(REST, route)


def find_jupyter_scope(event: str) -> Scope:
    """The scope that a route of the Jupyter face needs, by its name in the audit log."""
    return _find(JUPYTER, event)


def find_agentcore_scope(operation: str) -> Scope:
    """The scope that an operation of the AgentCore face needs."""
    return _find(AGENTCORE, operation)


def find_mcp_scope(method: str) -> Scope:
    """The scope that a message to the MCP face needs."""
    return "run" if method in MCP["run"] else "read"


def find_agent_engine_scope(operation: str) -> Scope:
    """The scope that an operation of the Agent Engine face needs."""
    return _find(AGENT_ENGINE, operation)


def find_e2b_scope(operation: str) -> Scope:
    """The scope that an operation of the E2B face needs."""
    return _find(E2B, operation)


def find_librechat_scope(operation: str) -> Scope:
    """The scope that an operation of the LibreChat face needs."""
    return _find(LIBRECHAT, operation)


def find_console_scope(operation: str) -> Scope | None:
    """The scope that an operation of the console's face needs; None for one that is open to all."""
    return None if operation in OPEN_CONSOLE else _find(CONSOLE, operation)


def require(caller: Caller, needed: Scope | None) -> None:
    """Raises ScopeMissing; None, the scope of a route that is open to all, is everybody's."""
    if needed is not None and not caller.may(needed):
        raise ScopeMissing(
            f"this needs a credential with the scope {needed}, and this one has {caller.scope}",
            scope=caller.scope,
            needed=needed,
        )


def _find(table: Table, route: str) -> Scope:
    found = [scope for scope, routes in table.items() if route in routes]
    if len(found) != 1:
        raise LookupError(f"{route} is in faces/scopes.py {len(found)} times, and every route is there once")
    return found[0]
