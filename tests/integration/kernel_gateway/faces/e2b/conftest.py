"""Two principals with a sandbox each, which all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.kernel_gateway.faces.e2b.owners import Owner, make_owner
from tests.running_service import RunningService


@pytest.fixture(scope="package")
def http(service: RunningService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture(scope="package")
def owner(service: RunningService, http: httpx.Client) -> Iterator[Owner]:
    made = make_owner(service, http, metadata={"a": "b"}, envVars={"SECRET": "of-the-variable"})
    yield made
    made.control("DELETE", f"/sandboxes/{made.id}")


@pytest.fixture(scope="package")
def stranger(service: RunningService, http: httpx.Client) -> Iterator[Owner]:
    made = make_owner(service, http)
    yield made
    made.control("DELETE", f"/sandboxes/{made.id}")
