"""What an execution shows: the kernel's published messages to nbformat outputs within caps. Pure.

Text is kept raw, carriage returns and colours included: the client that renders it decides. Streams keep head and tail,
rich outputs that do not fit are replaced by a note, and events stop when their budget is used up; what was cut is
counted.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kernels.capped_text import CappedStream, Segment, cut_middle, encodable
from kernels.execution.widgets import COMMS, STATE, VIEW, Widgets, view_of
from kernels.json_values import clean_json, values_in

Content = dict[str, Any]
Output = dict[str, Any]

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_JSON_TYPE: Final = re.compile(r"application/json|application/[a-zA-Z0-9.+-]*\+json")
_OUTPUT_OVERHEAD_BYTES: Final = 1024
_VALUE_BYTES: Final = 64
_MOST_ITEMS: Final = 10_000
_MOST_UPDATES: Final = 50
"""Ids that one execution updates."""
_MOST_UPDATED: Final = 20
"""Displays of one id that an update changes, the latest first."""


class OutputCaps(msgspec.Struct, frozen=True):
    """Bounds of one execution, in bytes.

    `text_bytes`: kept of stdout and of stderr each, half as head and half as tail; also of an error's text.
    `rich_bytes`: kept of displays and results together. `event_text_bytes`, `event_rich_bytes`: sent on as events.
    `full_text_bytes`: sent on of each stream whatever the others say, what is over those in events `beyond`.
    """

    text_bytes: int = 1_000_000
    rich_bytes: int = 20_000_000
    event_text_bytes: int = 1_000_000
    event_rich_bytes: int = 40_000_000
    full_text_bytes: int = 0


@dataclass(frozen=True)
class Event:
    """Something that happened in an execution; `kind` is one of `sandcell.models.executions.Event.event`.

    Or `beyond`, for the record that keeps texts in full: `name` with `text`, or with the `size` of text that is not
    sent on any more, or `clear` with `wait`.
    """

    kind: str
    data: dict[str, Any]


class UserError(msgspec.Struct, frozen=True):
    """An exception that the code raised; lines of its traceback, without colours."""

    name: str
    value: str
    traceback: list[str]


@dataclass(frozen=True)
class Truncated:
    """Bytes that are missing from each part; 0 when whole."""

    stdout: int = 0
    stderr: int = 0
    outputs: int = 0


class Outputs(msgspec.Struct, frozen=True):
    """Everything an execution has shown so far; `outputs` are nbformat 4.5 outputs in order, streams included.

    `displays` are the places of outputs that have an id, `updates` the data and metadata that ids were last given.
    """

    stdout: str = ""
    stderr: str = ""
    outputs: list[Output] = msgspec.field(default_factory=list)
    error: UserError | None = None
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    displays: dict[str, list[int]] = msgspec.field(default_factory=dict)
    updates: dict[str, Output] = msgspec.field(default_factory=dict)


@dataclass
class _Rich:
    """One output that is not a stream, and what it weighs."""

    output: Output
    size_bytes: int


class OutputCollector:
    """Fed with one execution's published messages, in order.

    A displayed widget is a display whose id is the widget's own: what changes the widget is an update of it.
    """

    def __init__(self, caps: OutputCaps, widgets: Widgets | None = None) -> None:
        """`widgets` are those of the kernel, which have taken in each message before this."""
        self.error: UserError | None = None
        self.execution_count: int | None = None
        self._caps = caps
        self._clear()
        self._clear_on_next = False
        self._event_text_left = caps.event_text_bytes
        self._event_rich_left = caps.event_rich_bytes
        self._told: set[str] = set()
        self._updates: dict[str, _Rich] = {}
        self._widgets = widgets
        self._moved: dict[str, None] = {}
        """Displayed widgets that have changed since, of whichever execution."""

    def feed(self, msg_type: str, content: Content) -> list[Event]:
        """Take one message in; returns the events for subscribers. Unknown types are ignored."""
        if msg_type == "stream":
            return self._stream(content)
        if msg_type in ("display_data", "execute_result"):
            return self._rich(msg_type, content)
        if msg_type == "update_display_data":
            return self._update(content)
        if msg_type == "clear_output":
            return self._clear_output(wait=content.get("wait") is True)
        if msg_type == "error":
            return self._error(content)
        if msg_type == "execute_input":
            self._count(content)
        return self._change_widget(content) if msg_type in COMMS else []

    def skip(self, size_bytes: int, why: str = "it is larger than any message may be") -> list[Event]:
        """A message was too large to be read at all: leave a note in its place."""
        text = f"[an output of {size_bytes:,} bytes was dropped: {why}]"
        self._cut_outputs += size_bytes
        return self._keep("display_data", {"text/plain": text}, {}, len(text), None)

    def snapshot(self) -> Outputs:
        """The outputs as they are now."""
        self._take_moved()
        texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        outputs: list[Output] = []
        places: dict[int, int] = {}
        for item in self._items:
            if isinstance(item, _Rich):
                places[id(item)] = len(outputs)
                outputs.append(item.output)
            elif text := item.text(self._streams[item.name].cut_bytes):
                texts[item.name].append(text)
                outputs.append({"output_type": "stream", "name": item.name, "text": text})
        return Outputs(
            stdout="".join(texts["stdout"]),
            stderr="".join(texts["stderr"]),
            outputs=outputs,
            error=self.error,
            truncated=Truncated(
                self._streams["stdout"].cut_bytes, self._streams["stderr"].cut_bytes, self._cut_outputs
            ),
            displays={name: [places[id(item)] for item in items] for name, items in self._displays.items()},
            updates={name: item.output for name, item in self._updates.items()},
        )

    def _clear(self) -> None:
        self._items: list[Segment | _Rich] = []
        self._streams = {name: CappedStream(self._caps.text_bytes) for name in ("stdout", "stderr")}
        self._last: dict[str, Segment] = {}
        self._displays: dict[str, deque[_Rich]] = {}
        self._full_left = dict.fromkeys(self._streams, self._caps.full_text_bytes)
        self._rich_bytes = 0
        self._cut_outputs = 0

    def _clear_if_asked(self) -> None:
        if self._clear_on_next:
            self._clear_on_next = False
            self._clear()

    def _stream(self, content: Content) -> list[Event]:
        name = _text(content, "name")
        text, size = encodable(_text(content, "text"))
        if name not in self._streams or not text:
            return []
        self._clear_if_asked()
        self._streams[name].write(self._find_segment(name), text, size)
        if size > self._event_text_left:
            self._event_text_left = 0
            why = "the rest of the text is not streamed; the outcome has its head and tail"
            return [*self._beyond(name, text, size), *self._tell_once("stream", why)]
        self._event_text_left -= size
        self._full_left[name] -= size
        return [Event("stream", {"name": name, "text": text})]

    def _beyond(self, name: str, text: str, size: int) -> list[Event]:
        """Text for the record, which keeps all of it."""
        if not self._caps.full_text_bytes:
            return []
        if self._full_left[name] <= 0:
            return [Event("beyond", {"name": name, "size": size})]
        self._full_left[name] -= size
        return [Event("beyond", {"name": name, "text": text})]

    def _find_segment(self, name: str) -> Segment:
        """The segment that new text of a stream belongs to."""
        last = self._items[-1] if self._items else None
        if isinstance(last, Segment) and last.name == name:
            return last
        if len(self._items) >= _MOST_ITEMS and name in self._last:
            return self._last[name]
        segment = self._last[name] = Segment(name)
        self._items.append(segment)
        return segment

    def _rich(self, output_type: str, content: Content) -> list[Event]:
        self._count(content)
        data, metadata, size = self._bundle(content)
        widget = view_of(data) if STATE in data else None
        return self._keep(output_type, data, metadata, size, _display_id(content) or widget)

    def _bundle(self, content: Content) -> tuple[Content, Content, int]:
        """Data and metadata of a display, of a widget with its state, and how many bytes they weigh."""
        data, metadata, size = clean_bundle(content)
        if VIEW in data and self._widgets is not None:
            state = self._widgets.show(data, metadata)
            if state is not None:
                data[STATE] = state
                size += len(msgspec.json.encode(state))
        return data, metadata, size

    def _change_widget(self, content: Content) -> list[Event]:
        """Told at once; what it makes of outputs is read at the end, once for all changes."""
        change = self._widgets.change_of(content) if self._widgets is not None else None
        if change is None or self._widgets is None:
            return []
        self._moved |= dict.fromkeys(change.views)
        if change.state is not None:
            told = {"model_id": change.model_id, "state": change.state}
            return self._charge(Event("widget", told), _VALUE_BYTES + len(msgspec.json.encode(told)))
        events = []
        for view in change.views if self._event_rich_left else ():
            if (found := self._widgets.bundle(view)) is not None:
                told = {"display_id": view, "data": found[0], "metadata": found[1]}
                events += self._charge(Event("update", told), _weight(*found, len(msgspec.json.encode(told))))
        return events

    def _take_moved(self) -> None:
        """Widgets as they are now: in the outputs that show them, and for outputs of earlier executions."""
        for view in self._moved:
            found = self._widgets.bundle(view) if self._widgets is not None else None
            if found is None:
                continue
            size = len(msgspec.json.encode(found))
            weight = _weight(*found, size)
            for item in self._items:
                if isinstance(item, _Rich) and view_of(item.output.get("data")) == view:
                    self._fill(item, *found, size, weight)
            self._remember(view, {"data": found[0], "metadata": found[1]}, weight)
        self._moved.clear()

    def _keep(
        self, output_type: str, data: Content, metadata: Content, size: int, display_id: str | None
    ) -> list[Event]:
        self._clear_if_asked()
        if len(self._items) >= _MOST_ITEMS:
            self._cut_outputs += size
            return self._tell_once("outputs", f"more than {_MOST_ITEMS:,} outputs; the rest are dropped")
        item = _Rich({"output_type": output_type}, 0)
        if output_type == "execute_result":
            item.output["execution_count"] = self.execution_count
        self._fill(item, data, metadata, size, _weight(data, metadata, size))
        self._items.append(item)
        told = {key: value for key, value in item.output.items() if key != "output_type"}
        if display_id is not None:
            told["display_id"] = display_id
            self._displays.setdefault(display_id, deque(maxlen=_MOST_UPDATED)).append(item)
        return self._charge(Event("result" if output_type == "execute_result" else "display", told), item.size_bytes)

    def _fill(self, item: _Rich, data: Content, metadata: Content, size: int, weight: int) -> None:
        """Put a bundle into an output, or a note when it does not fit."""
        if self._rich_bytes - item.size_bytes + weight > self._caps.rich_bytes:
            self._cut_outputs += size
            data, metadata, size = {"text/plain": _note(data, size, self._caps.rich_bytes)}, {}, 0
            weight = _OUTPUT_OVERHEAD_BYTES
        self._rich_bytes += weight - item.size_bytes
        item.size_bytes = weight
        item.output = {**item.output, "data": data, "metadata": metadata}

    def _update(self, content: Content) -> list[Event]:
        display_id = _display_id(content)
        if display_id is None:
            return []
        data, metadata, size = self._bundle(content)
        weight = _weight(data, metadata, size)
        event = Event("update", {"display_id": display_id, "data": data, "metadata": metadata})
        for item in self._displays.get(display_id, ()):
            self._fill(item, data, metadata, size, weight)
        self._remember(display_id, {"data": data, "metadata": metadata}, weight)
        return self._charge(event, weight)

    def _remember(self, display_id: str, output: Output, weight: int) -> None:
        """For displays of other executions; the latest updates of the latest ids, within the bound of rich outputs."""
        self._updates.pop(display_id, None)
        self._updates[display_id] = _Rich(output, weight)
        while len(self._updates) > _MOST_UPDATES or self._updates_bytes() > self._caps.rich_bytes:
            del self._updates[next(iter(self._updates))]

    def _updates_bytes(self) -> int:
        return sum(item.size_bytes for item in self._updates.values())

    def _clear_output(self, *, wait: bool) -> list[Event]:
        if wait:
            self._clear_on_next = True
        else:
            self._clear()
        told = self._charge(Event("clear", {"wait": wait}), _OUTPUT_OVERHEAD_BYTES)
        if self._caps.full_text_bytes and not any(event.kind == "clear" for event in told):
            told.append(Event("beyond", {"clear": True, "wait": wait}))
        return told

    def _error(self, content: Content) -> list[Event]:
        self._clear_if_asked()
        error = self.error = user_error(content, self._caps.text_bytes // 4)
        output = {"output_type": "error", "ename": error.name, "evalue": error.value, "traceback": error.traceback}
        weight = _OUTPUT_OVERHEAD_BYTES + len(error.value) + sum(map(len, error.traceback))
        if len(self._items) < _MOST_ITEMS and self._rich_bytes <= self._caps.rich_bytes:
            self._rich_bytes += weight
            self._items.append(_Rich(output, weight))
        told = {"name": error.name, "value": error.value, "traceback": error.traceback}
        return self._charge(Event("error", told), weight)

    def _count(self, content: Content) -> None:
        count = content.get("execution_count")
        if type(count) is int and 0 <= count < 1 << 31:
            self.execution_count = count

    def _charge(self, event: Event, size_bytes: int) -> list[Event]:
        if size_bytes > self._event_rich_left:
            self._event_rich_left = 0
            return self._tell_once("displays", "no more displays are sent; the outcome has what fits its bound")
        self._event_rich_left -= size_bytes
        return [event]

    def _tell_once(self, what: str, why: str) -> list[Event]:
        if what in self._told:
            return []
        self._told.add(what)
        return [Event("truncated", {"what": what, "detail": why})]


def user_error(content: Content, most_bytes: int) -> UserError:
    """The exception in an `error` message or an `execute_reply`, its texts bounded and without colours."""
    lines = content.get("traceback")
    raw = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
    traceback, _ = cut_middle(_ANSI.sub("", raw), most_bytes)
    return UserError(
        name=cut_middle(_text(content, "ename"), 1000)[0] or "Error",
        value=cut_middle(_ANSI.sub("", _text(content, "evalue")), most_bytes)[0],
        traceback=traceback.split("\n") if traceback else [],
    )


def clean_bundle(content: Content) -> tuple[Content, Content, int]:
    """Data and metadata of a display as nbformat allows them, and how many bytes they weigh."""
    data: Content = {}
    total = 0
    raw = content.get("data")
    for name, value in raw.items() if isinstance(raw, dict) else ():
        media_type, _ = encodable(name)
        data[media_type], size = _clean_value(media_type, value)
        total += size + len(media_type)
    metadata, size = clean_json(content.get("metadata"))
    return data, metadata if isinstance(metadata, dict) else {}, total + size


def _clean_value(media_type: str, value: Any) -> tuple[Any, int]:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if isinstance(value, str):
        return encodable(value)
    cleaned, size = clean_json(value)
    if _JSON_TYPE.fullmatch(media_type):
        return cleaned, size
    return msgspec.json.encode(cleaned).decode(), size


def _weight(data: Content, metadata: Content, size_bytes: int) -> int:
    """What keeping a bundle takes in memory, about: many small values take more than their text."""
    return size_bytes + _OUTPUT_OVERHEAD_BYTES + _VALUE_BYTES * (values_in(data) + values_in(metadata))


def _display_id(content: Content) -> str | None:
    transient = content.get("transient")
    display_id = transient.get("display_id") if isinstance(transient, dict) else None
    return encodable(display_id)[0][:200] if isinstance(display_id, str) else None


def _note(data: Content, size: int, bound: int) -> str:
    types = ", ".join(sorted(data)[:10])[:200]
    return f"[{types}: {size:,} bytes, not kept: displays of one execution may hold {bound:,} bytes together]"


def _text(content: Content, name: str) -> str:
    value = content.get(name)
    return value if isinstance(value, str) else ""
