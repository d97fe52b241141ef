"""Clients by which tools of one conversation are carried out at other gateways: whose token each has, and their end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel_gateway.faces.mcp.elsewhere import MOST_CLIENTS, TOKEN, GatewayBackend
from kernel_gateway.identity.principal import Principal
from sandcell.errors import NotFound


class Client:
    """Says where it is when it is closed, which takes a while."""

    made: list[Client]

    def __init__(self, _address: str, token: str) -> None:
        self.token = token
        self.closed = False
        self.made.append(self)

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


class Elsewhere:
    """Gateways of which another has everything."""

    lease = SimpleNamespace(place=SimpleNamespace(address="http://here"))

    def lives_here(self, _session_id: str) -> bool:
        return False

    def is_self(self, _home: object) -> bool:
        return False

    async def find(self, _kind: str, _name: str) -> object:
        await asyncio.sleep(0)
        return object()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> GatewayBackend:
    Client.made = []
    monkeypatch.setattr("sandcell.nonblocking.AsyncClient", Client)
    settings = SimpleNamespace(execution_timeout_max_seconds=1.0)
    services = cast("Any", SimpleNamespace(gateways=Elsewhere(), settings=settings))
    return GatewayBackend(services, Principal("1", "one", admin=False), "first")


async def ask(backend: GatewayBackend, token: str) -> str:
    TOKEN.set(token)
    found: Any = await backend._of("session", "one")
    token_used: str = found._client.token
    return token_used


def test_calls_at_once_each_have_their_own_token_and_every_client_is_closed(backend: GatewayBackend) -> None:
    async def act() -> None:
        tokens = [str(number // 2) for number in range(2 * (MOST_CLIENTS + 2))]
        for _ in range(2):
            assert await asyncio.gather(*(asyncio.create_task(ask(backend, each)) for each in tokens)) == tokens
        assert sum(not each.closed for each in Client.made) == MOST_CLIENTS
        assert await asyncio.create_task(ask(backend, "")) == "first"
        await backend.aclose()
        assert all(each.closed for each in Client.made)
        with pytest.raises(NotFound, match="has ended"):
            await asyncio.create_task(ask(backend, "late"))
        assert all(each.closed for each in Client.made)

    asyncio.run(act())
