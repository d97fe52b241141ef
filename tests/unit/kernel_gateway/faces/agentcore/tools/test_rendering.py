"""Executions and commands as results: blocks, structured content, error flag, as the wire has them."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import NoSpace
from kernel_gateway.faces.agentcore.tools import MOST_PAYLOAD_BYTES, Result, describe_failure, fit
from kernel_gateway.faces.agentcore.tools.commands import describe_command, describe_task
from kernel_gateway.faces.agentcore.tools.figures import find_unasked
from kernel_gateway.faces.agentcore.tools.rendering import render
from kernel_gateway.faces.agentcore.tools.results import ContentBlock, StructuredContent, join_names, make_text_block
from sandcell.models.commands import Command
from sandcell.models.executions import Death, Execution, ExecutionError

PNG = b"\x89PNG\r\n\x1a\n and more"
TIMES = {"started_at": "2026-01-02T03:04:05.000000Z", "ended_at": "2026-01-02T03:04:06.500000Z"}


def execution(status: str = "ok", **fields: Any) -> Execution:
    made: dict[str, Any] = {"id": "e", "session_id": "s", "language": "python", "code": "", "generation": 1}
    return Execution(status=status, queued_at=TIMES["started_at"], **made, **{**TIMES, **fields})  # type: ignore[arg-type]


def wire(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(msgspec.json.encode(result))
    return value


def shown(kind: str, **data: Any) -> dict[str, Any]:
    return {"output_type": kind, "data": {name.replace("_", "/", 1): value for name, value in data.items()}}


def test_a_print_is_one_block_and_its_line_end_is_stripped() -> None:
    assert wire(render(execution(stdout="Hello World!!!\n"))) == {
        "content": [{"type": "text", "text": "Hello World!!!"}],
        "isError": False,
        "structuredContent": {"stdout": "Hello World!!!", "stderr": "", "exitCode": 0, "executionTime": 1.5},
    }


def test_what_prints_nothing_has_one_empty_block() -> None:
    assert wire(render(execution()))["content"] == [{"type": "text", "text": ""}]


def test_an_error_is_a_block_after_what_was_printed_and_is_in_stderr() -> None:
    traceback = [
        "-----",
        "ZeroDivisionError  Traceback",
        "ZeroDivisionError: division by zero",
    ]
    failed = execution("error", stdout="hi\n", error=ExecutionError("ZeroDivisionError", "division by zero", traceback))
    text = "\n".join(traceback)
    assert wire(render(failed)) == {
        "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": text}],
        "isError": True,
        "structuredContent": {"stdout": "hi", "stderr": text, "exitCode": 1, "executionTime": 1.5},
    }


def test_an_error_without_a_traceback_is_its_name_and_value() -> None:
    refused = wire(render(execution("rejected", error=ExecutionError("NoSpace", "the disk is full", []))))
    assert refused["content"] == [{"type": "text", "text": "NoSpace: the disk is full"}]
    assert (refused["isError"], refused["structuredContent"]["exitCode"]) == (True, 1)


def test_results_stand_between_stdout_and_stderr_and_count_as_printed() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "out\n"},
        shown("display_data", text_html="<b>", text_plain="   a\n0  1"),
        shown("execute_result", text_plain="2"),
    ]
    made = wire(render(execution(stdout="out\n", stderr="warned\r\n", outputs=outputs)))
    assert [block["text"] for block in made["content"]] == ["out", "   a\n0  1", "2", "warned"]
    assert made["structuredContent"]["stdout"] == "out\n   a\n0  1\n2"
    assert made["structuredContent"]["stderr"] == "warned"


def test_a_displayed_image_is_a_block_unless_something_is_to_be_said_instead() -> None:
    data = base64.encodebytes(PNG).decode()
    outputs = [
        shown("display_data", text_plain="<Figure size 640x480>", image_png=data),
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}},
        shown("display_data", text_plain="fallback", image_png="no base64!"),
        {"output_type": "display_data", "data": None},
        {"output_type": "error", "ename": "E", "evalue": "", "traceback": []},
    ]
    made = wire(render(execution(outputs=outputs)))
    assert made["content"] == [
        {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
        {"type": "image", "data": base64.b64encode(b"<svg/>").decode(), "mimeType": "image/svg+xml"},
        {"type": "text", "text": "fallback"},
    ]
    assert made["structuredContent"]["stdout"] == "fallback"
    blocks = wire(render(execution(outputs=outputs), {0: "saved as a file"}))["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "text"]
    assert blocks[0]["text"] == "saved as a file"


def test_figures_and_values_were_not_asked_for_as_images() -> None:
    data = base64.encodebytes(PNG).decode()
    outputs = [
        shown("display_data", text_plain="<Figure size 640x480>", image_png=data),
        shown("display_data", text_plain="<IPython.core.display.Image object>", image_png=data),
        shown("execute_result", text_plain="<PIL.Image.Image>", image_png=data),
        shown("execute_result", text_plain="<Figure size 1x1>", image_png="no base64!"),
        shown("execute_result", text_plain="2"),
        {"output_type": "stream", "name": "stdout", "text": "out"},
    ]
    assert [(each.output, each.stem, each.content) for each in find_unasked(outputs)] == [
        (0, "figure", PNG),
        (2, "image", PNG),
    ]


@pytest.mark.parametrize(
    ("status", "death", "exit_code", "said"),
    [
        ("timeout", None, 124, "Its variables are kept"),
        ("timeout", Death("deadline", "its kernel was killed; its globals are gone"), 124, "its globals are gone"),
        ("interrupted", None, 130, "was interrupted"),
        ("died", Death("oom", "all of its memory was used", signal="SIGKILL"), 137, "all of its memory"),
        ("died", Death("exit", "the kernel exited with status 3", exit_code=3), 3, "status 3"),
    ],
)
def test_an_end_that_code_did_not_choose_is_explained(
    status: str, death: Death | None, exit_code: int, said: str
) -> None:
    made = wire(render(execution(status, stdout="so far\n", death=death)))
    assert (made["isError"], made["structuredContent"]["exitCode"]) == (True, exit_code)
    assert made["content"][0]["text"] == "so far"
    assert said.lower() in made["content"][1]["text"].lower()
    assert made["structuredContent"]["stderr"] == made["content"][1]["text"]


def test_an_execution_that_never_ran_took_no_time() -> None:
    assert wire(render(execution("rejected", started_at=None)))["structuredContent"]["executionTime"] == 0


def test_a_command_that_ends_well_has_its_output_in_stdout() -> None:
    assert wire(describe_command(Command("i", "done", "Hello world!\n", exit_code=0, duration_seconds=0.25))) == {
        "content": [{"type": "text", "text": "Hello world!\r\n"}],
        "isError": False,
        "structuredContent": {"stdout": "Hello world!\r\n", "stderr": "", "exitCode": 0, "executionTime": 0.25},
    }


def test_a_command_that_fails_has_all_its_output_in_stderr() -> None:
    made = wire(describe_command(Command("i", "done", "out\nerr\n", exit_code=3)))
    assert made["content"] == [{"type": "text", "text": "out\r\nerr\r\n"}]
    assert made["isError"]
    about = {"stdout": "", "stderr": "out\r\nerr\r\n", "exitCode": 3, "executionTime": 0.0}
    assert made["structuredContent"] == about
    silent = wire(describe_command(Command("i", "done", exit_code=1)))
    assert (silent["content"][0]["text"], silent["structuredContent"]["stderr"]) == (
        "The command ended with exit code 1",
        "",
    )


@pytest.mark.parametrize("so_far", ["so far\n", "so far"])
def test_a_command_past_its_time_says_so_in_a_line_also_when_it_ended_well(so_far: str) -> None:
    made = wire(describe_command(Command("i", "timeout", so_far, exit_code=0, timed_out=True)))
    assert made["isError"]
    assert made["structuredContent"]["stderr"].startswith("so far\r\nThe command ran longer")


@pytest.mark.parametrize(
    ("task", "is_error", "status", "text"),
    [
        (Command("i", "done", "x\n", exit_code=0), False, "completed", "x\r\n"),
        (Command("i", "done", "x\n", exit_code=3), True, "failed", "x\r\n"),
        (Command("i", "timeout", "", exit_code=143, timed_out=True), True, "failed", "The command ran longer"),
        (Command("i", "stopped", "x\n", exit_code=143), False, "canceled", "Task is canceled"),
        (Command("i", "lost"), True, "failed", "The task ended with its sandbox"),
    ],
)
def test_a_task_that_ended(task: Command, is_error: bool, status: str, text: str) -> None:
    made = wire(describe_task(task))
    assert (made["isError"], made["structuredContent"]["taskStatus"]) == (is_error, status)
    assert made["content"][0]["text"].startswith(text)
    assert made["structuredContent"].get("exitCode") == task.exit_code


def test_an_error_of_the_service_is_a_result() -> None:
    assert wire(describe_failure(NoSpace("the disk is full"))) == {
        "content": [{"type": "text", "text": "the disk is full"}],
        "isError": True,
    }


def test_what_one_message_cannot_hold_is_left_out_and_said() -> None:
    image = ContentBlock("image", data=b"x" * 20_000_000, mime_type="image/png")
    about = StructuredContent(stdout="y" * 1_000_000, stderr="", exit_code=0)
    made = fit(Result([make_text_block("z" * 1_000_000), image], is_error=False, structured_content=about))
    assert len(msgspec.json.encode(made)) < 2_000_000
    assert made.is_error
    told = wire(made)
    assert "one answer holds 25,165,824" in told["content"][0]["text"]
    assert "bytes cut" in told["content"][1]["text"]
    assert [block["type"] for block in told["content"]] == ["text", "text"]
    assert told["structuredContent"]["exitCode"] == 0
    worst = Result([make_text_block("\0" * 10_000_000)] * 20, is_error=False, structured_content=about)
    assert len(msgspec.json.encode(fit(worst))) <= MOST_PAYLOAD_BYTES


def test_what_one_message_holds_is_untouched() -> None:
    overhead = len(msgspec.json.encode(Result([make_text_block("")], is_error=False)))
    whole = Result([make_text_block("x" * (MOST_PAYLOAD_BYTES - overhead))], is_error=False)
    assert fit(whole) is whole
    assert fit(Result([make_text_block("x" * (MOST_PAYLOAD_BYTES - overhead + 1))], is_error=False)).is_error


def test_many_names_are_counted() -> None:
    assert join_names(["a", "b"]) == "a, b"
    assert join_names([str(each) for each in range(5)], 2) == "0, 1 and 3 more"
