"""File paths in addresses: which are refused, and that every other name a file system takes is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.faces.errors import InvalidPath
from kernel_gateway.faces.rest.paths import check_directory, check_path

LONGEST = "n" * 255


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "../x",
        "a/../b",
        "a/..",
        "a//b",
        "a/",
        ".",
        "./a",
        "a/./b",
        "a\0b",
        "a\nb",
        "a\rb",
        LONGEST + "n",
        "ä" * 128,
        "/".join([LONGEST] * 17),
        "half a pair \ud800",
    ],
)
def test_a_path_that_is_not_below_the_workspace_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    ["a", "a/b/c.txt", "..a", "a..", "...", "back\\slash", "..\\x", "a b", "tab\t", "ü", "\udcff", "~", "-rf", LONGEST],
)
def test_any_other_name_is_kept(path: str) -> None:
    assert check_path(path) == path
    assert check_directory(path) == path


@pytest.mark.parametrize("path", ["", ".", "./"])
def test_the_workspace_itself_can_be_listed(path: str) -> None:
    assert check_directory(path) == ""


@pytest.mark.parametrize("path", ["/", "//", "..", "a/../b", "/etc", "a\0"])
def test_a_directory_outside_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        check_directory(path)


@given(st.binary(min_size=1, max_size=300))
def test_what_is_let_through_stays_below_the_workspace(name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    try:
        assert check_path(text) == text
    except InvalidPath:
        return
    parts = name.split(b"/")
    assert not {b"", b".", b".."} & set(parts)
    assert not set(b"\0\n\r") & set(name)
