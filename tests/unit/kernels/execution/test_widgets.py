"""Widgets: what a kernel's messages say of them, to what a display shows; and anything that a hostile one may send."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kernels.execution import widgets
from kernels.execution.outputs import Event, OutputCaps, OutputCollector, Outputs
from kernels.execution.widgets import STATE, VIEW, Widgets

NAMES = {"_model_module": "@jupyter-widgets/controls", "_model_module_version": "2.0.0"}
ANY = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters(), max_size=20) | st.just("IPY_MODEL_a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["comm_id", "target_name", "data", "state", "method", "buffer_paths"])
HOSTILE = st.dictionaries(FIELDS, ANY | st.sampled_from(["a", "b", "jupyter.widget", "update"]), max_size=6)


class Kernel:
    """One kernel's widgets with what collects the outputs of an execution."""

    def __init__(self) -> None:
        self.widgets = Widgets()
        self.begin()

    def begin(self, caps: OutputCaps | None = None) -> None:
        self.events: list[Event] = []
        self.collector = OutputCollector(caps or OutputCaps(), self.widgets)

    def say(self, msg_type: str, content: dict[str, Any], *buffers: bytes) -> None:
        self.widgets.feed(msg_type, content, buffers)
        self.events += self.collector.feed(msg_type, content)

    def open(self, name: str, model: str = "IntProgressModel", **state: Any) -> None:
        data = {"state": {"_model_name": model, **NAMES, **state}}
        self.say("comm_open", {"comm_id": name, "target_name": "jupyter.widget", "data": data})

    def change(self, name: str, **state: Any) -> None:
        self.say("comm_msg", {"comm_id": name, "data": {"method": "update", "state": state}})

    def show(self, name: str) -> None:
        data = {"text/plain": "shown", VIEW: {"model_id": name, "version_major": 2, "version_minor": 0}}
        self.events += self.collector.feed("display_data", {"data": data, "metadata": {}})

    def shown(self) -> dict[str, Any]:
        return models(self.collector.snapshot())


def models(outputs: Outputs) -> dict[str, Any]:
    (output,) = outputs.outputs
    found: dict[str, Any] = output["data"][STATE]["state"]
    return found


def test_a_display_has_the_widget_as_it_is_at_the_end_and_events_tell_each_change() -> None:
    kernel = Kernel()
    kernel.open("bar", value=0)
    kernel.open("box", "HBoxModel", children=["IPY_MODEL_bar"])
    kernel.open("other", value=5)
    kernel.show("box")
    kernel.change("bar", value=1)
    kernel.change("other", value=6)
    kernel.change("bar", value=2)
    shown = kernel.shown()
    assert {name: each["state"].get("value") for name, each in shown.items()} == {"box": None, "bar": 2}
    assert shown["bar"]["model_name"] == "IntProgressModel"
    display, *changes = kernel.events
    assert display.data["display_id"] == "box"
    assert display.data["data"][STATE]["state"]["bar"]["state"]["value"] == 0
    assert [(each.kind, each.data) for each in changes] == [
        ("widget", {"model_id": "bar", "state": {"value": value}}) for value in (1, 2)
    ]


def test_other_children_come_whole() -> None:
    kernel = Kernel()
    kernel.open("box", "VBoxModel", children=[])
    kernel.show("box")
    kernel.open("late", value=3)
    kernel.change("box", children=["IPY_MODEL_late"])
    assert [each.kind for each in kernel.events] == ["display", "update"]
    assert set(kernel.events[1].data["data"][STATE]["state"]) == {"box", "late"} == set(kernel.shown())


def test_what_a_later_execution_changes_is_an_update_of_the_display() -> None:
    kernel = Kernel()
    kernel.open("bar", value=0)
    kernel.show("bar")
    assert kernel.collector.snapshot().displays == {"bar": [0]}
    kernel.begin()
    kernel.change("bar", value=9)
    update = kernel.collector.snapshot().updates["bar"]
    assert (update["data"]["text/plain"], update["data"][STATE]["state"]["bar"]["state"]["value"]) == ("shown", 9)


def test_a_closed_widget_shows_nothing_more() -> None:
    kernel = Kernel()
    kernel.open("bar", value=0)
    kernel.show("bar")
    kernel.say("comm_close", {"comm_id": "bar", "data": {}})
    assert kernel.shown() == {}


