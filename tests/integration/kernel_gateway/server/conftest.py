"""The shared service as one caller sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with Rest(service) as rest:
        yield rest
