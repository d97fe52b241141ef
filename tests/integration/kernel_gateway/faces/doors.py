"""Every way into the service, made from the tables that the faces route by: a new route is in here by itself.

A door has the smallest request that makes sense there, so that what refuses it is who asks and not what is asked. Where
a request can name something of somebody's, it does: `{...}` stands for what `ids` holds.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from kernel_gateway.faces import scopes
from kernel_gateway.faces.agent_engine.table import TABLE as AGENT_ENGINE_TABLE
from kernel_gateway.faces.agentcore import operations
from kernel_gateway.faces.agentcore.requests import SessionAddressed
from kernel_gateway.faces.e2b import routes as e2b
from kernel_gateway.faces.e2b.identifiers import SANDBOX_HEADER
from kernel_gateway.faces.jupyter import routes as jupyter
from kernel_gateway.faces.librechat import routes as librechat
from kernel_gateway.faces.mcp.handler import PATH as MCP_PATH
from kernel_gateway.faces.mcp.handler import SESSION_HEADER
from kernel_gateway.faces.rest.table import TABLE

REST, AGENTCORE, AGENT_ENGINE, E2B, JUPYTER, MCP = "rest", "agentcore", "agent_engine", "e2b", "jupyter", "mcp"
LIBRECHAT = "librechat"
CELL = {"cell_type": "code", "metadata": {}, "source": "1", "outputs": [], "execution_count": None}
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [CELL]}
BODIES: dict[str, Any] = {
    "StartSession": {"workspace_id": "{workspace_id}"},
    "WidgetMove": {"model_id": "model", "state": {"value": 1}},
    "Submission": {"code": "1"},
    "CommandRequest": {"command": "true"},
    "StartProgram": {"command": ["true"]},
    "SignalProgram": {"signal": "SIGINT"},
    "CompletionRequest": {"code": "1"},
    "InspectionRequest": {"code": "1"},
    "RowsRequest": {"name": "x"},
    "ReplayRequest": {"session_id": "{session_id}"},
    "CreateEnvironment": {"name": "mine", "image": "absent"},
    "PutAgent": {"environment": "{environment_id}"},
    "AttachAgents": {"detached_from": "{environment_id}"},
    "CopyFiles": {"to": "{workspace_id}", "to_path": "below"},
    "CreateLink": {"path": "file"},
    "RegisterDataset": {"name": "data", "path": "file"},
    "CopyDataset": {"to": "{workspace_id}"},
    "CreateToken": {"principal": "admin"},
    "CreateKey": {"principal": "admin"},
    "Invoke": {"name": "listFiles", "arguments": {}},
    "Create": {"name": "mine", "networkConfiguration": {"networkMode": "SANDBOX"}},
    "TagResource": {"tags": {"a": "b"}},
    "Execute": {"inputs": [{"data": "eyJjb2RlIjogIjEifQ==", "mimeType": "application/json"}]},
    "Timeout": {"timeout": 60},
    "RunCode": {"code": "1"},
    "Path": {"path": "/workspace"},
    "Watch": {"path": "/workspace"},
    "Watcher": {"watcherId": "{watcher_id}"},
    "Move": {"source": "/workspace/file", "destination": "/workspace/moved"},
    "Start": {"process": {"cmd": "/bin/true"}},
    "Selected": {"process": {"pid": 1}},
    "SendInput": {"process": {"pid": 1}, "input": {}},
    "SendSignal": {"process": {"pid": 1}, "signal": "SIGNAL_SIGTERM"},
    "Update": {"process": {"pid": 1}},
    "ExecuteCode": {"lang": "bash", "code": "true", "session_id": "{storage_id}"},
    "PutSession": {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"id": "{session_id}"}},
}
"""By the type that a body is read as; one that is not here may be empty."""
MESSAGES: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "door", "version": "1"}},
    "tools/call": {"name": "run_python", "arguments": {"code": "1"}},
    "resources/read": {"uri": "sandcell://sessions/{session_id}/notebook"},
    "notifications/cancelled": {"requestId": 1},
}
"""The parameters of messages of MCP; those of one that is not here are empty."""
QUERIES = {
    "statWorkspaceFile": "path=file",
    "createSessionUpload": "path=file",
    "createWorkspaceUpload": "path=file",
    "UntagResource": "tagKeys=a",
    "DownloadFile": "path=/workspace/file",
}
NAMED = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Door:
    """One method at one address; of MCP one message. `changes`: it is more than a look. `public`: it is for all."""

    face: str
    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    public: bool = False
    changes: bool = True
    follows: bool = False
    message: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.message}".rstrip()

    @property
    def names_something(self) -> bool:
        """Whether the request names something that is somebody's."""
        return bool(NAMED.search(self.path + self.query + self.body + "".join(self.headers.values())))

    def address(self, ids: Mapping[str, str]) -> str:
        """The path and query of a request that names these things."""
        path = NAMED.sub(lambda match: quote(ids[match[1]], safe=""), self.path)
        return path + ("?" + NAMED.sub(lambda match: quote(ids[match[1]], safe=""), self.query) if self.query else "")

    def content(self, ids: Mapping[str, str]) -> bytes:
        return NAMED.sub(lambda match: ids[match[1]], self.body).encode()

    def sent_headers(self, ids: Mapping[str, str]) -> dict[str, str]:
        found = {name: NAMED.sub(lambda match: ids[match[1]], value) for name, value in self.headers.items()}
        return found | ({"Content-Type": "application/json"} if self.body else {})


