"""Small bodies and queries, their members under either name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agent_engine.requests import (
    CreateEngine,
    CreateSandbox,
    read_body,
    read_duration,
    read_query,
)


@pytest.mark.parametrize(
    "body",
    [
        {"displayName": "a", "spec": {"codeExecutionEnvironment": {"codeLanguage": "L"}}, "expireTime": "t"},
        {"display_name": "a", "spec": {"code_execution_environment": {"code_language": "L"}}, "expire_time": "t"},
        {
            "displayName": "a",
            "spec": {"code_execution_environment": {"codeLanguage": "L"}},
            "expire_time": "t",
            "no": 1,
        },
    ],
)
def test_members_under_both_names(body: dict[str, Any]) -> None:
    found = read_body(json.dumps(body).encode(), CreateSandbox)
    assert (found.display_name, found.expire_time) == ("a", "t")
    assert found.spec.code_execution_environment.code_language == "L"


def test_an_empty_body_and_labels_as_they_came() -> None:
    assert read_body(b"", CreateSandbox) == CreateSandbox()
    assert read_body(b'{"labels": {"my_key": "my_value"}}', CreateEngine).labels == {"my_key": "my_value"}


@pytest.mark.parametrize("body", [b"[]", b"1", b'{"displayName": 1}', b'{"spec": []}', b'{"ttl": 3600}', b"{", b"\xff"])
def test_bodies_that_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_body(body, CreateSandbox)


def test_queries() -> None:
    found = read_query("pageSize=5&page_token=t&filter=a%3D%22b%22&force=true&%24alt=json&alt=json")
    assert (found.page_size, found.page_token, found.filter, found.force) == (5, "t", 'a="b"', True)


@pytest.mark.parametrize("query", ["pageSize=x", "pageSize=-1", "force=maybe", "&".join(f"a{n}=1" for n in range(40))])
def test_queries_that_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequest):
        read_query(query)


@pytest.mark.parametrize(("text", "seconds"), [("3600s", 3600), ("3.5s", 4), ("0s", 0), ("31536000s", 31_536_000)])
def test_durations(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "3600", "-1s", "1m", "1e3s", "٣s", "1s\n"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_duration(text)
