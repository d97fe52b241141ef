"""What an execution gave, with the views of it that callers want."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sandcell.models.executions import Death, Execution, ExecutionError, MemoryShortage, Truncated
from sandcell.models.sync import ExecutionSync

MOST_NAMES = 10_000
EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "text/html": "html",
}
"""Media types of displays that are worth a file, best first."""
BINARY = frozenset(EXTENSIONS) - {"image/svg+xml", "text/html"}
"""Those whose content is in base64."""
LONGEST_SHOWN = 1_000
"""Characters of a text in a `repr`."""


@dataclass(frozen=True)
class Display:
    """Something shown that is not text: a plot, a table as HTML. `extension` is that of a file with its content."""

    media_type: str
    extension: str
    content: bytes

    def __repr__(self) -> str:
        return f"<Display {self.media_type}, {len(self.content):,} bytes>"


@dataclass(frozen=True)
class Result:
    """An execution that has ended: `execution` has all of it."""

    execution: Execution

    def __repr__(self) -> str:
        """The text, cut where it is long, and of the rest only what it is: a picture would fill the screen."""
        text = self.text
        shown = [repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")]
        shown += [rich for output in self.outputs if (rich := media_types(output.get("data", {}), "text/plain"))]
        if self.error is not None:
            shown.append(f"{self.error.name}: {self.error.value[:LONGEST_SHOWN]}")
        if self.death is not None:
            shown.append(f"{self.death.cause}: {self.death.detail}")
        return f"<Result {self.status}: {', '.join(shown)}>"

    @property
    def id(self) -> str:
        """The execution's id."""
        return self.execution.id

    @property
    def status(self) -> str:
        """ok, error, timeout, interrupted or died."""
        return self.execution.status

    @property
    def ok(self) -> bool:
        """Whether the code ended without an exception."""
        return self.execution.status == "ok"

    @property
    def stdout(self) -> str:
        """What it printed, as far as it was kept: see `truncated`."""
        return self.execution.stdout

    @property
    def stderr(self) -> str:
        """What it printed as errors and warnings, as far as it was kept."""
        return self.execution.stderr

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The nbformat outputs, as in the notebook."""
        return self.execution.outputs

    @property
    def error(self) -> ExecutionError | None:
        """The user's exception, if that is how it ended."""
        return self.execution.error

    @property
    def death(self) -> Death | None:
        """Why the kernel is gone, if it is."""
        return self.execution.death

    @property
    def memory(self) -> MemoryShortage | None:
        """How short the session's memory was while it ran, if it was."""
        return self.execution.memory

    @property
    def truncated(self) -> Truncated:
        """How many bytes were cut from what."""
        return self.execution.truncated

    @property
    def sync(self) -> ExecutionSync:
        """Whether the files that it left are in the store."""
        return self.execution.sync

    @property
    def generation(self) -> int:
        """Which kernel of the session ran it: the number rises with each new one."""
        return self.execution.generation

    @property
    def text(self) -> str:
        """What a person would read: printed text and results, in order, without the last line's end."""
        shown = [text_of(output) for output in self.outputs if output.get("name") != "stderr"]
        return "".join(shown).removesuffix("\n")

    @property
    def displays(self) -> list[Display]:
        """Plots and other rich outputs, in order. A result that is shown as HTML (a table) is text: see `text`."""
        found = ((output, display_of(output.get("data", {}))) for output in self.outputs)
        return [
            display
            for output, display in found
            if display is not None
            and not (display.media_type == "text/html" and output.get("output_type") == "execute_result")
        ]

    @property
    def plots(self) -> list[Display]:
        """Those of the displays that are pictures, in order."""
        return [display for display in self.displays if display.media_type != "text/html"]

    def save(self, directory: str | Path = ".") -> list[Path]:
        """Write each display to a file of its own, as `plot-1.png` or `table-1.html`; no file is overwritten."""
        place = Path(directory)
        displays = self.displays
        if displays:
            place.mkdir(parents=True, exist_ok=True)
        return [_save(display, place) for display in displays]


def _save(display: Display, directory: Path) -> Path:
    stem = "table" if display.media_type == "text/html" else "plot"
    for number in range(1, MOST_NAMES):
        path = directory / f"{stem}-{number}.{display.extension}"
        try:
            with path.open("xb") as stream:
                stream.write(display.content)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{directory} has {MOST_NAMES} files of that name already")


def text_of(output: dict[str, Any]) -> str:
    """The text of one output, ending in a line's end when it is a result."""
    if output.get("output_type") == "stream":
        return join_text(output.get("text", ""))
    text = join_text(output.get("data", {}).get("text/plain", ""))
    return text + "\n" if text else ""


def media_types(data: dict[str, Any], *but: str) -> str:
    """What a display consists of, in a few words: its media types and their sizes."""
    return ", ".join(f"{name} of {_size_of(name, data[name]):,} bytes" for name in data if name not in but)


def _size_of(media_type: str, value: Any) -> int:
    if not isinstance(value, str | list):  # JSON
        return len(msgspec.json.encode(value))
    text = join_text(value)
    if media_type not in BINARY:
        return len(text.encode("utf-8", "replace"))
    digits = "".join(text.split()).rstrip("=")
    return len(digits) * 3 // 4  # of base64, without decoding it


def display_of(data: dict[str, Any]) -> Display | None:
    """The best form of a display that is worth a file."""
    for media_type, extension in EXTENSIONS.items():
        if media_type in data:
            text = join_text(data[media_type])
            content = base64.b64decode(text) if media_type in BINARY else text.encode("utf-8", "replace")
            return Display(media_type, extension, content)
    return None


def join_text(text: str | list[str]) -> str:
    """nbformat's text: one string, or a list of lines."""
    return text if isinstance(text, str) else "".join(text)
