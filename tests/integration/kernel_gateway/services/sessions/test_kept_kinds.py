"""What of each kind of object survives the death of a kernel: the table of docs/reference/kept-variables.md."""

from __future__ import annotations

import asyncio
import re
import signal
import tomllib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from sandcell.models.sessions import Restored, Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.sessions.test_kept_variables import keep

KINDS: list[dict[str, str]] = tomllib.loads((Path(__file__).parents[5] / "docs/kept_variables.toml").read_text())[
    "kinds"
]
KINDS_OF_A_CELL = 8


def named(code: str, number: int) -> str:
    """The code, with the variable of this kind."""
    return re.sub(r"\bV\b", f"kind_{number}", code)


def batched(numbered: Iterable[tuple[int, dict[str, str]]]) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """As many kinds as share a cell; a cell for each kind would cost ten times as much."""
    left = iter(numbered)
    while some := list(islice(left, KINDS_OF_A_CELL)):
        yield some


def test_what_the_table_says_of_each_kind_of_object_holds(house: House) -> None:
    assert len(KINDS) > 60

    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start(environment="python", keep_variables="each", keep_variables_mb=100)
            await make_and_lose(gateway, session)
            restored = (await gateway.show(session)).restored
            assert restored is not None
            assert (restored.why, restored.later, restored.generation) == (None, 1, 2)
            assert tell(restored) == {each["kind"]: each.get("outcome", "restored") for each in KINDS}

    asyncio.run(test())


async def make_and_lose(gateway: Gateway, session: Session) -> None:
    """Make one of each, have the kernel die, and look at those that came back."""
    for some in batched(enumerate(KINDS)):
        made = await gateway.run(session, "\n".join([named(each["make"], number) for number, each in some] + ["None"]))
        assert made.status == "ok", (some, made.error)
    await keep(gateway, session, "None")  # while code waits, what takes long stays as it was kept before
    died = await gateway.run(session, f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})")
    assert died.status == "died"
    for some in batched((number, each) for number, each in enumerate(KINDS) if "check" in each):
        checks = [f"assert {named(each['check'], number)}, ({number}, kind_{number})" for number, each in some]
        checked = await gateway.run(session, "\n".join(checks))
        assert checked.error is None, (some, checked.error)


def tell(restored: Restored) -> dict[str, str]:
    """The outcome of each kind; those that are not listed are further ones that were restored."""
    found = {each.name: each for each in restored.variables}
    told = {}
    for number, each in enumerate(KINDS):
        one = found.get(f"kind_{number}")
        told[each["kind"]] = "restored" if one is None else one.outcome
        if one is not None and one.outcome == "lost":
            assert (one.why or "").startswith(each.get("why", "")), (each["kind"], one.why)
    return told
