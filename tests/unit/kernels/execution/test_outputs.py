"""Messages to outputs: coalescing, displays, clearing, caps, and anything a hostile kernel may send."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.capped_text import cut_middle
from kernels.execution.outputs import Event, OutputCaps, OutputCollector, Outputs

ANY_TEXT = st.text(st.characters(), max_size=30)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["name", "text", "data", "metadata", "transient", "wait", "ename", "evalue", "traceback"])
HOSTILE = st.dictionaries(FIELDS | st.just("execution_count"), ANY_JSON, max_size=6)
KINDS = st.sampled_from(
    ["stream", "display_data", "execute_result", "update_display_data", "clear_output", "error", "execute_input", "x"]
)


def stream(text: str, name: str = "stdout") -> tuple[str, dict[str, Any]]:
    return "stream", {"name": name, "text": text}


def display(text: str, display_id: str | None = None, kind: str = "display_data") -> tuple[str, dict[str, Any]]:
    transient = {} if display_id is None else {"display_id": display_id}
    return kind, {"data": {"text/plain": text}, "metadata": {}, "transient": transient}


def collect(*messages: tuple[str, dict[str, Any]], caps: OutputCaps | None = None) -> tuple[Outputs, list[Event]]:
    collector = OutputCollector(caps or OutputCaps())
    events = [event for kind, content in messages for event in collector.feed(kind, content)]
    return collector.snapshot(), events


def shown(outputs: Outputs) -> list[str]:
    return [each.get("text") or each["data"]["text/plain"] for each in outputs.outputs]


def test_consecutive_text_of_a_stream_is_one_output() -> None:
    outputs, events = collect(stream("a"), stream("b"), stream("c", "stderr"), stream("d"), display("e"), stream("f"))
    assert shown(outputs) == ["ab", "c", "d", "e", "f"]
    assert (outputs.stdout, outputs.stderr) == ("abdf", "c")
    assert [event.kind for event in events] == ["stream"] * 4 + ["display", "stream"]


def test_text_is_kept_raw() -> None:
    assert collect(stream("50%\r100%\b\x1b[31mred"))[0].stdout == "50%\r100%\b\x1b[31mred"


def test_a_display_is_updated_wherever_it_was_shown() -> None:
    outputs, events = collect(
        display("a", "one"), display("b"), display("c", "one"), display("new", "one", "update_display_data")
    )
    assert shown(outputs) == ["new", "b", "new"]
    assert events[-1] == Event("update", {"display_id": "one", "data": {"text/plain": "new"}, "metadata": {}})


def test_clearing_waits_for_the_next_output_when_asked_to() -> None:
    wait = ("clear_output", {"wait": True})
    assert shown(collect(stream("a"), wait)[0]) == ["a"]
    assert shown(collect(stream("a"), wait, display("b"))[0]) == ["b"]
    assert shown(collect(stream("a"), ("clear_output", {"wait": False}))[0]) == []


def test_an_error_loses_its_colours_and_its_lines_are_lines() -> None:
    content = {"ename": "E", "evalue": "\x1b[1mv", "traceback": ["\x1b[31mone\x1b[39m\ntwo", "three"]}
    outputs, _ = collect(("error", content))
    assert outputs.error is not None
    assert outputs.error.traceback == ["one", "two", "three"]
    assert outputs.outputs[0]["evalue"] == "v"


def test_a_value_that_is_no_text_is_kept_as_json() -> None:
    content = {"data": {"application/json": {"a": float("nan")}, "text/x": {"b": 1}}, "metadata": {"m": [1]}}
    outputs, _ = collect(("display_data", content))
    assert outputs.outputs[0]["data"] == {"application/json": {"a": None}, "text/x": '{"b":1}'}
    assert outputs.outputs[0]["metadata"] == {"m": [1]}


@given(st.lists(st.tuples(st.text(st.characters(), max_size=40), st.booleans()), max_size=30), st.integers(0, 60))
def test_head_and_tail_within_the_cap_and_every_other_byte_counted(pieces: list[tuple[str, bool]], cap: int) -> None:
    caps = OutputCaps(text_bytes=cap)
    outputs, _ = collect(*(stream(text, "stderr" if err else "stdout") for text, err in pieces), caps=caps)
    for name, text, cut in (
        ("stdout", outputs.stdout, outputs.truncated.stdout),
        ("stderr", outputs.stderr, outputs.truncated.stderr),
    ):
        fed = "".join(text for text, err in pieces if err == (name == "stderr")).encode("utf-8", "replace")
        kept = text.encode()
        if cut == 0:
            assert kept == fed
            continue
        marker = f"\n[... {cut:,} bytes cut ...]\n".encode()
        head, _, tail = kept.partition(marker)
        assert len(head) + len(tail) + cut == len(fed)
        assert len(head) + len(tail) <= cap
        assert fed.startswith(head)
        assert fed.endswith(tail)
        in_outputs = "".join(each["text"] for each in outputs.outputs if each["name"] == name)
        assert in_outputs == text


@given(st.lists(st.tuples(KINDS, HOSTILE), max_size=12))
def test_whatever_is_fed_the_outputs_are_valid_and_encodable(messages: list[tuple[str, dict[str, Any]]]) -> None:
    outputs, events = collect(*messages, caps=OutputCaps(text_bytes=40, rich_bytes=4000))
    msgspec.json.encode([event.data for event in events])
    msgspec.json.encode(outputs)
    cell = {"cell_type": "code", "id": "i", "metadata": {}, "source": "", "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**cell, "outputs": outputs.outputs}]}
    nbformat.validate(nbformat.from_dict(notebook))


def test_displays_beyond_their_bound_leave_notes() -> None:
    caps = OutputCaps(rich_bytes=7000)
    outputs, _ = collect(display("x" * 3000), display("y" * 3000), display("z"), caps=caps)
    first, second, third = shown(outputs)
    assert (len(first), third) == (3000, "z")
    assert "text/plain" in second
    assert "3,0" in second
    assert 3000 <= outputs.truncated.outputs < 3100


def test_an_update_gives_back_what_the_display_weighed() -> None:
    caps = OutputCaps(rich_bytes=5000)
    updates = [display("x" * 3000, "d", "update_display_data") for _ in range(50)]
    outputs, _ = collect(display("a", "d"), *updates, caps=caps)
    assert shown(outputs) == ["x" * 3000]
    assert outputs.truncated.outputs == 0


def test_events_stop_with_one_that_says_so() -> None:
    caps = OutputCaps(event_text_bytes=10, event_rich_bytes=3000)
    _, events = collect(*[stream("12345")] * 5, *[display("x")] * 9, *[display("x" * 2000)] * 9, caps=caps)
    assert [event.kind for event in events].count("stream") == 2
    assert [event.data["what"] for event in events if event.kind == "truncated"] == ["stream", "displays"]


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        ([stream("x" * 65_536)], "large writes"),
        ([stream("x"), stream("y", "stderr")], "two streams taking turns"),
        ([stream("x"), display("y")], "text and displays taking turns"),
        ([display("y", "d"), display("z", "d", "update_display_data")], "displays and updates"),
        ([("error", {"ename": "E", "evalue": "x" * 50_000, "traceback": ["y" * 50_000]})], "errors"),
        ([("clear_output", {"wait": False}), stream("x" * 5000)], "clearing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_memory_is_bounded_by_the_caps(messages: list[tuple[str, dict[str, Any]]], name: str) -> None:
    assert held_after(messages, 6_000) < 12_000_000, name


def test_many_small_values_weigh_what_they_take() -> None:
    assert held_after([("display_data", {"data": {"application/json": [{}] * 1000}})], 300) < 5_000_000


def held_after(messages: list[tuple[str, dict[str, Any]]], times: int) -> int:
    """Bytes that a collector holds when it was fed these messages so many times."""
    caps = OutputCaps(text_bytes=100_000, rich_bytes=1_000_000)
    collector = OutputCollector(caps)
    tracemalloc.start()
    try:
        for _ in range(times):
            for kind, content in messages:
                collector.feed(kind, dict(content))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return held


@given(st.text(st.characters(), max_size=200), st.integers(0, 100))
def test_a_cut_text_is_within_its_bound(text: str, most: int) -> None:
    kept, cut = cut_middle(text, most)
    size = len(text.encode("utf-8", "replace"))
    if size <= most:
        assert (kept.encode(), cut) == (text.encode("utf-8", "replace"), 0)
    else:
        marker = f"\n[... {cut:,} bytes cut ...]\n"
        assert marker in kept
        assert len(kept.encode()) - len(marker) == size - cut <= most


def test_texts_are_passed_on_in_full_to_be_kept() -> None:
    collector = OutputCollector(OutputCaps(event_text_bytes=10, full_text_bytes=25))
    told = [event for _ in range(5) for event in collector.feed("stream", {"name": "stdout", "text": "x" * 8})]
    assert [(event.kind, len(event.data.get("text", "")), event.data.get("size")) for event in told] == [
        ("stream", 8, None),
        ("beyond", 8, None),
        ("truncated", 0, None),
        ("beyond", 8, None),
        ("beyond", 8, None),
        ("beyond", 0, 8),
    ]
    assert [event.kind for event in collector.feed("clear_output", {"wait": False})] == ["clear"]
    again = collector.feed("stream", {"name": "stdout", "text": "y" * 8})
    assert [(event.kind, event.data) for event in again] == [("beyond", {"name": "stdout", "text": "y" * 8})]


def test_without_anybody_who_keeps_them_nothing_more_is_told() -> None:
    collector = OutputCollector(OutputCaps(event_text_bytes=10))
    told = [event.kind for _ in range(5) for event in collector.feed("stream", {"name": "stdout", "text": "x" * 8})]
    assert told == ["stream", "truncated"]
