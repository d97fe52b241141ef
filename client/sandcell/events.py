"""What code shows while it runs, as values with fields: what `on_output` is called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sandcell.models.executions import Event
from sandcell.result import Display, display_of, join_text, media_types


@dataclass(frozen=True)
class StreamOutput:
    """Text that the code has printed."""

    name: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class RichOutput:
    """Something shown: a plot, a table, the value of the last line; `update` changes what was shown under an id.

    `data` are its forms by media type, as in a notebook.
    """

    kind: Literal["display", "update", "result"]
    data: dict[str, Any]
    metadata: dict[str, Any]
    display_id: str | None = None

    def __repr__(self) -> str:
        return f"<RichOutput {self.kind}: {media_types(self.data)}>"

    @property
    def text(self) -> str:
        """Its form as plain text, or nothing."""
        return join_text(self.data.get("text/plain", ""))

    @property
    def display(self) -> Display | None:
        """Its best form that is worth a file: an image, a page."""
        return display_of(self.data)


@dataclass(frozen=True)
class ErrorOutput:
    """The exception that the code raised; lines of its traceback, without colours."""

    name: str
    value: str
    traceback: list[str]


Output = StreamOutput | RichOutput | ErrorOutput


def output_of(event: Event) -> Output | None:
    """What an event of an execution shows; None for one that is of its course (started, interrupt, ended ...)."""
    data = event.data
    match event.event:
        case "stream":
            return StreamOutput(data["name"], join_text(data["text"]))
        case "display" | "update" | "result" as kind:
            return RichOutput(kind, data.get("data", {}), data.get("metadata", {}), data.get("display_id"))
        case "error":
            return ErrorOutput(data["name"], data["value"], data["traceback"])
        case _:
            return None
