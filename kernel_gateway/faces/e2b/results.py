"""From events of an execution to the lines that E2B's code interpreter streams. Pure.

What `data` and `chart` have is made in the kernel (`kernels/guest/in_kernel/formatters.py`), a chart only where the
package `e2b_charts` is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sandcell.models.executions import Event, Execution

FIELDS: Final = {
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
"""The fields of a result, by media type; all others are in `extra`."""
KEEP_ALIVE: Final = {"type": "keepalive"}
END: Final = {"type": "end_of_execution"}
ENDED_EARLY: Final = {
    "died": "UnexpectedEndOfExecution",
    "rejected": "ExecutionAborted",
    "interrupted": "KeyboardInterrupt",
    "timeout": "TimeoutError",
}
"""The name of the error of an execution that ended without one of its own, by its status."""


class Lines:
    """The lines of one execution; remembers whether an error was among them."""

    def __init__(self) -> None:
        self._failed = False

    def read(self, event: Event, timestamp: str) -> Iterator[dict[str, Any]]:
        """What one event becomes; most others than output become nothing."""
        data = event.data
        if event.event == "stream":
            yield {"type": data["name"], "text": data["text"], "timestamp": timestamp}
        elif event.event in ("display", "result"):
            yield make_result(data.get("data") or {}, is_main=event.event == "result")
        elif event.event == "error":
            self._failed = True
            yield _make_error(str(data.get("name", "")), str(data.get("value", "")), data.get("traceback") or [])
        elif event.event == "truncated":
            what = data.get("detail") or "the client was too slow, and events were dropped"
            yield {"type": "stderr", "text": f"\n[{what}]\n", "timestamp": timestamp}

    def close(self, execution: Execution) -> Iterator[dict[str, Any]]:
        """The last lines, of how it ended."""
        if execution.error is not None and not self._failed:
            yield _make_error(execution.error.name, execution.error.value, execution.error.traceback)
        elif not self._failed and execution.status in ENDED_EARLY:
            detail = execution.death.detail if execution.death is not None else execution.why
            yield _make_error(ENDED_EARLY[execution.status], detail or f"it ended as {execution.status}", [])
        if execution.execution_count is not None:
            yield {"type": "number_of_executions", "execution_count": execution.execution_count}
        yield END


def make_result(bundle: dict[str, Any], *, is_main: bool) -> dict[str, Any]:
    """A displayed value, from its representations by media type."""
    line: dict[str, Any] = {"type": "result", "is_main_result": is_main}
    extra: dict[str, Any] = {}
    for media, value in bundle.items():
        if media == "text/plain":
            line["text"] = _strip_quotes(value) if isinstance(value, str) else value
        elif media in FIELDS:
            line[FIELDS[media]] = _read_value(media, value)
        else:
            extra[media] = value
    return {**line, "extra": extra}


def _read_value(media: str, value: Any) -> Any:
    """Objects under a media type that is not known for JSON are kept as its text."""
    if not isinstance(value, str):
        return value
    if media.startswith("e2b/"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return None
    return value.rstrip("\n") if media.startswith("image/") else value


def _strip_quotes(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _make_error(name: str, value: str, traceback: list[str] | str) -> dict[str, Any]:
    text = traceback if isinstance(traceback, str) else "\n".join(traceback)
    return {"type": "error", "name": name, "value": value, "traceback": text}
