"""A principal with a sandbox, and requests as E2B's clients send them."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import httpx

from kernel_gateway.faces.e2b.identifiers import format_key
from tests.running_service import RunningService


@dataclass(frozen=True)
class Owner:
    """A principal's key and one sandbox of theirs, reached with `headers`."""

    http: httpx.Client
    key: str
    token_id: str
    sandbox: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.sandbox["sandboxID"])

    @property
    def token(self) -> str:
        return str(self.sandbox["envdAccessToken"])

    @property
    def headers(self) -> dict[str, str]:
        return {"E2b-Sandbox-Id": self.id, "X-Access-Token": self.token}

    def control(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, path, headers={"X-API-Key": self.key}, **more)

    def data(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        return self.http.request(method, path, headers={**self.headers, **(headers or {})}, **more)

    def run(self, code: str, **more: Any) -> list[dict[str, Any]]:
        answer = self.data("POST", "/execute", json={"code": code, **more})
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def stream(self, verb: str, **message: Any) -> AbstractContextManager[httpx.Response]:
        """The answer to a remote procedure on processes that streams."""
        content = json.dumps(message).encode()
        headers = {**self.headers, "Content-Type": "application/connect+json"}
        body = struct.pack(">BI", 0, len(content)) + content
        return self.http.stream("POST", f"/process.Process/{verb}", content=body, headers=headers)

    def start(self, *command: str, until_start: bool = False, **more: Any) -> list[dict[str, Any]]:
        """The messages that are streamed of a process, to its end or only to its start; or the refusal."""
        with self.stream("Start", process={"cmd": command[0], "args": command[1:]}, **more) as answer:
            if answer.status_code != 200:
                return [json.loads(answer.read())]
            return list(unwrap(next(answer.iter_raw()) if until_start else answer.read()))


def make_owner(service: RunningService, http: httpx.Client, **body: Any) -> Owner:
    with service.client() as admin:
        token = admin.create_token(f"e2b-{uuid.uuid4()}")
    key = format_key(token.token or "")
    answer = http.post("/v2/sandboxes", json={"templateID": "base", **body}, headers={"X-API-Key": key})
    assert answer.status_code == 201, answer.text
    return Owner(http, key, token.id, answer.json())


def unwrap(content: bytes) -> Iterator[dict[str, Any]]:
    """The messages of a stream, its end among them."""
    while content:
        size = 5 + struct.unpack_from(">BI", content)[1]
        yield json.loads(content[5:size])
        content = content[size:]
