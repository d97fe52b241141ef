"""What a kernel says of code, read: its form is all that is believed."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.errors import SandboxFailed
from kernels.execution.introspection import (
    LONGEST_TEXT,
    MOST_MATCHES,
    TYPES_KEY,
    Bundle,
    Completions,
    Match,
    parse_bundle,
    parse_completions,
)

TYPED = [
    {"text": "b", "type": "function", "signature": "(x)", "start": 0, "end": 1},
    {"text": "c", "type": "<unknown>", "signature": None},
]


def complete_reply(**more: Any) -> dict[str, Any]:
    return {"status": "ok", "matches": ["b", "c"], "cursor_start": 2, "cursor_end": 3, "metadata": {}, **more}


def test_matches_have_the_types_that_are_known() -> None:
    found = parse_completions(complete_reply(metadata={TYPES_KEY: TYPED}), 3)
    assert found == Completions([Match("b", "function", "(x)"), Match("c")], 2, 3)


@pytest.mark.parametrize("types", [None, 5, [5], [{"text": 5}], {"text": "b"}])
def test_matches_count_without_types(types: Any) -> None:
    assert parse_completions(complete_reply(metadata={TYPES_KEY: types}), 3).matches == [Match("b"), Match("c")]


def test_more_matches_than_are_kept_are_counted() -> None:
    found = parse_completions(complete_reply(matches=[str(n) for n in range(MOST_MATCHES + 7)]), 3)
    assert (len(found.matches), found.omitted) == (MOST_MATCHES, 7)


@pytest.mark.parametrize(
    "lie",
    [{"matches": 5}, {"matches": [5]}, {"cursor_start": -1}, {"cursor_start": 4}, {"cursor_end": 4}, {"metadata": 1}],
)
def test_a_senseless_answer_is_refused(lie: dict[str, Any]) -> None:
    with pytest.raises(SandboxFailed, match="makes no sense"):
        parse_completions(complete_reply(**lie), 3)


def test_an_error_of_the_kernel_is_said() -> None:
    for parse in (lambda reply: parse_completions(reply, 0), parse_bundle):
        with pytest.raises(SandboxFailed, match="KeyboardInterrupt"):
            parse({"status": "error", "evalue": "KeyboardInterrupt"})
        with pytest.raises(SandboxFailed):
            parse({})


def test_a_bundle_has_texts_and_they_are_cut() -> None:
    found = parse_bundle({"status": "ok", "found": True, "data": {"text/plain": "x" * (LONGEST_TEXT + 3), "a/b": {}}})
    assert found == Bundle(found=True, data={"text/plain": "x" * LONGEST_TEXT}, truncated=3)


@pytest.mark.parametrize("lie", [{"found": 1}, {"data": 1}, {"data": {str(n): "" for n in range(17)}}])
def test_a_senseless_bundle_is_refused(lie: dict[str, Any]) -> None:
    with pytest.raises(SandboxFailed, match="makes no sense"):
        parse_bundle({"status": "ok", **lie})
