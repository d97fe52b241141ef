"""`1+1` through boto3 on the AgentCore face, against the same through REST, in turn, each in a session of its own.

A third way shows what boto3 itself takes: the same request signed once and sent again as it is.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.agentcore_client import ACCESS_KEY, INTERPRETER, REGION, SECRET_KEY, Interpreter
from benchmarks.warm_execution import KeptAlive, OneSegment
from tests.running_service import RunningService

WARM_UP = 30


class Signed:
    """The invocation as boto3 signs it, signed once: good for the five minutes that a signature lasts."""

    def __init__(self, service: RunningService, session: str) -> None:
        body = {"name": "executeCode", "arguments": {"code": "1+1", "language": "python"}}
        self._path = f"/code-interpreters/{INTERPRETER}/tools/invoke"
        headers = {"Content-Type": "application/json", "x-amzn-code-interpreter-session-id": session}
        request = AWSRequest("POST", service.url + self._path, headers, json.dumps(body).encode())
        SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "bedrock-agentcore", REGION).add_auth(request)
        self._headers, self._body = dict(request.headers.items()), request.body
        self._connection = OneSegment(urlsplit(service.url).netloc, timeout=60)

    def call(self) -> None:
        self._connection.request("POST", self._path, self._body, self._headers)
        self._connection.flush()
        answer: http.client.HTTPResponse = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        assert b'"text":"2"' in content, content

    def close(self) -> None:
        self._connection.close()


def run(service: RunningService, environments_dir: Path, *, rounds: int = 400) -> str:
    rest_face, interpreter = KeptAlive(service), Interpreter(service)
    ours = rest_face.call("POST", "/v1/sessions", {})["id"]
    theirs = interpreter.start()
    signed = Signed(service, theirs)
    rest, boto, raw = [], [], []
    for round_number in range(rounds + min(WARM_UP, rounds)):
        first = time.perf_counter()
        outcome = rest_face.call("POST", f"/v1/sessions/{ours}/executions", {"code": "1+1"})
        second = time.perf_counter()
        interpreter.add(theirs)
        third = time.perf_counter()
        signed.call()
        fourth = time.perf_counter()
        assert outcome["status"] == "ok"
        if round_number >= min(WARM_UP, rounds):
            rest.append(second - first)
            boto.append(third - second)
            raw.append(fourth - third)
    signed.close()
    interpreter.stop(theirs)
    rest_face.call("DELETE", f"/v1/sessions/{ours}")
    rest_face.close()
    return (
        f"`1+1` through REST {_said(rest)}, on the AgentCore face through boto3 {_said(boto)}, {_ratio(boto, rest)}"
        f" times that; the same request without boto3 {_said(raw)}, {_ratio(raw, rest)} times ({rounds} rounds)"
    )


def _said(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f} ms (p99 {p99(seconds) * 1000:.1f})"


def _ratio(one: list[float], other: list[float]) -> str:
    return f"{statistics.median(one) / statistics.median(other):.2f}"


def p99(seconds: list[float]) -> float:
    """The time that 99 of 100 do not take longer than."""
    return sorted(seconds)[max(0, round(len(seconds) * 0.99) - 1)]
