"""The one table of this face: every operation of both planes, with its exact method and path. Pure.

Paths are compared as they were received, split at `/` and only then decoded: an ARN is one segment. A client whose
`endpoint_url` has a path puts it before every path, so anything may stand before ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces import routing, scopes
from kernel_gateway.faces.agentcore import interpreters, invoke, requests, sessions
from kernel_gateway.faces.agentcore.calls import Call
from kernel_gateway.faces.errors import UnknownRoute
from kernel_gateway.faces.json_bodies import describe_refusal
from kernel_gateway.faces.routing import Address, RouteTree
from kernel_gateway.identity import sigv4
from sandcell.models.credentials import Scope

TRACE: Final = {"traceId": "x-amzn-trace-id", "traceParent": "traceparent"}
SESSION: Final = "x-amzn-code-interpreter-session-id"
IDLE: Final = "x-sandcell-idle-timeout-seconds"


@dataclass(frozen=True)
class Operation(routing.Route[Call]):
    """One operation of the model; its name is the event's in the audit log too.

    `outside` is the type of what stands outside of the body; `headers` says which members are headers. `lists` are
    query parameters that may be repeated. `carries_files`: its body may be as large as a payload.
    """

    _: KW_ONLY
    outside: type[requests.Members]
    body: type[requests.Members] = requests.Nothing
    headers: Mapping[str, str] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    carries_files: bool = False

    def find_scope(self) -> Scope:
        return scopes.find_agentcore_scope(self.name)

    @property
    def read_only(self) -> bool:
        """By its name: lists are POST here."""
        return self.name.startswith(("Get", "List"))


CI: Final = "/code-interpreters"
SESSIONS: Final = "/code-interpreters/{codeInterpreterIdentifier}/sessions"

TABLE: Final[tuple[Operation, ...]] = (
    Operation(
        "PUT",
        f"{SESSIONS}/start",
        sessions.start_session,
        name="StartCodeInterpreterSession",
        outside=requests.StartAddressed,
        body=requests.Start,
        headers={**TRACE, "idleTimeoutSeconds": IDLE},
    ),
    Operation(
        "GET",
        f"{SESSIONS}/get",
        sessions.get_session,
        name="GetCodeInterpreterSession",
        outside=requests.SessionAddressed,
    ),
    Operation(
        "POST",
        f"{SESSIONS}/list",
        sessions.list_sessions,
        name="ListCodeInterpreterSessions",
        outside=requests.Addressed,
        body=requests.ListSessions,
    ),
    Operation(
        "PUT",
        f"{SESSIONS}/stop",
        sessions.stop_session,
        name="StopCodeInterpreterSession",
        outside=requests.SessionAddressed,
        body=requests.Stop,
        headers=TRACE,
    ),
    Operation(
        "POST",
        f"{CI}/{{codeInterpreterIdentifier}}/tools/invoke",
        invoke.invoke,
        name="InvokeCodeInterpreter",
        outside=requests.SessionAddressed,
        body=requests.Invoke,
        headers={**TRACE, "sessionId": SESSION},
        carries_files=True,
    ),
    Operation(
        "PUT",
        CI,
        interpreters.create_interpreter,
        name="CreateCodeInterpreter",
        outside=requests.Nothing,
        body=requests.Create,
        status=202,
    ),
    Operation(
        "POST",
        CI,
        interpreters.list_interpreters,
        name="ListCodeInterpreters",
        outside=requests.ListInterpreters,
    ),
    Operation(
        "GET",
        f"{CI}/{{codeInterpreterId}}",
        interpreters.get_interpreter,
        name="GetCodeInterpreter",
        outside=requests.Interpreter,
    ),
    Operation(
        "DELETE",
        f"{CI}/{{codeInterpreterId}}",
        interpreters.delete_interpreter,
        name="DeleteCodeInterpreter",
        outside=requests.DeleteInterpreter,
        status=202,
    ),
    Operation(
        "POST",
        "/tags/{resourceArn}",
        interpreters.tag_resource,
        name="TagResource",
        outside=requests.Resource,
        body=requests.TagResource,
        status=204,
    ),
    Operation(
        "DELETE",
        "/tags/{resourceArn}",
        interpreters.untag_resource,
        name="UntagResource",
        outside=requests.UntagResource,
        status=204,
        lists=("tagKeys",),
    ),
    Operation(
        "GET",
        "/tags/{resourceArn}",
        interpreters.list_tags,
        name="ListTagsForResource",
        outside=requests.Resource,
    ),
)


def decode_label(segment: str) -> str:
    return unquote(segment, errors="replace")


ADDRESSES: Final = RouteTree(TABLE, decode=decode_label, anywhere=True)


def find_address(raw_path: str) -> Address[Operation]:
    """The operations of an address, and its labels; none where the path is not in its plainest form.

    A signature covers the path without dot segments and empty ones: one that has them says two things at once.
    """
    if any(segment in ("", ".", "..") for segment in raw_path.removeprefix("/").split("/")):
        return Address()
    return ADDRESSES.find(raw_path)


def require(address: Address[Operation], method: str) -> Operation:
    """The operation at this address; raises UnknownRoute, MethodNotAllowed."""
    if not address.routes:
        raise UnknownRoute("there is no such operation; docs/reference/agentcore.md lists those there are")
    return address.require(method)


def read_outside(operation: Operation, labels: Mapping[str, str], raw_query: str, headers: Mapping[str, str]) -> Any:
    """What stands outside of the body, as the operation's type; raises InvalidRequest."""
    members: dict[str, Any] = _read_query(operation, raw_query)
    for member, header in operation.headers.items():
        members.pop(member, None)
        if header in headers:
            members[member] = headers[header]
    if "sessionId" in operation.headers and "sessionId" not in members:
        raise InvalidRequest(f"sessionId: start a session, and send its id in the header {SESSION}", field="sessionId")
    try:
        return msgspec.convert({**members, **labels}, operation.outside, strict=False)
    except msgspec.ValidationError as error:
        raise describe_refusal(str(error), "the request") from None


def _read_query(operation: Operation, raw_query: str) -> dict[str, Any]:
    """The parameters of the query, but for those of a presigned address."""
    found: dict[str, Any] = {name: [] for name in operation.lists}
    for raw_name, raw_value in sigv4.parse_parameters(raw_query):
        name, value = raw_name.decode(errors="replace"), raw_value.decode(errors="replace")
        if name in operation.lists:
            found[name].append(value)
        elif name in found:
            raise InvalidRequest(f"{name[:80]!r} is in the query more than once", field=name[:80])
        elif not name.startswith("X-Amz-"):
            found[name] = value
    return found
