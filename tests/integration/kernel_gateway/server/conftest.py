"""The shared service as one caller sees it, and gateways of one database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateways import Gateways, MakeService
from tests.integration.kernel_gateway.server.rest import Rest
from tests.postgresql_server import PostgresqlServer
from tests.running_service import RunningService


@pytest.fixture
def rest(service: RunningService) -> Iterator[Rest]:
    with Rest(service) as rest:
        yield rest


@pytest.fixture(scope="module")
def gateways(
    make_service: MakeService, postgresql: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory
) -> Gateways:
    """Starts gateways of one database and one store, whose leases are short."""
    url = postgresql.create_database(migrated=False)
    return Gateways(make_service, url, tmp_path_factory.mktemp("shared") / "store", gateway_lease_seconds=4)
