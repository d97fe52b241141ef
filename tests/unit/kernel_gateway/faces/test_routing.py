"""The tree of addresses: what is found where, what is decoded, and what is not found."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest

from kernel_gateway.faces.errors import MethodNotAllowed
from kernel_gateway.faces.routing import Address, Route, RouteTree


async def answer(_call: object) -> None:
    """No test calls it."""


class Row(Route[object]):
    """A route that is open to all."""

    def find_scope(self) -> None:
        return None


def row(method: str, path: str) -> Row:
    return Row(method, path, answer, name=f"{method} {path}")


TABLE = [
    row("GET", "/things"),
    row("POST", "/things"),
    row("GET", "/things/{thing_id}"),
    row("GET", "/things/newest"),
    row("GET", "/things/{thing_id}/parts"),
    row("GET", "/things/{thing_id}/files/{path}"),
]


@pytest.mark.parametrize(
    ("path", "found", "parameters"),
    [
        ("/things", "/things", {}),
        ("/things/a", "/things/{thing_id}", {"thing_id": "a"}),
        ("/things/a%2Fb%20c", "/things/{thing_id}", {"thing_id": "a/b c"}),
        ("/things/newest", "/things/newest", {}),
        ("/things/newest/parts", "/things/{thing_id}/parts", {"thing_id": "newest"}),
        ("/things/a/files/b", "/things/{thing_id}/files/{path}", {"thing_id": "a", "path": "b"}),
        ("/things/a/files/b//c%2Fd/", "/things/{thing_id}/files/{path}", {"thing_id": "a", "path": "b//c/d/"}),
        ("/things/a/files/", "/things/{thing_id}/files/{path}", {"thing_id": "a", "path": ""}),
    ],
)
def test_an_address_leads_to_its_routes_and_parameters(path: str, found: str, parameters: dict[str, str]) -> None:
    address = RouteTree(TABLE, decode=unquote).find(path)
    assert {route.path for route in address.routes.values()} == {found}
    assert address.parameters == parameters


@pytest.mark.parametrize(
    "path",
    ["", "/", "things", "/things/", "/Things", "//things", "/things//parts", "/things/a/files", "/x/things", "*"],
)
def test_nothing_is_at_other_addresses(path: str) -> None:
    assert RouteTree(TABLE, decode=unquote).find(path) == Address()


def test_parameters_look_as_the_table_says() -> None:
    tree = RouteTree(TABLE, parameter=re.compile("[a-z]+"))
    assert tree.find("/things/abc").parameters == {"thing_id": "abc"}
    assert not tree.find("/things/ABC").routes
    assert not tree.find("/things/ABC/files/x").routes
    assert tree.find("/things/abc/files/X").parameters["path"] == "X"


def test_where_something_may_stand_before_an_address_the_longest_one_counts() -> None:
    tree = RouteTree(TABLE[:4], anywhere=True)
    assert tree.find("/a/b/things/c").parameters == {"thing_id": "c"}
    assert tree.find("things/things").parameters == {"thing_id": "things"}
    assert tree.find("/a/things").routes.keys() == {"GET", "POST"}
    assert not tree.find("/things/a/b").routes


def test_a_method_that_is_not_taken_is_told_those_that_are() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        RouteTree(TABLE).find("/things").require("PATCH" * 100)
    assert caught.value.allowed == ["GET", "POST"]
    assert len(caught.value.message) < 100


def test_one_address_has_one_name_for_each_parameter() -> None:
    with pytest.raises(ValueError, match="other names"):
        RouteTree([row("GET", "/things/{thing_id}"), row("PUT", "/things/{name}")])


def test_the_name_of_a_route_is_its_events_unless_it_has_another() -> None:
    given: dict[str, Any] = {"name": "createThing", "event": "StartThing"}
    assert row("GET", "/things").event == "GET /things"
    assert Row("POST", "/things", answer, **given).event == "StartThing"
