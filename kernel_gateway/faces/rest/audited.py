"""One record in the audit log for each request of this face, made when it is over, whatever came of it.

Probes and the OpenAPI document are nobody's business and not recorded. A request that is refused before it is
understood is recorded as what its address says; the token it came with never is.
"""

from __future__ import annotations

from typing import Any

from kernel_gateway.client_address import client_address
from kernel_gateway.faces.rest.calls import Accepted
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.services.audit.api_call import CLIENT_GONE, REST, REVOKED, ApiCall
from kernel_gateway.services.audit.parameters import answered, shown
from sandcell.models.shapes import Session

EVENTS = {
    "replays.begin": "StartSession",
    "replays.start": "StartReplay",
    "replays.show": "GetReplay",
    "replays.follow": "FollowReplay",
    "replays.notebook": "GetReplayNotebook",
    "replays.stop": "StopReplay",
    "sessions.index": "ListSessions",
    "sessions.show": "GetSession",
    "sessions.stop": "StopSession",
    "sessions.interrupt": "InterruptSession",
    "sessions.restart": "RestartSession",
    "sessions.execute": "ExecuteCode",
    "sessions.executions": "ListExecutions",
    "sessions.show_execution": "GetExecution",
    "sessions.follow_execution": "FollowExecution",
    "sessions.interrupt_execution": "InterruptExecution",
    "sessions.run_command": "RunCommand",
    "sessions.show_task": "GetTask",
    "sessions.stop_task": "StopTask",
    "sessions.notebook": "GetNotebook",
    "sessions.manifest": "GetManifest",
    "inspection.variables": "ListVariables",
    "inspection.output": "GetOutput",
    "attaching.create": "CreateAttachToken",
    "attaching.index": "ListAttachTokens",
    "attaching.revoke": "RevokeAttachToken",
    "leases.take": "TakeLease",
    "leases.show": "GetLease",
    "leases.give_back": "GiveBackLease",
    "files.index": "ListFiles",
    "files.read": "ReadFile",
    "files.write": "WriteFile",
    "files.remove": "RemoveFile",
    "durable.workspaces": "ListWorkspaces",
    "durable.workspace": "GetWorkspace",
    "durable.remove": "DeleteWorkspace",
    "durable.index_durable": "ListWorkspaceFiles",
    "durable.stat": "GetWorkspaceFile",
    "durable.head_durable": "HeadWorkspaceFile",
    "durable.archive": "ArchiveWorkspace",
    "durable.copy": "CopyWorkspaceFiles",
    "durable.link": "CreateLink",
    "durable.read_durable": "ReadWorkspaceFile",
    "durable.write_durable": "WriteWorkspaceFile",
    "durable.remove_durable": "RemoveWorkspaceFile",
    "datasets.register": "RegisterDataset",
    "datasets.index": "ListDatasets",
    "datasets.show": "GetDataset",
    "datasets.copy": "CopyDataset",
    "datasets.remove": "DeleteDataset",
    "usage.index": "GetUsage",
    "usage.expire": "ExpireWorkspaces",
    "environments.create": "CreateEnvironment",
    "environments.index": "ListEnvironments",
    "environments.show": "GetEnvironment",
    "environments.delete": "DeleteEnvironment",
    "environments.change_tags": "ChangeEnvironmentTags",
    "environments.dependents": "ListDependents",
    "environments.detach": "DetachAgents",
    "environments.attach": "AttachAgents",
    "environments.agents": "ListAgents",
    "environments.show_agent": "GetAgent",
    "environments.put_agent": "PutAgent",
    "environments.delete_agent": "DeleteAgent",
    "tenants.principals": "ListPrincipals",
    "tenants.disable": "DisablePrincipal",
    "tenants.enable": "EnablePrincipal",
    "tenants.set_quota": "SetQuota",
    "tenants.sessions": "ListAnySessions",
    "tenants.session": "GetAnySession",
    "tenants.stop": "StopAnySession",
    "tenants.executions": "ListAnyExecutions",
    "tenants.notebook": "GetAnyNotebook",
    "administration.create_token": "CreateToken",
    "administration.tokens": "ListTokens",
    "administration.rotate_token": "RotateToken",
    "administration.revoke_token": "RevokeToken",
    "administration.create_key": "CreateAccessKey",
    "administration.keys": "ListAccessKeys",
    "administration.revoke_key": "RevokeAccessKey",
    "administration.audit": "LookupEvents",
}
"""The name of each endpoint's records. An endpoint that is not listed is named after itself."""
UNKNOWN = "UnknownRoute"
"""The name of the records of requests that no route takes."""
CUT_OFF = "answer_cut_off"
LONGEST_ID = 128


def event_name(route: Route) -> str:
    """What CloudTrail would call it: a verb and a noun in one word."""
    endpoint = route.endpoint
    known = EVENTS.get(f"{endpoint.__module__.rsplit('.', 1)[-1]}.{endpoint.__name__}")
    return known or "".join(part.capitalize() for part in endpoint.__name__.split("_"))


def record(handler: Any) -> None:
    """Take the record of a handler's request, which is over."""
    request = handler.request
    route = handler.routes.get(request.method)
    if any(each.public for each in handler.routes.values()):
        return
    code, message = _problem(handler)
    handler.services.audit.call(
        ApiCall(
            event_name=event_name(route) if route else UNKNOWN,
            event_source=REST,
            request_id=handler.request_id,
            read_only=request.method in ("GET", "HEAD"),
            principal=handler.call.principal if handler.call.principal.id else None,
            source_ip=client_address(request, handler.services.settings.trusted_proxies),
            user_agent=request.headers.get("User-Agent", ""),
            target=f"{request.method} {request.path}",
            session_id=_session_id(handler),
            request_parameters=_parameters(handler) or None,
            response_elements=None if request.method == "GET" else answered(_value(handler.result)),
            status=handler.get_status(),
            error_code=code,
            error_message=message,
            seconds=request.request_time(),
        )
    )


def _problem(handler: Any) -> tuple[str, str]:
    """Code and message of the error that was answered, or of what kept the answer from arriving whole."""
    if handler.error is not None:
        return handler.error.code, handler.error.message
    if handler.revoked:
        return REVOKED, "the credential was revoked before the answer was whole"
    if handler.gone:
        return CLIENT_GONE, "the client left before it had the whole answer"
    if handler.cut_off:
        return CUT_OFF, f"the answer was cut off: {handler.cut_off}"
    return "", ""


def _parameters(handler: Any) -> dict[str, Any]:
    """From the address, the query and the body; those of a request that is refused early are the address's alone."""
    call = handler.call
    found = shown(getattr(handler, "path_kwargs", {})) | shown(call.query) | shown(call.body)
    if handler.content is not None:
        found["content"] = {"bytes": handler.received, "sha256": handler.content.hexdigest()}
    return found


def _session_id(handler: Any) -> str | None:
    named = getattr(handler, "path_kwargs", {}).get("session_id")
    if named is not None:
        return named if len(named) <= LONGEST_ID and named.isascii() and named.isprintable() else None
    value = _value(handler.result)
    return value.id if isinstance(value, Session) else None


def _value(result: Any) -> Any:
    return result.value if isinstance(result, Accepted) else result
