"""Comparison as such, for any outputs: reflexive, symmetric, bounded, and never an exception."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.replay import Clock, Showing, compare, find_hidden_names, judge
from kernels.replay.evidence import Standing

FRAGMENTS = st.sampled_from(
    [
        *("0x7f3a2c1b4d90", " at 0x1f", "2026-11-21", "15:02:42", "1.5 s", "took ", "/tmp/a", "/home/a/b.csv", "1e-9"),
        *(
            "0.1234567",
            "-",
            "\r",
            "\n",
            "\x1b[31m",
            "<td>",
            "</td>",
            "<tr>",
            "<!--",
            "<script>",
            "&amp;",
            "id 140234567890123",
        ),
        *(
            "[... 1,000 bytes cut ...]\n",
            "100 loops",
            "Sat Nov 21 15:02:42 2026",
            "1,000",
            " ",
            "\ud800",
            "µs",
            "\u017f",
            "\u0661",
        ),
    ]
)
TEXT = st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(
    ["text/plain", "text/html", "image/png", "image/svg+xml", "application/json", "image/jpeg", "a/b+json", ""]
)
OUTPUT = st.one_of(
    st.fixed_dictionaries(
        {"output_type": st.just("stream"), "name": st.sampled_from(["stdout", "stderr"]), "text": TEXT}
    ),
    st.fixed_dictionaries(
        {"output_type": st.just("display_data"), "data": st.dictionaries(TYPES, TEXT | JSON, max_size=3)}
    ),
    st.fixed_dictionaries({"output_type": st.just("error"), "ename": TEXT, "evalue": TEXT, "traceback": st.just([])}),
    st.dictionaries(st.sampled_from(["output_type", "name", "text", "data", "ename"]), JSON, max_size=4),
    JSON,
)
OUTPUTS = st.lists(OUTPUT, max_size=5)
MANY = settings(max_examples=60)


WHEN = st.sampled_from([None, "2026-11-21T15:00:00Z", "2026-11-22T15:00:00Z", "", "never"])


def shown(outputs: list[Any], when: str | None = None) -> Showing:
    return Showing(outputs, Clock.of(None, when, when))


@MANY
@given(OUTPUTS)
def test_what_is_shown_is_the_same_as_itself(outputs: list[Any]) -> None:
    found = compare(shown(outputs), shown(copy.deepcopy(outputs)))
    assert found.standing in (Standing.SAME, Standing.UNKNOWN)  # of what was cut
    assert found.standing is Standing.UNKNOWN or not found.diff


@MANY
@given(OUTPUTS, OUTPUTS)
def test_sameness_knows_no_sides(one: list[Any], other: list[Any]) -> None:
    found, turned = compare(shown(one), shown(other)), compare(shown(other), shown(one))
    assert found.standing is turned.standing
    assert (found.standing is Standing.SAME) == (not found.diff)
    assert len(found.diff) <= 16_000
    assert bool(found.why) or found.standing is Standing.SAME


@MANY
@given(OUTPUTS, OUTPUTS)
def test_two_replays_that_agree_excuse_nothing(one: list[Any], other: list[Any]) -> None:
    once, twice = compare(shown(one), shown(other)), compare(shown(one), shown(other), shown(copy.deepcopy(other)))
    assert once.standing is twice.standing


@MANY
@given(OUTPUTS, OUTPUTS, OUTPUTS, WHEN, WHEN)
def test_a_second_replay_never_makes_it_worse_and_strictness_never_better(
    one: list[Any], other: list[Any], third: list[Any], when: str | None, then: str | None
) -> None:
    runs = shown(one, then), shown(other, when)
    once, twice = compare(*runs), compare(*runs, shown(third, when))
    assert twice.standing <= once.standing or once.aside
    assert compare(*runs, shown(third, when), strict=True).standing >= twice.standing


@MANY
@given(OUTPUTS, OUTPUTS, OUTPUTS, st.sampled_from(["ok", "error", "timeout", "died", "odd"]), WHEN)
def test_a_verdict_is_always_found(
    one: list[Any], other: list[Any], third: list[Any], status: str, when: str | None
) -> None:
    found = judge(shown(one, when), status, shown(other), shown(third), None, second_status="ok")
    assert len(found.why) < 2_000


@MANY
@given(st.lists(TEXT | st.text(alphabet="x=%!?\n :()[]'\"\\#,defclas ", max_size=40), max_size=4))
def test_names_are_found_in_any_text(cells: list[str]) -> None:
    found = find_hidden_names(cells)
    assert set(found) <= set(range(len(cells)))
    assert all(name.isidentifier() for names in found.values() for name in names)
