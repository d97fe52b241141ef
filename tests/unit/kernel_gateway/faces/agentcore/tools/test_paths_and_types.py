"""Paths, uris, media types and line ends of the tools: pure functions over what callers and code may come up with."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore.tools.media_types import decode_text, find_media_type
from kernel_gateway.faces.agentcore.tools.paths import make_uri, parse_path
from kernel_gateway.faces.agentcore.tools.terminal import render_code_output, render_command_output


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", ""),
        (".", ""),
        ("/", ""),
        ("./", ""),
        ("//", ""),
        ("a.txt", "a.txt"),
        ("/a.txt", "a.txt"),
        ("/etc/passwd", "etc/passwd"),
        ("a//b/./c/", "a/b/c"),
        ("a/../b", "b"),
        ("a/..", ""),
        ("/workspace", ""),
        ("/workspace/a/b", "a/b"),
        ("/workspaces/a", "workspaces/a"),
        ("workspace/a", "workspace/a"),
        ("file:///demo/note.txt", "demo/note.txt"),
        ("file:///workspace/x", "x"),
        ("é/ü.txt", "é/ü.txt"),
        ("x" * 4096, "x" * 4096),
        ("a b%20?#", "a b%20?#"),
    ],
)
def test_a_path_is_one_in_the_workspace(given: str, path: str) -> None:
    assert parse_path(given) == path


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("..", "out of the workspace"),
        ("/../x", "out of the workspace"),
        ("a/../../x", "out of the workspace"),
        ("/workspace/../etc", "out of the workspace"),
        ("a\0b", "NUL"),
        ("x" * 4097, "4,096 bytes"),
        ("é" * 2049, "4,096 bytes"),
    ],
)
def test_what_leads_elsewhere_is_refused_with_why(given: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refused:
        parse_path(given)
    assert len(refused.value.message) < 200


def test_a_uri_gives_its_path_back() -> None:
    for path in ("a.txt", "demo/note.txt", "with space#?.csv"):
        assert make_uri(path) == f"file:///{path}"
        assert parse_path(make_uri(path)) == path


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("a.txt", "text/plain"),
        ("d/table.csv", "text/csv"),
        ("plot.png", "image/png"),
        ("x.json", "application/json"),
        ("n.ipynb", "application/x-ipynb+json"),
        ("s.ts", "text/x-typescript"),
        ("table.csv.gz", "application/gzip"),
        ("a.txt?x.png", "image/png"),
        ("Makefile", "application/octet-stream"),
        (".hidden", "application/octet-stream"),
        ("d.png/x", "application/octet-stream"),
    ],
)
def test_a_name_speaks_of_its_type(path: str, type_: str) -> None:
    assert find_media_type(path) == type_


def test_content_is_text_when_it_is_utf_8_without_nul() -> None:
    assert decode_text("é\r\n".encode()) == "é\r\n"
    assert decode_text(b"") == ""
    assert decode_text(b"a\0b") is None
    assert decode_text(b"\xff\xfe") is None


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("Hello World!!!\n", "Hello World!!!"),
        ("a\n\n", "a\n"),
        ("", ""),
        ("a\r\nb\r\n", "a\nb"),
        ("  0%\r 50%\r100%\n", "100%"),
        ("long text\rshort\n", "shorttext"),
        ("x\ry\rz", "z"),
        ("end\r", "end"),
        ("\rstart", "start"),
    ],
)
def test_code_prints_no_carriage_return(printed: str, text: str) -> None:
    assert render_code_output(printed) == text


def test_many_carriage_returns_take_no_time_to_speak_of() -> None:
    assert render_code_output("x" * 500_000 + "\ry" * 250_000) == "y" + "x" * 499_999


def test_a_command_s_lines_end_as_a_terminal_s() -> None:
    assert render_command_output("Hello world!\n") == "Hello world!\r\n"
    assert render_command_output("a\r\nb\nc") == "a\r\nb\r\nc"
