"""Sessions whose id is known before they start get a sandbox that is ready, at every door where that is so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import httpx
import pytest

from kernel_gateway.faces.e2b.identifiers import format_key
from sandcell import Client
from sandcell.models.environments import PoolInfo
from tests.conftest import MakeService
from tests.integration.kernel_gateway.faces.agent_engine.google import Google, connect
from tests.integration.kernel_gateway.faces.agentcore.conftest import KEY, SECRET, Caller
from tests.integration.kernel_gateway.faces.jupyter.conftest import http_of
from tests.integration.kernel_gateway.services.pools.test_killed_service import find_sandboxes, until_full
from tests.running_service import RunningService


@pytest.fixture(scope="module")
def warm(make_service: MakeService, tmp_path_factory: pytest.TempPathFactory) -> RunningService:
    """A service with one sandbox that is ready."""
    file = tmp_path_factory.mktemp("warm") / "environments.toml"
    file.write_text("[python]\nwarm = 1\n")
    return make_service(
        environments_file=file, invocations_per_second=1000, access_key_id=KEY, secret_access_key=SECRET
    )


def start_jupyter_kernel(service: RunningService) -> None:
    with http_of(service.url, service.token) as http:
        http.post("/api/kernels", json={"name": "python"}).raise_for_status()


def start_jupyter_session(service: RunningService) -> None:
    body = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python"}}
    with http_of(service.url, service.token) as http:
        http.post("/api/sessions", json=body).raise_for_status()


def start_at_agent_engine(service: RunningService) -> None:
    with connect(service) as http:
        Google.make(http)


def start_at_agentcore(service: RunningService) -> None:
    """boto3 makes a token for each start, of which the id is made."""
    Caller(service).start(name="mine")


def start_at_e2b(service: RunningService) -> None:
    headers = {"X-API-Key": format_key(service.token), "Idempotency-Key": str(uuid.uuid4())}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as http:
        http.post("/v2/sandboxes", json={"templateID": "base", "timeout": 300}).raise_for_status()


def replay(service: RunningService) -> None:
    cell = {"cell_type": "code", "id": "a", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    with service.client() as client:
        client.replay(json.dumps(notebook).encode(), environment="python", determinism=False, keep_session=True)


@pytest.mark.sample("pools")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "start",
    [start_jupyter_kernel, start_jupyter_session, start_at_agent_engine, start_at_agentcore, start_at_e2b, replay],
)
def test_a_session_whose_id_is_chosen_gets_what_is_ready(
    warm: RunningService, start: Callable[[RunningService], None]
) -> None:
    until_full(warm)
    with warm.client() as client:
        before = show_pool(client)
        (ready,) = find_sandboxes(warm)
        start(warm)
        assert (show_pool(client).hits, show_pool(client).misses) == (before.hits + 1, before.misses)
        (session,) = client.list_sessions(status="READY").items
        assert session.id != ready
        assert client.run(session.id, "6 * 7").text == "42"
        client.stop_session(session.id)
        until_full(warm, without={ready})
        assert len(find_sandboxes(warm)) == 1, "what is ready for the next one"


def show_pool(client: Client) -> PoolInfo:
    pool = client.get_environment("python").pool
    assert pool is not None
    return pool
