"""What a credential is good for: scopes include each other, and no route of any face can do without one."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_gateway.errors import ScopeMissing
from kernel_gateway.faces import scopes
from kernel_gateway.faces.agent_engine.table import TABLE as AGENT_ENGINE_TABLE
from kernel_gateway.faces.agentcore import operations
from kernel_gateway.faces.jupyter import routes as jupyter
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE
from kernel_gateway.identity.principal import Caller, Principal, caller_of
from sandcell.models.credentials import SCOPES, Scope

ADMIN = Principal("1", "admin", admin=True)


@pytest.mark.parametrize("has", SCOPES)
@pytest.mark.parametrize("needed", SCOPES)
def test_a_scope_includes_those_before_it(has: Scope, needed: Scope) -> None:
    caller = Caller(ADMIN, has, "t")
    if SCOPES.index(has) >= SCOPES.index(needed):
        scopes.require(caller, needed)
    else:
        with pytest.raises(ScopeMissing, match=f"scope {needed}") as caught:
            scopes.require(caller, needed)
        assert caught.value.details == {"scope": has, "needed": needed}


@pytest.mark.parametrize("scope", SCOPES)
def test_an_administrator_is_one_only_by_a_credential_for_that(scope: Scope) -> None:
    assert caller_of(ADMIN, scope, "t", None).principal.admin == (scope == "admin")
    assert not caller_of(Principal("2", "me", admin=False), scope, "t", None).principal.admin


@pytest.mark.parametrize("has", SCOPES)
def test_the_scope_for_metrics_stands_beside_the_others(has: Scope) -> None:
    scraper = caller_of(ADMIN, "metrics", "t", None)
    assert scraper.may("metrics")
    assert not scraper.may(has)
    assert not scraper.principal.admin
    assert caller_of(ADMIN, has, "t", None).may("metrics") == (has == "admin")
    assert not caller_of(Principal("2", "me", admin=False), has, "t", None).may("metrics")


def test_an_expiry_is_a_moment_at_which_it_counts_no_longer() -> None:
    caller = Caller(ADMIN, "read", "t", 10.0)
    assert (caller.counts_at(9.9), caller.counts_at(10.0)) == (True, False)
    assert Caller(ADMIN, "read", "t").counts_at(1e12)


def test_every_row_is_that_of_a_route() -> None:
    def named(table: scopes.Table) -> set[str]:
        return {each for routes in table.values() for each in routes}

    assert named(scopes.REST) | set(scopes.OPEN) == {f"{each.method} {each.path}" for each in TABLE}
    assert named(scopes.JUPYTER) == {each.event for each in jupyter.TABLE} | {jupyter.CHANNELS.event}
    assert named(scopes.AGENT_ENGINE) == {each.name for each in AGENT_ENGINE_TABLE}
    assert named(scopes.AGENTCORE) == {each.name for each in operations.TABLE}


@pytest.mark.parametrize(
    "make",
    [
        lambda nothing: Route("GET", "/v1/new", nothing, name="getNew", event="GetNew", summary="New"),
        lambda nothing: Route("GET", "/v1/new", nothing, name="getNew", summary="New", public=True),
        lambda nothing: Route(
            "GET", "/v1/sessions", nothing, name="listSessions", summary="Open by mistake", public=True
        ),
        lambda nothing: jupyter.Route("GET", "/api/new", nothing, name="GetNew"),
        lambda nothing: operations.Operation(
            "GET", "/new", nothing, name="GetNew", outside=operations.requests.Nothing
        ),
    ],
)
def test_a_route_without_a_scope_cannot_be_made(make: Any) -> None:
    with pytest.raises(LookupError):
        make(None)
