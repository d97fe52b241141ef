"""Sandbox ids, keys, templates and paths as E2B's clients write them."""

from __future__ import annotations

import uuid

import pytest

from kernel_gateway.errors import InvalidRequest, NotFound, Unauthorized
from kernel_gateway.faces.e2b.identifiers import (
    choose_environment,
    format_key,
    format_sandbox_id,
    parse_key,
    parse_sandbox_id,
    resolve_path,
)


def test_sandboxes() -> None:
    session = str(uuid.uuid4())
    short = format_sandbox_id(session)
    assert short.isalnum()
    assert [parse_sandbox_id(each) for each in (short, f"{short}-sandcell", session)] == [session] * 3
    for wrong in ("", "x", short[1:], short + "/", "debug_sandbox_id"):
        with pytest.raises(NotFound):
            parse_sandbox_id(wrong)


def test_keys() -> None:
    token = "sandcell_abc-DEF"
    key = format_key(token)
    assert key.removeprefix("e2b_").isalnum()
    assert [parse_key(each) for each in (key, token)] == [token, token]
    for wrong in ("e2b_xyz", "e2b_ff", "x" * 3_000):
        with pytest.raises(Unauthorized):
            parse_key(wrong)


def test_templates() -> None:
    found = [choose_environment(each, "python") for each in ("base", "code-interpreter-v1", "data", "data:latest")]
    assert found == ["python", "python", "data", "data"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a", "/home/user/a"),
        ("./a//b/", "/home/user/a/b"),
        ("~/a", "/home/user/a"),
        ("", "/home/user"),
        ("/tmp/../etc/x", "/etc/x"),
        ("../../../..", "/"),
        ("~a", "/home/user/~a"),
    ],
)
def test_paths(given: str, found: str) -> None:
    assert resolve_path(given) == found


def test_paths_that_are_none() -> None:
    for path, user in (("a\0", ""), ("x" * 5_000, ""), ("a", "root")):
        with pytest.raises(InvalidRequest):
            resolve_path(path, user)
