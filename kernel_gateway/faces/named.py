"""What a request is for, as far as it says so itself: in its address, its headers or, for a few, a short body.

Pure. `forwarding` looks up where that is.
"""

from __future__ import annotations

import re
import uuid
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec
from tornado.httputil import HTTPHeaders, HTTPServerRequest

from kernel_gateway.errors import NotFound
from kernel_gateway.faces.agentcore.operations import SESSION
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.e2b.identifiers import SANDBOX_HEADER, TEMPLATES, parse_sandbox_id, parse_snapshot
from kernel_gateway.faces.librechat.identifiers import parse_id
from kernel_gateway.faces.mcp.handler import PATH as MCP_PATH
from kernel_gateway.faces.mcp.handler import SESSION_HEADER as MCP_SESSION
from kernel_gateway.faces.receiving import read_length
from kernel_gateway.faces.signs import SIGNED_PATH

_ADDRESSES: Final = (
    (re.compile(r"/v1/(?:admin/)?sessions/([^/]+)"), "session"),
    (re.compile(r"/v1/workspaces/([^/]+)"), "workspace"),
    (re.compile(r"/v1/replays/([^/]+)"), "replay"),
    (re.compile(r"/api/(?:kernels|sessions)/([^/]+)"), "session"),
    (re.compile(r"(?:/v2)?/sandboxes/([^/]+)"), "sandbox"),
    (re.compile(r"/librechat/v1/(?:files|sessions|download)/([^/]+)"), "storage"),
    (re.compile(r"/v1(?:beta1)?/.*/sandboxEnvironment(?:Snapshot)?s/([0-9]{1,19})(?![0-9])"), "agent engine"),
    (re.compile(r"/templates/([^/]+)$"), "template"),
)
_IN_BODIES: Final = {
    "/v1/sessions": "session",
    "/v1/notebooks/replay": "session",
    "/librechat/v1/exec": "storage",
    "/sandboxes": "",
    "/v2/sandboxes": "",
}
"""Where a body may name what the request is for, and what its `session_id` is."""
_SANDBOXES: Final = re.compile(r"/v1(?:beta1)?/.*/sandboxEnvironments")
"""The same of Agent Engine's clients."""
_SNAPSHOT: Final = re.compile(r"projects/.*/sandboxEnvironmentSnapshots/([0-9]{1,19})")
_CONVERSATION: Final = re.compile(r"([0-9a-f]{32})\.")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Named(msgspec.Struct, frozen=True):
    """What a request is for: a session, a workspace, a sandbox of Agent Engine, what one gateway has in memory.

    Of a signed address, a conversation and a template only `Signs` says which session or workspace they are.
    """

    kind: str
    name: str


def find_named(path: str, query: str, headers: HTTPHeaders) -> Named | None:
    """What a request is for, if it says so outside of its body."""
    for pattern, kind in _ADDRESSES:
        found = pattern.match(path)
        if found is not None:
            return _read(kind, unquote(found[1]).partition(":")[0])
    if "/code-interpreters/" in path or SESSION in headers:
        return _read("sandbox", headers.get(SESSION) or next(iter(parse_qs(query).get("sessionId", [])), ""))
    if path == MCP_PATH and (conversation := _CONVERSATION.match(headers.get(MCP_SESSION, ""))):
        return Named("gateway", conversation[1])
    if SANDBOX_HEADER in headers:
        return _read("sandbox", headers[SANDBOX_HEADER])
    return Named("signature", query) if path == SIGNED_PATH and "signature=" in query else None


class _From(msgspec.Struct):
    session: str = ""


class _Body(msgspec.Struct):
    """What bodies name: the first counts."""

    workspace_id: str | None = None
    replay_of: str | None = None
    from_: _From | None = msgspec.field(default=None, name="from")
    continue_session: str | None = None
    session_id: str | None = None
    inputs: str | None = None
    runtime_session_hint: str | None = None
    template_id: str | None = msgspec.field(default=None, name="templateID")
    snapshot: str | None = msgspec.field(default=None, name="sandboxEnvironmentSnapshot")


def may_name(request: HTTPServerRequest) -> bool:
    """Whether a request's body may name what it is for, and is short enough to be looked at before it is passed on."""
    headers = request.headers
    if request.method != "POST" or not (request.path in _IN_BODIES or _SANDBOXES.fullmatch(request.path)):
        return False
    short = is_chunked(headers) or 0 < read_length(headers.get("Content-Length", "")) <= SMALL_BODY
    return short and "Expect" not in headers


def is_chunked(headers: HTTPHeaders) -> bool:
    """Whether a body comes in pieces, as `fetch` in JavaScript sends one: how long it is shows when it is over."""
    return headers.get("Transfer-Encoding", "").lower() == "chunked" and "Content-Length" not in headers


def find_in_body(path: str, body: bytes) -> Named | None:
    """What a request is for by its body; None for one that makes no sense, which a face says."""
    try:
        found = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if found.runtime_session_hint:
        return Named("conversation", found.runtime_session_hint)
    if path not in _IN_BODIES:
        snapshot = _SNAPSHOT.fullmatch(found.snapshot or "")
        return None if snapshot is None else Named("agent engine", snapshot[1])
    if not _IN_BODIES[path]:
        return _read_template(found.template_id or "")
    forked = found.from_.session if found.from_ is not None else None
    for kind, name in (
        ("workspace", found.workspace_id),
        ("session", found.replay_of),
        ("session", forked),
        ("session", found.continue_session),
        (_IN_BODIES[path], found.session_id),
        ("workspace", found.inputs),
    ):
        if name:
            return _read(kind, name)
    return None


def _read_template(text: str) -> Named | None:
    """A snapshot by its id, or what may be the name of one."""
    name = parse_snapshot(text)
    return None if not name or name in TEMPLATES else Named("template", name)


def _read(kind: str, text: str) -> Named | None:
    if kind == "template":
        return _read_template(text)
    if not _NAME.fullmatch(text):
        return None
    try:
        if kind == "sandbox":
            return Named("session", parse_sandbox_id(text))
        if kind == "storage":
            return Named("workspace", parse_id(text))
        return Named(kind, text if kind == "agent engine" else str(uuid.UUID(text)))
    except (NotFound, ValueError):  # a face says so, to who may hear it
        return None
