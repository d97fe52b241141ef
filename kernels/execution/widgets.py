"""The widgets of one kernel, as its messages say they are: what a front end would show of them. Pure.

A kernel describes each widget (a *model*) when it opens a comm, and tells its changes on it; models refer to each
other. What a cell displays is a *view* of one model. See https://ipywidgets.readthedocs.io, "Widget messaging protocol"
(2.1), and for the form of `STATE`, in which notebooks keep models, nbformat's `metadata.widgets`.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from kernels.capped_text import encodable
from kernels.json_values import clean_json

VIEW: Final = "application/vnd.jupyter.widget-view+json"
STATE: Final = "application/vnd.jupyter.widget-state+json"
COMMS: Final = frozenset({"comm_open", "comm_msg", "comm_close"})
MOST_MODELS: Final = 5_000
"""Widgets of one kernel that are known, the latest ones."""
MOST_BYTES: Final = 16_000_000
"""Of their state together."""
MOST_VALUES: Final = 200
"""Named values of one widget."""
MOST_VIEWS: Final = 1_000
"""Displayed widgets of one kernel whose changes are followed, the latest ones."""
MOST_VIEW_BYTES: Final = 1_000_000
"""Of a displayed widget with all that it refers to."""

_TARGET: Final = "jupyter.widget"
_REFERENCE: Final = "IPY_MODEL_"
_LONGEST_ID: Final = 200
_MODEL_BYTES: Final = 500

Content = dict[str, Any]


class _Value(msgspec.Struct, frozen=True):
    """One value of a widget as JSON, or as bytes in base64, its size, and which other widgets it names."""

    value: Any
    size_bytes: int
    parts: frozenset[str] = frozenset()
    is_bytes: bool = False


class _Model(msgspec.Struct):
    """One widget: its values by name, and what it weighs."""

    values: dict[str, _Value] = msgspec.field(default_factory=dict)
    parts: frozenset[str] = frozenset()
    size_bytes: int = _MODEL_BYTES


class Change(msgspec.Struct, frozen=True):
    """What a message has changed of displayed widgets: these views, and which values of the model.

    `state` is None when more than values of one model has changed: what a view has is to be read again.
    """

    model_id: str
    views: Sequence[str]
    state: Content | None


class Widgets:
    """Fed with all comm messages of a kernel; nothing that is in one raises."""

    def __init__(self) -> None:
        self._models: OrderedDict[str, _Model] = OrderedDict()
        self._holders: dict[str, set[str]] = {}
        self._views: OrderedDict[str, tuple[Content, Content]] = OrderedDict()
        self._size_bytes = 0
        self._last: tuple[object, Change | None] = (None, None)

    def feed(self, msg_type: str, content: Content, buffers: Sequence[bytes] = ()) -> None:
        """Take a message in; those who are handed the same content next can ask for `change_of` it."""
        self._last = content, self._take(msg_type, content, buffers)

    def change_of(self, content: Content) -> Change | None:
        """What the message with this content has changed that is displayed, if it was the last."""
        return self._last[1] if self._last[0] is content else None

    def show(self, data: Content, metadata: Content) -> Content | None:
        """A bundle is displayed: the state of its widget, if that is known and not too much to keep."""
        model_id = view_of(data)
        if model_id not in self._models:
            return None
        self._views[model_id] = {name: value for name, value in data.items() if name != STATE}, metadata
        self._views.move_to_end(model_id)
        while len(self._views) > MOST_VIEWS:
            self._views.popitem(last=False)
        return self.read(model_id)

    def bundle(self, view: str) -> tuple[Content, Content] | None:
        """Data and metadata of a displayed widget as it is now; None when its display is forgotten."""
        if view not in self._views:
            return None
        data, metadata = self._views[view]
        state = self.read(view)
        return (data if state is None else {**data, STATE: state}), metadata

    def read(self, model_id: str) -> Content | None:
        """A widget and all that it refers to, as a notebook keeps them; None when that is too much to keep.

        A widget that was closed has no models: a front end shows nothing of it.
        """
        found: dict[str, Content] = {}
        size = 0
        waiting = [model_id]
        while waiting:
            name = waiting.pop()
            model = self._models.get(name)
            if model is None or name in found:
                continue
            size += model.size_bytes
            if size > MOST_VIEW_BYTES:
                return None
            found[name] = _embedded(model)
            waiting += model.parts
        return {"version_major": 2, "version_minor": 0, "state": found}

    def list_movable(self, model_id: str) -> frozenset[str]:
        """The values that a front end may set of a widget that is displayed, or part of one; none of any other."""
        model = self._models.get(model_id)
        if model is None or not self._views_of(model_id):
            return frozenset()
        return frozenset(name for name in model.values if not name.startswith("_"))

    def _take(self, msg_type: str, content: Content, buffers: Sequence[bytes]) -> Change | None:
        model_id, data = content.get("comm_id"), content.get("data")
        if not isinstance(model_id, str) or not 0 < len(model_id) <= _LONGEST_ID or encodable(model_id)[0] != model_id:
            return None
        if msg_type == "comm_close":
            return self._close(model_id)
        state = data.get("state") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(state, dict):
            return None
        if msg_type == "comm_open":
            if content.get("target_name") != _TARGET or model_id in self._models:
                return None
            self._models[model_id] = _Model()
            self._size_bytes += _MODEL_BYTES
        elif model_id not in self._models or data.get("method") not in ("update", "echo_update"):
            return None
        return self._update(model_id, state, data.get("buffer_paths"), buffers)

    def _update(self, model_id: str, raw: Content, paths: Any, buffers: Sequence[bytes]) -> Change | None:
        """As dear as the message is long, however much the widget holds."""
        model = self._models[model_id]
        given: dict[str, _Value] = {}
        for name, value in raw.items():
            cleaned, size = clean_json(value)
            given[encodable(name)[0]] = _Value(cleaned, size, frozenset(_references(cleaned)))
        given |= _bytes_of(paths, buffers)
        whole = any(each.is_bytes for each in given.values())
        for name, new in given.items():
            before = model.values.get(name)
            if before is None and len(model.values) >= MOST_VALUES:
                continue
            model.values[name] = new
            self._grow(model, len(name) + new.size_bytes if before is None else new.size_bytes - before.size_bytes)
            whole = whole or new.parts != (frozenset() if before is None else before.parts)
        if whole:
            self._relate(model_id, model)
        while self._models and (len(self._models) > MOST_MODELS or self._size_bytes > MOST_BYTES):
            self._drop(next(iter(self._models)))
        views = self._views_of(model_id)
        if not views:
            return None
        return Change(model_id, views, None if whole else {name: each.value for name, each in given.items()})

    def _grow(self, model: _Model, size_bytes: int) -> None:
        model.size_bytes += size_bytes
        self._size_bytes += size_bytes

    def _relate(self, model_id: str, model: _Model) -> None:
        """Know again which widgets this one holds."""
        parts = frozenset(part for each in model.values.values() for part in each.parts)
        for part in model.parts - parts:
            self._release(part, model_id)
        for part in parts - model.parts:
            self._holders.setdefault(part, set()).add(model_id)
        model.parts = parts

    def _close(self, model_id: str) -> Change | None:
        if model_id not in self._models:
            return None
        views = self._views_of(model_id)
        self._drop(model_id)
        return Change(model_id, views, None) if views else None

    def _views_of(self, model_id: str) -> list[str]:
        """The displayed widgets of which this is a part, or which it is."""
        seen, waiting = set(), [model_id]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self._holders.get(name, ())
        return [name for name in self._views if name in seen] if seen & self._views.keys() else []

    def _drop(self, model_id: str) -> None:
        model = self._models.pop(model_id)
        self._size_bytes -= model.size_bytes
        for part in model.parts:
            self._release(part, model_id)

    def _release(self, part: str, holder: str) -> None:
        holders = self._holders.get(part, set())
        holders.discard(holder)
        if not holders:
            self._holders.pop(part, None)


def view_of(data: Any) -> str:
    """The id of the widget that a bundle shows; empty when it shows none."""
    view = data.get(VIEW) if isinstance(data, dict) else None
    model_id = view.get("model_id") if isinstance(view, dict) else None
    return model_id if isinstance(model_id, str) else ""


def models_in(output: Any) -> dict[str, Content]:
    """The widgets that an output, or an update of one, has the state of."""
    data = output.get("data") if isinstance(output, dict) else None
    kept = data.get(STATE) if isinstance(data, dict) else None
    state = kept.get("state") if isinstance(kept, dict) else None
    return state if isinstance(state, dict) else {}


def _embedded(model: _Model) -> Content:
    """As a notebook keeps it."""
    state = {name: each.value for name, each in model.values.items() if not each.is_bytes}
    apart = [
        {"path": [name], "encoding": "base64", "data": each.value}
        for name, each in model.values.items()
        if each.is_bytes
    ]
    made: Content = {
        "model_name": state.get("_model_name"),
        "model_module": state.get("_model_module"),
        "model_module_version": state.get("_model_module_version"),
        "state": state,
    }
    return {**made, "buffers": apart} if apart else made


def _bytes_of(paths: Any, buffers: Sequence[bytes]) -> dict[str, _Value]:
    """Values that are bytes, which come beside the message, by their names; those deep in a value are left out."""
    found = {}
    for path, data in zip(paths if isinstance(paths, list) else (), buffers, strict=False):
        if isinstance(path, list) and len(path) == 1 and isinstance(path[0], str) and len(data) <= MOST_VIEW_BYTES:
            encoded = base64.b64encode(data).decode()
            found[encodable(path[0])[0]] = _Value(encoded, len(encoded), is_bytes=True)
    return found


def _references(value: Any) -> Iterator[str]:
    """The ids of widgets that a state names, however deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if each.startswith(_REFERENCE):
                yield each[len(_REFERENCE) :]
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
