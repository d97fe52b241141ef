"""A service whose operator declares a role by its ARN, a site it may reach, and the S3 server behind the role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.loopback_site import ADDRESS, loopback_site
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

ARN = "arn:aws:iam::123456789012:role/etl"
FILE = """
[[roles]]
arn = "{arn}"
principals = ["admin"]
bucket = "{bucket}"
prefix = "team/a"
access = "read-write"
endpoint_url = "{server}"

[strong]
image = "python"
runtime = "runsc"
pids = 256
network = "PUBLIC"
"""


@dataclass
class Place:
    """The service, the port of the site, and the callers that came back after a restart."""

    service: RunningService
    port: int
    callers: ExitStack

    def site(self, path: str) -> str:
        return f"http://{ADDRESS}:{self.port}{path}"

    def again(self, session: LiveSession) -> LiveSession:
        """The same session in a service that has started again."""
        rest = self.callers.enter_context(Rest(self.service))
        return LiveSession(rest, rest.get(session.path))


@pytest.fixture(scope="module")
def make_place(make_service: Callable[..., RunningService], tmp_path_factory: Any) -> Iterator[Callable[..., Place]]:
    directory: Path = tmp_path_factory.mktemp("made")
    with loopback_site() as port, s3_server("rclone", directory) as server, ExitStack() as callers:
        file = directory / "environments.toml"
        file.write_text(FILE.format(arn=ARN, bucket=BUCKET, server=server))
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
        made: list[RunningService] = []

        def make(**settings: object) -> Place:
            service = make_service(None, keys, environments_file=file, egress_private=f"{ADDRESS}:{port}", **settings)
            made.append(service)
            return Place(service, port, callers)

        yield make
        for service in made:
            service.stop()


@pytest.fixture(scope="module")
def place(make_place: Callable[..., Place]) -> Place:
    return make_place(invocations_per_second=1000)


@pytest.fixture
def rest(place: Place) -> Iterator[Rest]:
    with Rest(place.service) as rest:
        yield rest
