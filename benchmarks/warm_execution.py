"""`pass` through REST on a kept-alive connection, against the same message sent raw over ZMQ to the same kernel."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.raw_kernel import RawKernel
from tests.running_service import RunningService

WARM_UP = 50


class OneSegment(http.client.HTTPConnection):
    """Sends a request in one piece, as curl and browsers do; the standard library would send the body by itself."""

    pending = b""

    def send(self, data: Any) -> None:
        self.pending += data

    def flush(self) -> None:
        if self.sock is None:
            self.connect()
        self.sock.sendall(self.pending)
        self.pending = b""


class KeptAlive:
    """One connection and no more client than that: what is measured is the service."""

    def __init__(self, service: RunningService) -> None:
        self._connection = OneSegment(urlsplit(service.url).netloc, timeout=60)
        self._headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        self._connection.request(method, path, None if body is None else json.dumps(body).encode(), self._headers)
        self._connection.flush()
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status < 300, content
        return json.loads(content or b"null")

    def close(self) -> None:
        self._connection.close()


def run(service: RunningService, environments_dir: Path, *, rounds: int = 400) -> str:
    rest_face = KeptAlive(service)
    session = rest_face.call("POST", "/v1/sessions", {})["id"]
    raw, rest = [], []
    with RawKernel(find_connection_file(session)) as kernel:
        for round_number in range(rounds + WARM_UP):
            first = time.perf_counter()
            kernel.execute("pass")
            second = time.perf_counter()
            outcome = rest_face.call("POST", f"/v1/sessions/{session}/executions", {"code": "pass"})
            third = time.perf_counter()
            assert outcome["status"] == "ok"
            if round_number >= WARM_UP:
                raw.append(second - first)
                rest.append(third - second)
    rest_face.call("DELETE", f"/v1/sessions/{session}")
    rest_face.close()
    more = (statistics.median(rest) - statistics.median(raw)) * 1000
    return (
        f"raw {statistics.median(raw) * 1000:.2f} ms, through REST {statistics.median(rest) * 1000:.2f} ms (p50 of"
        f" {rounds}); {more:.2f} ms over raw (at most 2)"
    )


def find_connection_file(session_id: str) -> Path:
    """Of the first kernel of a session."""
    found = list(Path("/run/sandcell-test").glob(f"*/{session_id}/kernel/g1.json"))
    assert found, "the session's socket directory was not found"
    return found[0]
