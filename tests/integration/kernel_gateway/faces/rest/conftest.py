"""A live session over plain HTTP, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.running_service import RunningService


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    """HTTP as the administrator."""
    with httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {service.token}"}, timeout=180, trust_env=False
    ) as client:
        yield client


@pytest.fixture(scope="module")
def session_id(http: httpx.Client) -> Iterator[str]:
    """A session that is stopped when the module is done."""
    answer = http.post("/v1/sessions", json={"environment": "python"})
    assert answer.status_code == 201, answer.text
    yield answer.json()["id"]
    http.delete(f"/v1/sessions/{answer.json()['id']}")
