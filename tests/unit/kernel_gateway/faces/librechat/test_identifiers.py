"""Ids of LibreChat's form: 21 characters that stand for a UUID or a path."""

from __future__ import annotations

import re
import uuid

import pytest

from kernel_gateway.errors import InvalidRequest, NotFound
from kernel_gateway.faces.librechat.identifiers import clean_path, format_id, identify_file, parse_id, split_token

FORM = re.compile(r"[A-Za-z0-9_-]{21}")


def test_an_id_is_a_workspace_and_back() -> None:
    for _ in range(500):
        workspace_id = str(uuid.uuid4())
        assert FORM.fullmatch(format_id(workspace_id))
        assert parse_id(format_id(workspace_id)) == workspace_id


UNUSED_BITS = format_id("7d2b8d0e-5c3a-4f6e-9a1b-0c2d3e4f5a6b")[:20] + "_"


@pytest.mark.parametrize("text", ["", "x" * 20, "x" * 22, "x" * 20 + ".", UNUSED_BITS])
def test_what_is_no_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        parse_id(text)


def test_a_file_has_one_id() -> None:
    assert FORM.fullmatch(identify_file("a/b.txt"))
    assert identify_file("a/b.txt") == identify_file("a/b.txt") != identify_file("a/c.txt")


@pytest.mark.parametrize(
    ("name", "path"),
    [("a.txt", "a.txt"), ("a//b/./c", "a/b/c"), ("/mnt/data/a", "a"), ("/etc/passwd", "etc/passwd"), ("a\\b", "a/b")],
)
def test_names_are_paths_below_the_workspace(name: str, path: str) -> None:
    assert clean_path(name) == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "a\0", "x" * 2_000, "\ud800"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        clean_path(name)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/librechat/v1/exec", ("/librechat/v1/exec", "")),
        ("/librechat/sandcell_x/v1/exec", ("/librechat/v1/exec", "sandcell_x")),
        ("/librechat/v1/v1/exec", ("/librechat/v1/v1/exec", "")),
        ("/librechat/x/exec", ("/librechat/", "x")),
        ("/librechat/x", ("/librechat/", "x")),
        ("/librechat/x//v1/exec", ("/librechat/v1/exec", "x")),
        ("//librechat//x/v1/exec", ("/librechat/v1/exec", "x")),
        ("/librechat//v1/exec", ("/librechat/v1/exec", "")),
        ("/librechat/a%2Fb%25/v1/exec", ("/librechat/v1/exec", "a/b%")),
        ("/librechat/a/b/v1/exec", ("/librechat/v1/exec", "a/b")),
        ("http://host:1/librechat/x/v1/exec", ("/librechat/v1/exec", "x")),
        ("/v1/librechat/x/v1/exec", ("/v1/librechat/x/v1/exec", "")),
    ],
)
def test_a_token_stands_before_the_version(path: str, found: tuple[str, str]) -> None:
    assert split_token(path) == found