def test_bytes_are_kept_as_notebooks_have_them() -> None:
    kernel = Kernel()
    data = {"state": {"_model_name": "ImageModel", "format": "png"}, "buffer_paths": [["value"]]}
    kernel.say("comm_open", {"comm_id": "image", "target_name": "jupyter.widget", "data": data}, b"\x89PNG")
    kernel.show("image")
    assert kernel.shown()["image"]["buffers"] == [{"path": ["value"], "encoding": "base64", "data": "iVBORw=="}]
    more = {"method": "update", "state": {}, "buffer_paths": [["value"]]}
    kernel.say("comm_msg", {"comm_id": "image", "data": more}, b"GIF89a")
    assert kernel.events[-1].kind == "update"
    assert kernel.shown()["image"]["buffers"][0]["data"] == "R0lGODlh"


def test_a_widget_that_is_not_known_stays_as_it_came() -> None:
    kernel = Kernel()
    kernel.say("comm_open", {"comm_id": "x", "target_name": "other", "data": {"state": {}}})
    kernel.show("x")
    (output,) = kernel.collector.snapshot().outputs
    assert set(output["data"]) == {"text/plain", VIEW}


def test_an_id_has_so_many_characters() -> None:
    kernel = Kernel()
    for length, known in ((200, True), (201, False)):
        kernel.open("w" * length, value=0)
        assert bool((kernel.widgets.read("w" * length) or {})["state"]) is known


def test_what_refers_to_itself_ends() -> None:
    kernel = Kernel()
    kernel.open("a", children=["IPY_MODEL_b", "IPY_MODEL_gone"])
    kernel.open("b", children=["IPY_MODEL_a"])
    kernel.show("a")
    kernel.change("b", value=1)
    assert set(kernel.shown()) == {"a", "b"}


def test_the_oldest_go_beyond_what_is_kept() -> None:
    kernel = Kernel()
    for number in range(widgets.MOST_MODELS + 1):
        kernel.open(f"w{number}")
    assert kernel.widgets.read("w0") == {"version_major": 2, "version_minor": 0, "state": {}}
    kernel = Kernel()
    text = "x" * 900_000
    for number in range(widgets.MOST_BYTES // len(text) + 1):
        kernel.open(f"w{number}", value=text)
    kernel.show("w0")
    assert not kernel.collector.snapshot().displays
    kernel.show("w1")
    assert kernel.collector.snapshot().displays


def test_a_widget_that_is_too_large_is_shown_as_text() -> None:
    kernel = Kernel()
    kernel.open("bar", value="")
    kernel.show("bar")
    kernel.change("bar", value="x" * widgets.MOST_VIEW_BYTES)
    (output,) = kernel.collector.snapshot().outputs
    assert set(output["data"]) == {"text/plain", VIEW}


def test_a_widget_has_so_many_values() -> None:
    kernel = Kernel()
    kernel.open("bar", **{f"v{number}": 0 for number in range(2 * widgets.MOST_VALUES)})
    kernel.show("bar")
    assert len(kernel.shown()["bar"]["state"]) == widgets.MOST_VALUES


def test_changes_of_so_many_displays_are_followed() -> None:
    kernel = Kernel()
    for number in range(widgets.MOST_VIEWS + 1):
        kernel.open(f"w{number}", value=0)
        kernel.show(f"w{number}")
    kernel.events.clear()
    kernel.change("w0", value=1)
    kernel.change("w1", value=1)
    assert [each.data["model_id"] for each in kernel.events] == ["w1"]


def test_changes_are_charged_like_other_events() -> None:
    kernel = Kernel()
    kernel.begin(OutputCaps(event_rich_bytes=3_000))
    kernel.open("bar", value="")
    kernel.show("bar")
    for _ in range(10):
        kernel.change("bar", value="y" * 500)
    assert [each.kind for each in kernel.events].count("truncated") == 1
    assert len(kernel.events) < 10
    assert kernel.shown()["bar"]["state"]["value"] == "y" * 500


@given(
    st.lists(st.tuples(st.sampled_from(["comm_open", "comm_msg", "comm_close", "display_data"]), HOSTILE), max_size=8)
)
def test_nothing_that_a_message_says_raises(messages: list[tuple[str, dict[str, Any]]]) -> None:
    kernel = Kernel()
    kernel.open("a")
    kernel.show("a")
    for kind, content in messages:
        if kind.startswith("comm"):
            nested = {"state": content, "method": "update", "buffer_paths": content.get("buffer_paths")}
            kernel.say(kind, {"comm_id": "a", "target_name": "jupyter.widget", "data": nested}, b"x")
            kernel.say(kind, content)
        else:
            kernel.events += kernel.collector.feed(kind, {"data": {VIEW: content}})
    msgspec.json.encode(kernel.collector.snapshot())
    msgspec.json.encode([each.data for each in kernel.events])
