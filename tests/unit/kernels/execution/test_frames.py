"""What a kernel answers about a table: its form is all that is believed."""

from __future__ import annotations

import base64
import json

import pytest

from kernels.errors import SandboxFailed
from kernels.execution.frames import (
    LONGEST_TEXT,
    MOST_ANSWER_BYTES,
    MOST_BINS,
    MOST_COLUMNS,
    MOST_FREQUENT,
    MOST_ROWS,
    parse_answer,
)

ANSWER = {
    "status": "ok",
    "found": True,
    "table": True,
    "columns": [["city", "str"], ["mm", "float64"]],
    "rows": [["0", "Oslo", "22.25"]],
    "total": 1,
    "wide": 2,
}

PICTURE = {
    "height": 1,
    "width": 2,
    "channels": 2,
    "data": base64.b64encode(b"\0\xff\xff\xff").decode(),
    "minimum": "0",
    "maximum": "1",
    "down": 1,
    "across": 1,
}


def answer(**other: object) -> bytes:
    return json.dumps({**ANSWER, **other}).encode()


def test_rows_have_a_label_and_a_cell_for_each_column() -> None:
    found = parse_answer(answer())
    assert (found.found, found.table, found.total, found.wide) == (True, True, 1, 2)
    assert found.columns == [("city", "str"), ("mm", "float64")]
    assert found.rows == [["0", "Oslo", "22.25"]]


def test_columns_have_summaries_as_far_as_there_was_time_and_values_are_pictures_or_texts() -> None:
    summary = {"missing": 1, "minimum": "0", "maximum": "1", "counts": [1, 2], "edges": ["0", "0.5", "1"]}
    found = parse_answer(answer(summaries=[summary], summarized=4, stopped=True))
    assert (found.summaries[0].counts, found.summarized, found.stopped) == ([1, 2], 4, True)
    picture = parse_answer(answer(picture=PICTURE)).picture
    assert picture is not None
    assert (picture.height, picture.width) == (1, 2)
    assert parse_answer(answer(text="'Oslo'", cut=True)).text == "'Oslo'"


@pytest.mark.parametrize(
    "lie",
    [
        {"summaries": [{}] * 3},
        {"summaries": [{"counts": [1]}]},
        {"summaries": [{"edges": ["0"]}]},
        {"summaries": [{"counts": [1, -1], "edges": ["0", "1", "2"]}]},
        {"summaries": [{"counts": [1] * (MOST_BINS + 1), "edges": ["0"] * (MOST_BINS + 2)}]},
        {"summaries": [{"frequent": [["Oslo", 1]] * (MOST_FREQUENT + 1)}]},
        {"summaries": [{"frequent": [["Oslo", "1"]]}]},
        {"picture": {**PICTURE, "height": 2}},
        {"picture": {**PICTURE, "height": 2**40}},
        {"picture": {**PICTURE, "channels": 3}},
        {"picture": {**PICTURE, "data": "<script>"}},
        {"text": "x" * (LONGEST_TEXT + 1)},
        {"status": "error", "evalue": "no"},
        {"rows": [["0", "Oslo"]]},
        {"rows": [["0", "Oslo", "1", "2"]]},
        {"rows": [["0", "Oslo", 1]]},
        {"rows": [["0", "x" * 2_001, "1"]]},
        {"rows": [["0", "a", "b"]] * (MOST_ROWS + 1)},
        {"columns": [["a", "b"]] * (MOST_COLUMNS + 1), "rows": []},
        {"total": -1},
        {"found": "yes"},
    ],
)
def test_what_is_no_answer_is_refused(lie: dict[str, object]) -> None:
    with pytest.raises(SandboxFailed):
        parse_answer(answer(**lie))


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b" " * (MOST_ANSWER_BYTES + 1)])
def test_what_is_not_even_json_is_refused(content: bytes) -> None:
    with pytest.raises(SandboxFailed):
        parse_answer(content)
