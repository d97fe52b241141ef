"""What each tool needs of its arguments: refused before anything is sent, with the argument's name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agentcore.tools import TOOLS, Arguments, checks, find_tool

ENOUGH: dict[str, dict[str, Any]] = {
    "executeCode": {"code": "1"},
    "executeCommand": {"command": "true"},
    "readFiles": {"paths": ["a"]},
    "listFiles": {},
    "removeFiles": {"paths": ["a"]},
    "writeFiles": {"content": [{"path": "a", "text": ""}]},
    "startCommandExecution": {"command": "true"},
    "getTask": {"taskId": "x"},
    "stopTask": {"taskId": "x"},
}


def arguments(given: dict[str, Any]) -> Arguments:
    return msgspec.convert(given, Arguments)


def test_there_are_the_nine_tools_of_the_model() -> None:
    assert list(TOOLS) == list(ENOUGH)


@pytest.mark.parametrize("name", list(ENOUGH))
def test_what_a_tool_needs_is_enough(name: str) -> None:
    assert callable(find_tool(name, arguments(ENOUGH[name])))


@pytest.mark.parametrize("name", [name for name in ENOUGH if name != "listFiles"])
def test_without_what_it_needs_a_tool_is_refused(name: str) -> None:
    needed = next(iter(ENOUGH[name]))
    for given in ({}, {needed: None}):
        with pytest.raises(InvalidRequest) as refused:
            find_tool(name, arguments(given))
        assert refused.value.details["field"] == f"arguments.{needed}"
        assert f"arguments.{needed}" in refused.value.message


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("executeCode", {"code": "1", "language": "ruby"}, "arguments.language"),
        ("executeCode", {"code": "1", "language": "Python"}, "arguments.language"),
        ("executeCode", {"code": "1", "language": "python", "runtime": "nodejs"}, "arguments.runtime"),
        ("executeCode", {"code": "1", "language": "javascript", "runtime": "python"}, "arguments.runtime"),
        ("executeCode", {"code": "1", "runtime": "bun"}, "arguments.runtime"),
        ("executeCommand", {"command": " \n"}, "arguments.command"),
        ("startCommandExecution", {"command": "a\0b"}, "arguments.command"),
        ("readFiles", {"paths": []}, "arguments.paths"),
        ("removeFiles", {"paths": ["x"] * 20_001}, "arguments.paths"),
        ("writeFiles", {"content": []}, "arguments.content"),
        ("writeFiles", {"content": [{"path": "x", "text": ""}] * 20_001}, "arguments.content"),
        ("writeFiles", {"content": [{"path": "x", "text": ""}, {"path": "y"}]}, "arguments.content[1]"),
        ("writeFiles", {"content": [{"path": "x", "text": "", "blob": ""}]}, "arguments.content[0]"),
        ("getTask", {"taskId": ""}, "arguments.taskId"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        find_tool(name, arguments(given))
    assert refused.value.details["field"] == field


def test_the_model_s_longest_text_is_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LONGEST_TEXT", 3)
    for name, given in (
        ("executeCode", {"code": "1234"}),
        ("executeCommand", {"command": "true"}),
        ("writeFiles", {"content": [{"path": "x", "text": "1234"}]}),
        ("writeFiles", {"content": [{"path": "x", "blob": "MTIzNA=="}]}),
    ):
        with pytest.raises(InvalidRequest, match="at most 3"):
            find_tool(name, arguments(given))


@pytest.mark.parametrize("name", ["nope", "", "executecode", "__class__"])
def test_an_unknown_tool_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(InvalidRequest, match="executeCode, executeCommand") as refused:
        find_tool(name, Arguments())
    assert refused.value.details["field"] == "name"


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ({}, "python"),
        ({"runtime": "python"}, "python"),
        ({"runtime": "deno"}, "javascript"),
        ({"runtime": "nodejs", "language": "typescript"}, "typescript"),
    ],
)
def test_the_language_follows_from_the_runtime(given: dict[str, Any], language: str) -> None:
    assert checks.find_language(arguments(given)) == language
