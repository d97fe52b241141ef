"""The OpenAPI document: valid, complete, and made of the table that is served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kernel_gateway.errors import every_error
from kernel_gateway.faces.rest import openapi
from kernel_gateway.faces.rest.handler import ADDRESSES
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE, list_routes, make_openapi_document
from kernel_gateway.settings import Settings
from sandcell.models import constraints

OPERATIONS = Path(__file__).with_name("operations.txt")


def test_the_document_is_valid_openapi() -> None:
    from openapi_spec_validator import validate  # a tenth of a second, of each process that collects tests

    validate(openapi.describe(TABLE))


def test_every_route_is_in_it_with_a_name_of_its_own() -> None:
    document = openapi.describe(TABLE)
    operations = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(route.method, route.path) for route in TABLE}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)


def test_names_of_operations_and_events_are_those_that_were_published() -> None:
    """Renaming a Python function changes none of them: they stand in the rows of the table."""
    published = {line for line in OPERATIONS.read_text().splitlines() if not line.startswith("#")}
    ours = {f"{route.name} {route.method} {route.path} {'-' if route.public else route.event}" for route in TABLE}
    assert published - ours == set(), "these were published: give the routes their old names back"
    assert ours - published == set(), f"new routes: add these lines to {OPERATIONS.name}, once their names are final"
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", route.name) for route in TABLE)
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", route.event) for route in TABLE if not route.public)


def test_a_body_is_required_where_an_empty_one_is_refused_and_every_media_type_is_there() -> None:
    paths = openapi.describe(TABLE)["paths"]
    bodies = {
        path: item["post"]["requestBody"] for path, item in paths.items() if "requestBody" in item.get("post", {})
    }
    required = {path for path, body in bodies.items() if body["required"]}
    assert {"/v1/sessions/{session_id}/executions", "/v1/notebooks/replay", "/v1/tokens"} <= required
    assert not required & {"/v1/sessions", "/v1/sessions/{session_id}/attach-tokens", "/v1/retention"}
    notebook = paths["/v1/sessions/{session_id}/notebook"]["get"]["responses"]["200"]["content"]
    assert set(notebook) == {"application/x-ipynb+json", "text/html; charset=utf-8", "text/x-python; charset=utf-8"}
    replay = paths["/v1/notebooks/replay"]["post"]["responses"]["200"]["content"]
    assert set(replay) == {"application/json", "text/event-stream"}


def test_what_the_settings_bound_is_stated_as_they_are() -> None:
    schemas = openapi.describe(TABLE, Settings(execution_timeout_max_seconds=7.0, made_network_modes="SANDBOX"))[
        "components"
    ]
    assert schemas["schemas"]["Submission"]["properties"]["timeout_seconds"]["maximum"] == 7.0
    assert schemas["schemas"]["CreateEnvironment"]["properties"]["network"]["allOf"] == [{"enum": ["SANDBOX"]}]
    assert constraints.SETTING not in make_openapi_document(Settings()).decode()


@pytest.mark.parametrize(
    ("kind", "body", "fits"),
    [
        ("Submission", {"code": "1", "timeout_seconds": 0}, False),
        ("Submission", {"code": "1", "language": "python", "runtime": "deno"}, False),
        ("Submission", {"code": "1", "language": "javascript", "runtime": "deno"}, True),
        ("Submission", {"code": "1", "language": "python", "runtime": "xpython"}, True),
        ("Submission", {"code": "1", "language": "r", "runtime": "python"}, False),
        ("Submission", {"code": "1", "language": ""}, False),
        ("Submission", {"code": "1", "clear_context": True}, True),
        ("Submission", {"code": "1", "language": "javascript", "clear_context": True}, False),
        ("CommandRequest", {"command": " "}, False),
        ("CommandRequest", {"command": "true", "background": True, "sync": "before_return"}, False),
        ("CommandRequest", {"command": "true", "background": True, "sync": None}, True),
        ("CommandRequest", {"command": "true", "timeout_seconds": 901}, False),
        ("CommandRequest", {"command": "true", "timeout_seconds": 901, "background": True}, True),
        ("ReplayRequest", {}, False),
        ("ReplayRequest", {"notebook": " "}, False),
        ("ReplayRequest", {"session_id": "a", "notebook": {}}, False),
        ("ReplayRequest", {"notebook": "{}"}, True),
        ("ReplayRequest", {"session_id": "a", "continue_session": "b", "inputs": "c"}, False),
        ("StartSession", {"timeout_seconds": 0}, False),
        ("StartSession", {"labels": {"a" * 201: "b"}}, False),
        ("CreateEnvironment", {"name": "1"}, False),
        ("CreateEnvironment", {"name": "a", "tags": {"a": "!"}}, False),
        ("CreateToken", {"principal": "a b"}, False),
        ("CopyFiles", {"to": "a", "paths": ["../b"]}, False),
        ("CopyFiles", {"to": "a", "paths": ["..b", "a/.b/c d"], "to_path": ""}, True),
        ("CreateLink", {"path": "/etc/passwd"}, False),
    ],
)
def test_what_is_refused_is_stated_as_far_as_a_schema_can(kind: str, body: dict[str, object], fits: bool) -> None:
    components = openapi.describe(TABLE)["components"]
    schema = {"$ref": f"#/components/schemas/{kind}", "components": components}
    assert Draft202012Validator(schema).is_valid(body) == fits


def test_only_what_tells_nothing_is_public() -> None:
    assert {route.path for route in TABLE if route.public} == {"/healthz", "/readyz", "/v1/openapi.json"}


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
def test_an_address_leads_to_its_own_routes_only(route: Route) -> None:
    address = re.sub(r"\{path\}", "a/b%20c", re.sub(r"\{\w+_id\}", "4f9c", route.path))
    found = ADDRESSES.find(address)
    assert found.routes[route.method] is route
    assert {other.path for other in found.routes.values()} == {route.path}
    assert found.parameters.get("path", "a/b c") == "a/b c"


def test_the_codes_of_errors_are_distinct_words() -> None:
    codes = [error.code for error in every_error()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_every_route_says_what_it_does() -> None:
    assert all(summary and not summary.endswith(".") for _method, _path, summary in list_routes())
