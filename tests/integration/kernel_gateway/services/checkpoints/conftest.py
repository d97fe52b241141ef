"""A client of the service that is used by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandcell import Client
from tests.running_service import RunningService


@pytest.fixture
def client(service: RunningService) -> Iterator[Client]:
    with service.client() as client:
        yield client
