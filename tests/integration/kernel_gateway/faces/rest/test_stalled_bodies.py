"""Bodies that do not come to their end take little of the service's memory, and nothing of anybody else's turn."""

from __future__ import annotations

import contextlib
import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.running_service import RunningService

SIZE, STALLED = 40_000_000, 5
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 4, "metadata": {"filler": "x" * 3_000_000}, "cells": []}


def resident_bytes(service: RunningService) -> int:
    lines = Path(f"/proc/{service.service_pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.fixture
def stalled(service: RunningService) -> Iterator[int]:
    """Large bodies of one principal that are all but there; what the service's memory has grown by."""
    parts, before = urlsplit(service.url), resident_bytes(service)
    head = (
        f"POST /v1/notebooks/replay HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {service.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {SIZE}\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(STALLED):
            connection = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=120))
            connection.sendall(head.encode())
            for _ in range(SIZE // 1_000_000 - 1):
                connection.sendall(b" " * 1_000_000)
        yield resident_bytes(service) - before


def test_they_are_not_in_memory_and_another_principal_is_served(service: RunningService, stalled: int) -> None:
    assert stalled < 60_000_000 < STALLED * SIZE
    with service.client() as admin:
        token = admin.create_token(f"other-{uuid.uuid4()}").token
    answer = httpx.post(
        f"{service.url}/v1/notebooks/replay",
        content=json.dumps({"notebook": NOTEBOOK, "continue_session": str(uuid.uuid4())}),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        timeout=120,
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
