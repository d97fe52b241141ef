"""What a gateway's look at the others does where one thing of it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection

from kernel_gateway.identity.principal import Principal
from kernel_gateway.services import gateways
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.admission.rates import Limits
from kernel_gateway.services.gateways import Gateways
from kernel_gateway.settings import Settings


class Failing:
    """A database in which nobody is void and uses cannot be exchanged: that fails, or never ends."""

    def __init__(self, *, hangs: bool) -> None:
        self.lease = SimpleNamespace(place=SimpleNamespace(gateway_id="a"))
        self.hangs = hangs
        self.asked: list[str] = []

    async def run(self, query: Callable[[Connection], Any]) -> Any:
        name = getattr(query, "__name__", "")
        if name in {"take_over", "list_alive"}:
            return set()
        self.asked.append(next(each for each in query.__code__.co_names if each in {"exchange", "list_void"}))
        if self.asked[-1] == "list_void":
            return set(), {}
        if self.hangs:
            await asyncio.Event().wait()
        raise OSError("away")


@pytest.mark.parametrize("hangs", [False, True])
def test_what_was_revoked_ends_here_where_uses_cannot_be_shared(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr(gateways, "SHARE_SECONDS", 0.01)
    database, limits = Failing(hangs=hangs), Limits(30)
    open_calls = SimpleNamespace(list_credentials=lambda: ({"a credential"}, set()))

    async def look() -> None:
        own = Gateways(
            settings=Settings(),
            database=cast("Any", database),
            open_calls=cast("OpenCalls", open_calls),
            registry=cast("Any", []),
            lifecycle=cast("Any", None),
            adoption=cast("Any", None),
            finish_undo=lambda _ids: None,
            hand_over=cast("Any", None),
            limits=limits,
        )
        limits.take_invocation(Principal("1", "one", admin=False))
        await own._look()

    asyncio.run(look())
    assert database.asked == ["list_void", "exchange"]
    assert limits.list_changed() == {("invocations", "1"): 1}
