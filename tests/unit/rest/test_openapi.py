"""The OpenAPI document: valid, complete, and made of the table that is served."""

from __future__ import annotations

import re

import pytest
from openapi_spec_validator import validate

from kernel_gateway.errors import every_error
from kernel_gateway.faces.rest import openapi, pattern
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE, documented


def test_the_document_is_valid_openapi() -> None:
    validate(openapi.as_dict())


def test_every_route_is_in_it_with_a_name_of_its_own() -> None:
    document = openapi.as_dict()
    operations = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(route.method, route.path) for route in TABLE}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)


def test_only_what_tells_nothing_is_public() -> None:
    assert {route.path for route in TABLE if route.public} == {"/healthz", "/readyz", "/v1/openapi.json"}


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
def test_an_address_matches_its_own_pattern_only(route: Route) -> None:
    address = re.sub(r"\{path\}", "a/b%20c", re.sub(r"\{\w+_id\}", "4f9c", route.path))
    matching = {other.path for other in TABLE if re.match(pattern(other.path), address)}
    assert matching == {route.path}


def test_the_codes_of_errors_are_distinct_words() -> None:
    codes = [error.code for error in every_error()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_every_route_says_what_it_does() -> None:
    assert all(summary and not summary.endswith(".") for _method, _path, summary in documented())
