"""Results as a model reads them: order, cleaning, cutting, how things ended."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from sandcell.models.commands import Command
from sandcell.models.executions import (
    Death,
    Event,
    Execution,
    ExecutionError,
    ExecutionStatus,
    LargeVariable,
    MemoryShortage,
    Truncated,
)
from sandcell.models.inspection import Variable, Variables
from sandcell.models.replays import CellReplay, Replay
from sandcell.tools import rendering, toolbox
from sandcell.tools.contents import Image, Link, Text

PNG = base64.b64encode(b"\x89PNG picture").decode()


def execution(*outputs: dict[str, Any], status: ExecutionStatus = "ok", **more: Any) -> Execution:
    return Execution("e", "s", status, "python", "code", 1, "then", outputs=list(outputs), **more)


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {name.replace("_", "/"): value for name, value in data.items()}}


def test_outputs_stay_in_order_and_streams_run_together() -> None:
    result = rendering.render_execution(
        execution(stream("a\n"), stream("warned\n", "stderr"), shown(image_png=PNG, text_plain="x"), stream("b\n")),
        1_000,
        "rest",
    )
    assert result.contents == (Text("a\nwarned"), Image(b"\x89PNG picture", "image/png"), Text("b"))
    assert not result.is_error


def test_what_shows_nothing_says_so() -> None:
    assert rendering.render_execution(execution(), 1_000, "rest").text == "(no output)"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("windows\r\nlines\r\n", "windows\r\nlines\r\n"),
        ("\x1b]8;;https://a.example\x07link\x1b]8;;\x07", "link"),
    ],
)
def test_terminal_codes_are_carried_out(text: str, cleaned: str) -> None:
    assert rendering.clean(text) == cleaned


@pytest.mark.parametrize("size", [1_000, 1_001, 1_002, 5_000])
@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_a_cut_keeps_head_and_tail_and_says_where_the_rest_is(size: int, pieces: int) -> None:
    whole = "".join(chr(ord("a") + number * 26 // size) for number in range(size))
    step = -(-size // pieces)
    outputs = [shown(text_plain=whole[start : start + step]) for start in range(0, size, step)]
    result = rendering.render_execution(execution(*outputs), 1_000, "sandcell://rest")
    texts = [each.text for each in result.contents if isinstance(each, Text)]
    if size <= 1_000:
        assert "".join(texts) == whole
        return
    (marker,) = [each for each in texts if each.startswith("[...")]
    at = texts.index(marker)
    assert "".join(texts[:at]) == whole[:400]
    assert "".join(texts[at + 1 :]) == whole[-600:]
    assert f"{size - 1_000:,} of {size:,} bytes" in marker
    assert 'read_file(path="sandcell://rest", offset=400)' in marker
    assert result.contents[-1] == Link("sandcell://rest", "all of the output")


def test_a_cut_never_splits_a_character() -> None:
    result = rendering.render_execution(execution(stream("ä" * 3_001)), 1_001, "rest")
    assert set(result.contents[0].text) == {"ä"}  # type: ignore[union-attr]
    assert set(result.contents[2].text) == {"ä"}  # type: ignore[union-attr]


LARGE = LargeVariable("table", "DataFrame", 300 << 20)
SHORT = MemoryShortage("interrupted", 486 << 20, 512 << 20, "486 of 512 MB", [LARGE])


@pytest.mark.parametrize(
    ("status", "more", "said"),
    [
        ("error", {"error": ExecutionError("ValueError", "no", ["Traceback", "ValueError: no"])}, "Traceback\nValueE"),
        ("timeout", {}, "was stopped; variables are kept"),
        ("timeout", {"death": Death("deadline", "its globals are gone")}, "its globals are gone"),
        ("interrupted", {}, "interrupted; variables are kept"),
        ("died", {"death": Death("oom", "out of memory at 2 GB")}, "Python ended: out of memory at 2 GB."),
        ("interrupted", {"why": "it never began"}, "[it never began]"),
        ("error", {"memory": SHORT}, "[486 of 512 MB. Largest: table (DataFrame, 300.0 MB)]"),
    ],
)
def test_how_it_ended(status: ExecutionStatus, more: dict[str, Any], said: str) -> None:
    result = rendering.render_execution(execution(status=status, **more), 1_000, "rest")
    assert said in result.text
    assert result.is_error


def test_what_the_session_has_cut_is_said() -> None:
    text = rendering.render_execution(execution(stream("a"), truncated=Truncated(stdout=7)), 1_000, "rest").text
    assert "all but 7 bytes" in text


def test_images_that_are_too_many_or_none_are_text() -> None:
    result = rendering.render_execution(execution(*[shown(image_png=PNG, text_plain="figure")] * 12), 1_000, "rest")
    assert (len(result.images), result.text.count("figure")) == (rendering.MOST_IMAGES, 2)
    broken = rendering.render_execution(execution(shown(image_png="no base64!", text_plain="figure")), 1_000, "rest")
    assert broken.text == "figure"


def test_a_command_shows_its_streams_and_its_end() -> None:
    done = Command("c", "done", stdout="out\n", stderr="err\n", exit_code=2)
    result = rendering.render_command(done, 1_000, "")
    assert (result.text, result.is_error) == ("out\n[stderr]\nerr\n[exit code 2]", True)
    assert rendering.render_command(Command("c", "done", exit_code=0), 1_000, "").text == "(no output)"
    assert "ran longer" in rendering.render_command(Command("c", "timeout", timed_out=True), 1_000, "").text


def test_variables_and_replays() -> None:
    found = Variables(1, [Variable("x", "int", preview="41"), Variable("t", "DataFrame", shape=[2, 3])], omitted=1)
    text = rendering.render_variables(found, 1_000).text
    assert text == "x: int = 41\nt: DataFrame, shape (2, 3)\n[1 more]"
    cells = [CellReplay(1, "a", "same"), CellReplay(2, "b", "different", "it printed more", "-1\n+2")]
    replay = Replay("r", "done", "s", 2, "then", verdicts=cells, counts={"same": 1, "different": 1})
    assert rendering.render_replay(replay, 1_000).text == (
        "Not the same: 1 same, 1 different.\nCell 2: different. it printed more\n-1\n+2"
    )


def test_what_is_printed_and_that_memory_runs_short_is_told_while_code_runs() -> None:
    lines: list[str] = []
    tell = toolbox._pass_on(lines.append)
    table = {"name": "table", "type": "DataFrame", "size_bytes": 300 << 20}
    short = {"level": "warning", "held_bytes": 486 << 20, "limit_bytes": 512 << 20, "detail": "486 of 512 MB"}
    told = (
        ("started", {}),
        ("stream", {"text": "hello\n"}),
        ("memory", short),
        ("memory", {**short, "largest": [table]}),
    )
    for kind, data in told:
        tell(Event(1, kind, data))
    assert lines == ["hello\n", "[486 of 512 MB]", "[486 of 512 MB. Largest: table (DataFrame, 300.0 MB)]"]
