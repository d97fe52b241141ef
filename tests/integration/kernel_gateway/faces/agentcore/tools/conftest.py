"""Tools called as the AgentCore face calls them, on the services of one gateway and a real session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from kernel_gateway.faces.agentcore.tools import Arguments, Invocation, find_tool
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house, on_gateway

__all__ = ["Gateway", "House", "Tools", "house", "on_gateway"]


class Tools:
    """The tools of one session; answers are what the wire has."""

    def __init__(self, gateway: Gateway, session: Session) -> None:
        self.session_id = session.id
        self._gateway = gateway

    async def __call__(self, name: str, key: str = "", **arguments: Any) -> dict[str, Any]:
        given = msgspec.json.decode(json.dumps(arguments), type=Arguments)
        return await self.call(name, given, key)

    async def call(self, name: str, arguments: Arguments, key: str = "") -> dict[str, Any]:
        gateway = self._gateway
        call = Invocation(gateway.services, gateway.me, self.session_id, arguments, key)
        async with asyncio.timeout(120):
            result = await find_tool(name, arguments)(call)
        value: dict[str, Any] = json.loads(msgspec.json.encode(result))
        return value

    async def text(self, name: str, **arguments: Any) -> str:
        """The one text of an answer without an error."""
        answer = await self(name, **arguments)
        assert answer["isError"] is False, answer
        (block,) = answer["content"]
        return str(block["text"])

    async def error(self, name: str, **arguments: Any) -> str:
        """The one text of an answer that is an error."""
        answer = await self(name, **arguments)
        assert answer["isError"] is True, answer
        (block,) = answer["content"]
        return str(block["text"])
