"""The one table of this face: every operation of both planes, with its exact method and path. Pure.

Paths are compared as they were received, split at `/` and only then decoded: an ARN is one segment. A client whose
`endpoint_url` has a path puts it before every path, so anything may stand before ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces import scopes
from kernel_gateway.faces.agentcore import interpreters, invoke, requests, sessions
from kernel_gateway.faces.agentcore.calls import Act
from kernel_gateway.faces.errors import MethodNotAllowed, UnknownRoute
from kernel_gateway.faces.json_bodies import refused
from kernel_gateway.identity import sigv4
from kernel_gateway.identity.principal import Scope

TRACE: Final = {"traceId": "x-amzn-trace-id", "traceParent": "traceparent"}
SESSION: Final = "x-amzn-code-interpreter-session-id"
IDLE: Final = "x-sandcell-idle-timeout-seconds"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """`outside` is the type of what stands outside of the body; `headers` says which members are headers.

    `lists` are query parameters that may be repeated. `carries_files`: its body may be as large as a payload.
    `scope`, what a key must be good for, is in `faces.scopes`: an operation that is not there cannot be made.
    """

    name: str
    method: str
    path: str
    act: Act
    outside: type[requests.Members]
    body: type[requests.Members] = requests.Nothing
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    carries_files: bool = False
    scope: Scope = field(init=False, default="admin")

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", scopes.of_agentcore(self.name))

    @property
    def read_only(self) -> bool:
        return self.name.startswith(("Get", "List"))


CI: Final = "/code-interpreters"
SESSIONS: Final = "/code-interpreters/{codeInterpreterIdentifier}/sessions"

TABLE: Final[tuple[Operation, ...]] = (
    Operation(
        "StartCodeInterpreterSession",
        "PUT",
        f"{SESSIONS}/start",
        sessions.start,
        requests.StartAddressed,
        requests.Start,
        headers={**TRACE, "idleTimeoutSeconds": IDLE},
    ),
    Operation("GetCodeInterpreterSession", "GET", f"{SESSIONS}/get", sessions.show, requests.SessionAddressed),
    Operation(
        "ListCodeInterpreterSessions",
        "POST",
        f"{SESSIONS}/list",
        sessions.index,
        requests.Addressed,
        requests.ListSessions,
    ),
    Operation(
        "StopCodeInterpreterSession",
        "PUT",
        f"{SESSIONS}/stop",
        sessions.stop,
        requests.SessionAddressed,
        requests.Stop,
        headers=TRACE,
    ),
    Operation(
        "InvokeCodeInterpreter",
        "POST",
        f"{CI}/{{codeInterpreterIdentifier}}/tools/invoke",
        invoke.invoke,
        requests.SessionAddressed,
        requests.Invoke,
        headers={**TRACE, "sessionId": SESSION},
        carries_files=True,
    ),
    Operation("CreateCodeInterpreter", "PUT", CI, interpreters.create, requests.Nothing, requests.Create, 202),
    Operation("ListCodeInterpreters", "POST", CI, interpreters.index, requests.ListInterpreters),
    Operation("GetCodeInterpreter", "GET", f"{CI}/{{codeInterpreterId}}", interpreters.show, requests.Interpreter),
    Operation(
        "DeleteCodeInterpreter",
        "DELETE",
        f"{CI}/{{codeInterpreterId}}",
        interpreters.delete,
        requests.DeleteInterpreter,
        status=202,
    ),
    Operation(
        "TagResource",
        "POST",
        "/tags/{resourceArn}",
        interpreters.tag,
        requests.Resource,
        requests.TagResource,
        204,
    ),
    Operation(
        "UntagResource",
        "DELETE",
        "/tags/{resourceArn}",
        interpreters.untag,
        requests.UntagResource,
        status=204,
        lists=("tagKeys",),
    ),
    Operation("ListTagsForResource", "GET", "/tags/{resourceArn}", interpreters.tags, requests.Resource),
)


def _template(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


_BY_TEMPLATE: Final[dict[tuple[str, ...], dict[str, Operation]]] = {}
for _each in TABLE:
    _BY_TEMPLATE.setdefault(_template(_each.path), {})[_each.method] = _each
_LONGEST_FIRST: Final = sorted(_BY_TEMPLATE.items(), key=lambda each: -len(each[0]))


def find(method: str, raw_path: str) -> tuple[Operation, dict[str, str]]:
    """The operation at this address and the labels in it; raises UnknownRoute, MethodNotAllowed."""
    methods, labels = at(raw_path)
    if not methods:
        raise UnknownRoute("there is no such operation; docs/reference/agentcore.md lists those there are")
    if method not in methods:
        raise MethodNotAllowed(method[:32], sorted(methods))
    return methods[method], labels


def at(raw_path: str) -> tuple[dict[str, Operation], dict[str, str]]:
    """The operations of an address by their methods, and its labels; none where the path is not in its plainest form.

    A signature covers the path without dot segments and empty ones: one that has them says two things at once.
    """
    segments = raw_path.removeprefix("/").split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return {}, {}
    for template, methods in _LONGEST_FIRST:
        labels = _matched(template, segments[-len(template) :])
        if labels is not None:
            return methods, labels
    return {}, {}


def _matched(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    labels: dict[str, str] = {}
    for wanted, found in zip(template, segments, strict=True):
        parameter = _PARAMETER.fullmatch(wanted)
        if parameter is not None:
            labels[parameter[1]] = unquote(found, errors="replace")
        elif wanted != found:
            return None
    return labels


def outside(operation: Operation, labels: Mapping[str, str], raw_query: str, headers: Mapping[str, str]) -> Any:
    """What stands outside of the body, as the operation's type; raises InvalidRequest."""
    members: dict[str, Any] = _query(operation, raw_query)
    for member, header in operation.headers.items():
        members.pop(member, None)
        if header in headers:
            members[member] = headers[header]
    if "sessionId" in operation.headers and "sessionId" not in members:
        raise InvalidRequest(f"sessionId: start a session, and send its id in the header {SESSION}", field="sessionId")
    try:
        return msgspec.convert({**members, **labels}, operation.outside, strict=False)
    except msgspec.ValidationError as error:
        raise refused(str(error), "the request") from None


def _query(operation: Operation, raw_query: str) -> dict[str, Any]:
    """The parameters of the query, but for those of a presigned address."""
    found: dict[str, Any] = {name: [] for name in operation.lists}
    for raw_name, raw_value in sigv4.parameters(raw_query):
        name, value = raw_name.decode(errors="replace"), raw_value.decode(errors="replace")
        if name in operation.lists:
            found[name].append(value)
        elif name in found:
            raise InvalidRequest(f"{name[:80]!r} is in the query more than once", field=name[:80])
        elif not name.startswith("X-Amz-"):
            found[name] = value
    return found
