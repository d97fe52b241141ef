"""A live session, its owner's HTTP and an attach token, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.integration.kernel_gateway.faces.jupyter.wire import Wire, wire
from tests.running_service import RunningService


@dataclass
class Face:
    """The Jupyter face of a service, for who has `token`."""

    url: str
    token: str
    kernel_id: str
    http: httpx.Client

    def wire(self, **options: Any) -> AbstractContextManager[Wire]:
        return wire(self.url, options.pop("kernel_id", self.kernel_id), options.pop("token", self.token), **options)


def http_of(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"token {token}"}, timeout=120, trust_env=False)


@pytest.fixture(scope="module")
def owner(service: RunningService) -> Iterator[Face]:
    """The owner of a live session."""
    with service.client() as client, client.session("python", name="analysis of Q3") as session:
        session.run("agents_variable = 41")
        with http_of(service.url, service.token) as http:
            yield Face(service.url, service.token, session.id, http)


@pytest.fixture(scope="module")
def guest(service: RunningService, owner: Face) -> Iterator[Face]:
    """Who has an attach token for that session."""
    with service.client() as client:
        token = client.create_attach_token(owner.kernel_id, name="Ada").token
    assert token is not None
    with http_of(service.url, token) as http:
        yield Face(service.url, token, owner.kernel_id, http)