def body_of(kind: Any) -> str:
    """The smallest body of a type; fails for one that needs something and is not in `BODIES`."""
    if kind is None:
        return ""
    body = BODIES.get(kind.__name__, {})
    if kind.__name__ not in BODIES:
        msgspec.convert({}, kind)  # say in BODIES what a body of this type has at least
    return json.dumps(body)


def every_door() -> list[Door]:
    """All of every face, in the order of their tables."""
    return [*_rest(), *_agentcore(), *_agent_engine(), *_e2b(), *_jupyter(), *_librechat(), *_mcp()]


def _rest() -> list[Door]:
    return [
        Door(
            REST,
            route.method,
            route.path.replace("{image_id}", "python"),  # the host's, and so everybody's to look at
            query=QUERIES.get(route.name, ""),
            body="x" if route.uploads else body_of(route.body),
            public=route.public,
            changes=route.method not in ("GET", "HEAD"),
            follows=route.media == "text/event-stream",
        )
        for route in TABLE
    ]


def _agentcore() -> list[Door]:
    doors = []
    for each in operations.TABLE:
        in_header = "sessionId" in each.headers
        of_session = issubclass(each.outside, SessionAddressed)
        doors.append(
            Door(
                AGENTCORE,
                each.method,
                each.path,
                query="sessionId={shown_session_id}" if of_session and not in_header else QUERIES.get(each.name, ""),
                headers={operations.SESSION: "{shown_session_id}"} if in_header else {},
                body=body_of(each.body) if each.method in ("POST", "PUT") else "",
                changes=not each.read_only,
            )
        )
    return doors


def _agent_engine() -> list[Door]:
    """Project and location are the caller's to choose: they name nothing of anybody's."""
    return [
        Door(
            AGENT_ENGINE,
            each.method,
            each.path.replace("{project}", "some").replace("{location}", "where"),
            body=body_of(each.body),
            changes=each.method != "GET",
        )
        for each in AGENT_ENGINE_TABLE
    ]


def _e2b() -> list[Door]:
    """All but the control plane name the sandbox in a header."""
    return [
        Door(
            E2B,
            each.method,
            each.path.replace("{sandbox_id}", "{shown_session_id}"),
            query=QUERIES.get(each.name, ""),
            headers={} if each.plane == "control" else {SANDBOX_HEADER: "{shown_session_id}"},
            body=_wrap(body_of(each.body)) if each.enveloped else body_of(each.body),
            changes=each.scope != "read",
            follows=each.streams,
        )
        for each in e2b.TABLE
    ]


def _wrap(message: str) -> str:
    """One message of a stream; of this size its head is text."""
    return struct.pack(">BI", 0, len(message)).decode() + message


def _jupyter() -> list[Door]:
    return [
        Door(JUPYTER, each.method, each.path, body=body_of(each.body), changes=each.method != "GET")
        for each in (*jupyter.TABLE, jupyter.CHANNELS)
    ]


def _librechat() -> list[Door]:
    return [
        Door(
            LIBRECHAT,
            each.method,
            each.path,
            body=body_of(each.body),
            changes=each.scope != "read",
        )
        for each in librechat.TABLE
    ]


def _mcp() -> list[Door]:
    """A message of each method, and the end of a session; all in the session of the owner but that which begins one."""
    return [
        Door(
            MCP,
            "DELETE" if method == "DELETE" else "POST",
            MCP_PATH,
            headers={} if method == "initialize" else {SESSION_HEADER: "{mcp_session}"},
            body="" if method == "DELETE" else _make_message(method),
            changes=scope != "read",
            message=method,
        )
        for scope, methods in scopes.MCP.items()
        for method in methods
    ]


def _make_message(method: str) -> str:
    message = {"jsonrpc": "2.0", "method": method, "params": MESSAGES.get(method, {})}
    return json.dumps(message if method.startswith("notifications/") else message | {"id": 1})
