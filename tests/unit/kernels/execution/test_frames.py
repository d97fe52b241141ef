"""What a kernel answers about a table: its form is all that is believed."""

from __future__ import annotations

import json

import pytest

from kernels.errors import SandboxFailed
from kernels.execution.frames import MOST_ANSWER_BYTES, MOST_COLUMNS, MOST_ROWS, parse_answer

ANSWER = {
    "status": "ok",
    "found": True,
    "table": True,
    "columns": [["city", "str"], ["mm", "float64"]],
    "rows": [["0", "Oslo", "22.25"]],
    "total": 1,
    "wide": 2,
}


def answer(**other: object) -> bytes:
    return json.dumps({**ANSWER, **other}).encode()


def test_rows_have_a_label_and_a_cell_for_each_column() -> None:
    found = parse_answer(answer())
    assert (found.found, found.table, found.total, found.wide) == (True, True, 1, 2)
    assert found.columns == [("city", "str"), ("mm", "float64")]
    assert found.rows == [["0", "Oslo", "22.25"]]


@pytest.mark.parametrize(
    "lie",
    [
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
