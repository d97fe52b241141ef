"""Every error of the service in Google's shape: status and code that belong together, and details of known types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as f
from kernel_gateway.faces.agent_engine.errors import STATUS, describe_error
from tests.unit.kernel_gateway.faces.made_errors import make_error


def described(error: e.GatewayError) -> dict[str, Any]:
    found = describe_error(error)
    body: dict[str, Any] = json.loads(found.body)["error"]
    assert (found.status, found.code) == (body["code"], body["status"])
    return body


@pytest.mark.parametrize("kind", e.every_error(), ids=lambda kind: kind.__name__)
def test_every_error_has_googles_shape(kind: type[e.GatewayError]) -> None:
    body = described(make_error(kind))
    assert body["code"] == STATUS[body["status"]]
    assert body["message"]
    assert body["details"][0]["reason"] == kind.code.upper()


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (e.Unauthorized, "UNAUTHENTICATED"),
        (e.Forbidden, "PERMISSION_DENIED"),
        (e.NotFound, "NOT_FOUND"),
        (e.InvalidRequest, "INVALID_ARGUMENT"),
        (e.PayloadTooLarge, "INVALID_ARGUMENT"),
        (e.SessionLimit, "RESOURCE_EXHAUSTED"),
        (e.RateLimited, "RESOURCE_EXHAUSTED"),
        (e.SessionTerminated, "FAILED_PRECONDITION"),
        (e.ShuttingDown, "UNAVAILABLE"),
        (f.NotOffered, "UNIMPLEMENTED"),
        (f.UnknownRoute, "NOT_FOUND"),
    ],
)
def test_which_status(kind: type[e.GatewayError], status: str) -> None:
    assert described(make_error(kind))["status"] == status


def test_details() -> None:
    at_fault = described(e.InvalidRequest("a sentence", field="ttl"))["details"][1]
    assert at_fault["fieldViolations"] == [{"field": "ttl", "description": "a sentence"}]
    assert described(e.RateLimited("later", retry_after_seconds=2))["details"][1]["retryDelay"] == "2.0s"
