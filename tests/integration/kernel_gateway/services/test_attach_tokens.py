"""How long an attach token counts, and how many there may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kernel_gateway.errors import QuotaReached, Unauthorized
from kernel_gateway.services.attach.attach_tokens import MOST_ATTACH_TOKENS
from sandcell.models.attach import CreateAttachToken
from tests.integration.kernel_gateway.services.conftest import Gateway

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


def test_a_token_counts_until_its_time_is_over(on_gateway: OnGateway) -> None:
    async def test(gateway: Gateway) -> None:
        tokens, session = gateway.services.attach_tokens, await gateway.start()
        lasting = await tokens.create(gateway.me, session.id, CreateAttachToken(ttl_seconds=600))
        made = await tokens.create(
            gateway.me, session.id, CreateAttachToken(name="Ada", ttl_seconds=60, can=["restart"])
        )
        visitor = await tokens.visitor(made.token or "")
        assert (visitor.author, visitor.session_id, visitor.can) == ("Ada", session.id, frozenset({"restart"}))
        assert visitor.attached
        gateway.clock.advance(61)
        with pytest.raises(Unauthorized):
            await tokens.visitor(made.token or "")
        assert (await tokens.visitor(lasting.token or "")).author == "admin (attached)"
        await gateway.services.sessions.stop(gateway.me, session.id)
        with pytest.raises(Unauthorized):
            await tokens.visitor(lasting.token or "")

    on_gateway(test)


def test_only_so_many_count_at_once(on_gateway: OnGateway) -> None:
    async def test(gateway: Gateway) -> None:
        tokens, session = gateway.services.attach_tokens, await gateway.start()
        for _ in range(MOST_ATTACH_TOKENS):
            await tokens.create(gateway.me, session.id, CreateAttachToken(ttl_seconds=60))
        with pytest.raises(QuotaReached):
            await tokens.create(gateway.me, session.id, CreateAttachToken())
        gateway.clock.advance(61)
        await tokens.create(gateway.me, session.id, CreateAttachToken())

    on_gateway(test)


@pytest.mark.parametrize("token", ["", "sandcell_attach_", "sandcell_attach_" + "x" * 10_000, "sandcell_x", "\udcff"])
def test_no_token_is_nobodys(on_gateway: OnGateway, token: str) -> None:
    async def test(gateway: Gateway) -> None:
        with pytest.raises(Unauthorized):
            await gateway.services.attach_tokens.visitor(token)

    on_gateway(test)
