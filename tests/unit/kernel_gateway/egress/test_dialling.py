"""Look-ups have turns, and a caller that has left does not get one: a name server that is silent gathers no queue."""

from __future__ import annotations

import asyncio

from kernel_gateway.egress.dialling import Dialler
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.target import Target

ASKING, TURNS = 20, 2


def test_who_left_before_his_turn_is_not_looked_up() -> None:
    looked_up: list[str] = []

    async def scenario() -> None:
        silent = asyncio.Event()

        async def resolve(host: str, port: int) -> list[str]:
            looked_up.append(host)
            await silent.wait()
            return ["93.184.216.34"]

        dialler = Dialler(OperatorRules(), resolve, look_ups=TURNS)
        asking = [asyncio.create_task(dialler.routes(Target(f"n{n}.example", 80))) for n in range(ASKING)]
        while len(looked_up) < TURNS:
            await asyncio.sleep(0)
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        silent.set()
        async with asyncio.timeout(120):
            await dialler.routes(Target("last.example", 80))
        await dialler.aclose()

    asyncio.run(scenario())
    assert looked_up == ["n0.example.", "n1.example.", "last.example."]
