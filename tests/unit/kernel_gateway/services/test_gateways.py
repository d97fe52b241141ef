"""What a gateway's look at the others does where one thing of it fails."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services import gateways
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.admission.rates import Limits
from kernel_gateway.services.gateways import Gateways
from kernel_gateway.settings import Settings
from kernel_gateway.storage.states import uses
from kernel_gateway.storage.states.gateways import Alive

ONE = Principal("1", "one", admin=False)


class Failing:
    """A database in which nobody is void and uses cannot be exchanged: that fails, or never ends."""

    def __init__(self, *, hangs: bool) -> None:
        self.lease = SimpleNamespace(place=SimpleNamespace(gateway_id="a"))
        self.hangs = hangs
        self.asked: list[str] = []

    async def run(self, query: Callable[[Connection], Any]) -> Any:
        name = getattr(query, "__name__", "")
        if name == "list_alive":
            return {}
        queries = {"exchange", "list_void", "take_over"}
        self.asked.append(next(each for each in query.__code__.co_names if each in queries))
        if self.asked[-1] == "take_over":
            return set()
        if self.asked[-1] == "list_void":
            return set(), {}
        if self.hangs:
            await asyncio.Event().wait()
        raise OSError("away")


def make_gateways(
    database: object, limits: Limits, open_calls: object = None, registry: Sequence[object] = ()
) -> Gateways:
    return Gateways(
        settings=Settings(),
        database=cast("Any", database),
        open_calls=cast("OpenCalls", open_calls),
        registry=cast("Any", registry),
        lifecycle=cast("Any", None),
        adoption=cast("Any", None),
        hand_over=cast("Any", None),
        limits=limits,
    )


@pytest.mark.parametrize("hangs", [False, True])
def test_what_was_revoked_ends_here_where_uses_cannot_be_shared(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr(gateways, "SHARE_SECONDS", 0.01)
    database, limits = Failing(hangs=hangs), Limits(30)
    open_calls = SimpleNamespace(list_credentials=lambda: ({"a credential"}, set()))

    async def look() -> None:
        own = make_gateways(database, limits, open_calls)
        limits.take_invocation(ONE)
        await own._look()

    asyncio.run(look())
    assert database.asked == ["take_over", "list_void", "exchange"]
    assert limits.list_changed() == {("invocations", "1"): 1}


@pytest.mark.parametrize("left_seconds", [0.5, 3.5])
def test_only_who_is_late_and_refuses_connections_has_ended(left_seconds: float) -> None:
    async def look() -> set[str]:
        own = make_gateways(SimpleNamespace(lease=None), Limits(30))
        with socket.socket() as listens, socket.socket() as hangs, socket.socket() as ended:
            for each in (listens, hangs, ended):
                each.bind(("127.0.0.1", 0))
            listens.listen()
            hangs.listen(0)
            full = socket.create_connection(hangs.getsockname())
            addresses = {
                "listens": f"http://127.0.0.1:{listens.getsockname()[1]}",
                "hangs": f"http://127.0.0.1:{hangs.getsockname()[1]}",
                "ended": f"http://127.0.0.1:{ended.getsockname()[1]}",
                "unknown": "http://nobody.invalid:1",
            }
            found = await own._find_refusing({name: Alive(each, left_seconds) for name, each in addresses.items()})
            full.close()
            return found

    assert asyncio.run(look()) == ({"ended"} if left_seconds < 1 else set())


def test_the_first_look_learns_also_what_has_not_changed_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {("b", "invocations", ONE.id): (1_000, 10.0)}  # a count, and how many seconds ago it changed

    def exchange(_connection: object, _changed: object, seconds: float) -> dict[tuple[str, str, str], int]:
        return {key: count for key, (count, age) in rows.items() if age < seconds}

    async def run(query: Callable[[Any], Any]) -> Any:
        return query(None)

    monkeypatch.setattr(uses, "exchange", exchange)
    limits = Limits(30, monotonic=lambda: 0.0)
    database = SimpleNamespace(lease=SimpleNamespace(), run=run)

    async def share() -> None:
        own = make_gateways(database, limits)
        await own._share_uses()
        for key in list(rows):
            rows[key] = (1_020, 0.0)
        rows["c", "invocations", ONE.id] = (5, 0.0)
        await own._share_uses()

    asyncio.run(share())
    for _ in range(5):
        limits.take_invocation(ONE)
    with pytest.raises(RateLimited):
        limits.take_invocation(ONE)


@pytest.mark.parametrize(
    ("on_this_host", "seconds"), [([], 0), ([False, False], 0), ([False, True], gateways.RETURN_SECONDS)]
)
def test_only_sandboxes_of_its_own_host_wait_for_one_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, on_this_host: list[bool], seconds: float
) -> None:
    asked: list[float] = []

    class Leaving:
        lease = SimpleNamespace(lost=False, begun=True, left=False)

        async def run(self, query: Callable[[Connection], Any]) -> Any:
            return query(cast("Connection", None))

    monkeypatch.setattr(gateways.gateways, "leave", lambda _connection, seconds: asked.append(seconds))
    kept = [SimpleNamespace(sandbox=SimpleNamespace(on_this_host=each)) for each in on_this_host]
    limits = cast("Limits", SimpleNamespace(share=lambda: None))
    asyncio.run(make_gateways(Leaving(), limits, registry=kept).leave())
    assert asked == [seconds]
