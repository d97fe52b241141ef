"""The way out of a session that is taken up after a restart, when its environment cannot be asked for or is no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kernel_gateway.egress.resolver import system_resolve
from kernel_gateway.errors import DatabaseUnavailable, EnvironmentUnavailable, GatewayError, UnknownEnvironment
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.environments.egress import Egress, EgressGateway
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import Record, SessionRow
from kernels.environment import Environment
from sandcell.models.network import SessionNetwork
from tests.unit.kernel_gateway.services.environments.conftest import ANN, HOSTS, Desk

At = Callable[[Callable[[Desk], Any]], Any]
ROW = SessionRow(
    id="33333333-3333-3333-3333-333333333333",
    principal_id=ANN.id,
    workspace_id="33333333-3333-3333-3333-333333333333",
    name="s",
    environment="wide-0123456789",
    generation=1,
    created=0,
    last_activity=0,
    expires=1,
    timeout_seconds=1,
    idle_timeout_seconds=1,
    agent=None,
    labels={},
    record=Record(network=SessionNetwork(mode="PUBLIC")),
)


async def nothing_listens(_sandbox: str, _name: str) -> Any:
    raise AssertionError("nothing is to be opened")


def egress_gateway(desk: Desk, answers: list[GatewayError | Environment]) -> tuple[Egress, EgressGateway]:
    """A way out whose environment is asked for once for each of the answers."""

    async def find() -> Environment:
        answer = answers.pop(0)
        if isinstance(answer, GatewayError):
            raise answer
        return answer

    audit = Audit(desk.database, SystemClock(), Settings(data_dir="/x"))
    egress = Egress(Settings(data_dir="/x"), nothing_listens, audit, resolve=system_resolve)
    return egress, egress.egress_gateway(ROW, find)


def test_a_database_that_is_away_leaves_it_missing_until_the_next_try(at_desk: At) -> None:
    async def work(desk: Desk) -> None:
        closed = dataclasses.replace(HOSTS["python"], name=ROW.environment)
        egress, way = egress_gateway(desk, [DatabaseUnavailable("away"), closed])
        seen = []
        for _try in range(2):
            await way.reopen()
            seen.append((way.missing, way.network().mode))
        assert seen == [(True, "PUBLIC"), (False, "SANDBOX")], "missing: the sweep tries again, and nothing is decided"
        await egress.aclose()

    at_desk(work)


@pytest.mark.parametrize("why", [UnknownEnvironment("gone"), EnvironmentUnavailable("no longer allowed")])
def test_an_environment_that_is_no_more_allows_nothing(at_desk: At, why: GatewayError) -> None:
    async def work(desk: Desk) -> None:
        egress, way = egress_gateway(desk, [why])
        await way.reopen()
        assert not way.missing
        assert (way.network().mode, way.network().role) == ("SANDBOX", None)
        await egress.aclose()

    at_desk(work)
