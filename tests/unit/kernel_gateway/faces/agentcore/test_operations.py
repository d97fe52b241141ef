"""The table against botocore's own model: methods, paths, statuses; and what an address may look like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.loaders import Loader

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore import operations
from kernel_gateway.faces.errors import MethodNotAllowed, UnknownRoute


def find(method: str, path: str) -> tuple[operations.Operation, Mapping[str, str]]:
    address = operations.find_address(path)
    return operations.require(address, method), address.parameters


ARN = "arn:aws:bedrock-agentcore:us-west-2:123456789012:code-interpreter-custom/my_ci-AAAAAAAAAA"
QUOTED = "arn%3Aaws%3Abedrock-agentcore%3Aus-west-2%3A123456789012%3Acode-interpreter-custom%2Fmy_ci-AAAAAAAAAA"


def modelled() -> dict[str, dict[str, Any]]:
    """Every operation of both services that is about code interpreters or tags."""
    found = {}
    for service in ("bedrock-agentcore", "bedrock-agentcore-control"):
        model = Loader().load_service_model(service, "service-2")
        for name, operation in model["operations"].items():
            if "CodeInterpreter" in name or name in ("TagResource", "UntagResource", "ListTagsForResource"):
                found[name] = operation["http"]
    return found


def test_every_operation_of_the_model_is_in_the_table_as_it_is_there() -> None:
    ours = {each.name: (each.method, each.path, each.status) for each in operations.TABLE}
    theirs = {
        name: (http["method"], http["requestUri"].rstrip("/") or "/", http.get("responseCode", 200))
        for name, http in modelled().items()
    }
    assert ours == theirs


@pytest.mark.parametrize("prefix", ["", "/prefix", "/a/b", "/code-interpreters"])
@pytest.mark.parametrize("operation", operations.TABLE, ids=lambda each: each.name)
def test_operations_are_found_by_their_raw_path(operation: operations.Operation, prefix: str) -> None:
    if prefix == "/code-interpreters" and operation.path == operations.CI:
        return  # that is the address of a code interpreter of this name
    path = prefix + re.sub(r"\{\w+\}", QUOTED, operation.path)
    found, labels = find(operation.method, path)
    assert found is operation
    assert set(labels.values()) <= {ARN}
    assert len(labels) == operation.path.count("{")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/tags",
        "/code-interpreters/",
        "/code-interpreters//sessions/get",
        "/code-interpreters/a/../b",
        "/./code-interpreters",
        "/code-interpreters/a/sessions",
        f"/tags/{ARN}",
        "/CODE-INTERPRETERS",
        "/code-interpreters/a/sessions/get/",
    ],
)
def test_other_addresses_are_unknown(path: str) -> None:
    with pytest.raises(UnknownRoute):
        find("GET", path)


def test_a_path_of_very_many_parts_costs_no_more_than_reading_it() -> None:
    """Nobody has signed anything yet: with work that grows as its square this would not end in time."""
    with pytest.raises(UnknownRoute):
        find("GET", "/a" * 1_000_000)


def test_a_wrong_method_is_told_the_right_ones() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        find("POST", "/code-interpreters/x/sessions/start")
    assert caught.value.allowed == ["PUT"]


def outside(name: str, query: str = "", headers: dict[str, str] | None = None, **labels: str) -> Any:
    operation = next(each for each in operations.TABLE if each.name == name)
    return operations.read_outside(operation, labels, query, headers or {})


def test_the_query_is_decoded_as_it_was_signed() -> None:
    found = outside("UntagResource", "tagKeys=b%20c&tagKeys=a+b", resourceArn=ARN)
    assert found.tag_keys == ["b c", "a+b"]
    assert outside("ListCodeInterpreters", "type=CUSTOM&maxResults=1&nextToken=tok%3D1%2F2").next_token == "tok=1/2"
    presigned = "sessionId=abc&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00"
    assert outside("GetCodeInterpreterSession", presigned, codeInterpreterIdentifier="x").session_id == "abc"


@pytest.mark.parametrize(
    ("name", "query", "field"),
    [
        ("GetCodeInterpreterSession", "", "sessionId"),
        ("GetCodeInterpreterSession", "sessionId=a&sessionId=b", "sessionId"),
        ("GetCodeInterpreterSession", "sessionId=bad-id", "sessionId"),
        ("GetCodeInterpreterSession", "sessionId=" + "a" * 41, "sessionId"),
        ("ListCodeInterpreters", "maxResults=0", "maxResults"),
        ("ListCodeInterpreters", "maxResults=101", "maxResults"),
        ("ListCodeInterpreters", "maxResults=ten", "maxResults"),
        ("ListCodeInterpreters", "type=BOTH", "type"),
        ("ListCodeInterpreters", "nextToken=a%20b", "nextToken"),
        ("DeleteCodeInterpreter", "clientToken=short", "clientToken"),
        ("UntagResource", "tagKeys=%C3%A9", "tagKeys[0]"),
        ("InvokeCodeInterpreter", "sessionId=a", "sessionId"),
    ],
)
def test_a_query_that_does_not_fit_is_refused_by_name(name: str, query: str, field: str) -> None:
    labels = {"codeInterpreterIdentifier": "x", "codeInterpreterId": "x", "resourceArn": ARN}
    with pytest.raises(InvalidRequest) as caught:
        outside(name, query, **labels)
    assert caught.value.details["field"] == field


def test_headers_are_members() -> None:
    headers = {operations.SESSION: "abc", "x-amzn-trace-id": "t" * 1024}
    found = outside("InvokeCodeInterpreter", "", headers, codeInterpreterIdentifier="x")
    assert (found.session_id, len(found.trace_id)) == ("abc", 1024)
    with pytest.raises(InvalidRequest, match="traceId"):
        outside("InvokeCodeInterpreter", "", {**headers, "x-amzn-trace-id": "t" * 1025}, codeInterpreterIdentifier="x")
    with pytest.raises(InvalidRequest, match="idleTimeoutSeconds"):
        outside("StartCodeInterpreterSession", "", {operations.IDLE: "0"}, codeInterpreterIdentifier="x")
