"""The face by hand: requests as Google's specification has them, and what executions answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.running_service import RunningService

PLACE = "/v1beta1/projects/some/locations/where"


def connect(service: RunningService, token: str | None = None) -> httpx.Client:
    """A client with a token, as an API key."""
    return httpx.Client(base_url=service.url, headers={"x-goog-api-key": token or service.token}, timeout=300)


def chunk(content: bytes, name: str | None = None) -> dict[str, Any]:
    """An input: a file by its name, or code."""
    data = base64.b64encode(content).decode()
    if name is None:
        return {"mimeType": "application/json", "data": data}
    attributes = {"file_name": base64.b64encode(name.encode()).decode()}
    return {"data": data, "metadata": {"attributes": attributes}}


@dataclass
class Said:
    """What an execution printed, and its files."""

    out: str
    err: str
    files: dict[str, bytes]


def read_outputs(answer: httpx.Response) -> Said:
    assert answer.status_code == 200, answer.text
    first, *rest = answer.json()["outputs"]
    assert set(first) == {"mimeType", "data"}
    said = json.loads(base64.b64decode(first["data"]))
    files = {
        base64.b64decode(each["metadata"]["attributes"]["file_name"]).decode(): base64.b64decode(each["data"])
        for each in rest
    }
    return Said(said["msg_out"], said["msg_err"], files)


@dataclass
class Google:
    """One engine of one caller, with one sandbox."""

    http: httpx.Client
    engine: str
    sandbox: str

    @classmethod
    def make(cls, http: httpx.Client) -> Google:
        engine = done(http.post(f"{PLACE}/reasoningEngines"))["response"]["name"]
        sandbox = done(http.post(f"/v1beta1/{engine}/sandboxEnvironments", json={"displayName": "one"}))
        return cls(http, engine, sandbox["response"]["name"])

    def run(self, code: str, files: Mapping[str, bytes] | None = None) -> Said:
        inputs = [chunk(json.dumps({"code": code}).encode())]
        inputs += [chunk(content, name) for name, content in (files or {}).items()]
        return read_outputs(self.http.post(f"/v1beta1/{self.sandbox}:execute", json={"inputs": inputs}))

    def close(self) -> None:
        done(self.http.delete(f"/v1/{self.engine}", params={"force": "true"}))


def done(answer: httpx.Response) -> dict[str, Any]:
    """An operation that has ended well."""
    assert answer.status_code == 200, answer.text
    operation: dict[str, Any] = answer.json()
    assert operation["done"] is True
    return operation


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error in Google's shape."""
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    assert error["message"]
    return answer.status_code, error["status"]
