"""What came of a call, as the contents that a model gets: bounded, without terminal codes. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sandcell.models.commands import Command
from sandcell.models.executions import Execution, MemoryShortage
from sandcell.models.inspection import Variable, Variables
from sandcell.models.replays import Replay
from sandcell.models.sessions import RestoredVariable
from sandcell.models.workspaces import FileEntry
from sandcell.result import join_text
from sandcell.tools.contents import Content, Image, Link, Text, ToolResult

MEGABYTE: Final = 1 << 20
IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types that models look at, best first."""
MOST_IMAGES: Final = 10
"""Images in one result."""
MOST_IMAGE_BYTES: Final = 5_000_000
"""One image: what the large providers take."""
HEAD_SHARE: Final = 0.4
"""Of what is shown of a text that is cut: the end says more, as a traceback's does."""
ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
OVERWRITTEN: Final = re.compile(r"[^\n]*\r(?!\n|$)")
"""What a progress bar wrote before it went back to the line's start."""


def clean(text: str) -> str:
    """Text as a terminal would show it in the end, without colours."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    return OVERWRITTEN.sub("", text) if "\r" in text else text


def render_execution(execution: Execution, most_bytes: int, rest: str) -> ToolResult:
    """Outputs in their order, then how it ended; `rest` is where all of the text can be read."""
    contents = [*_render_outputs(execution.outputs), *_texts(_describe_end(execution))]
    cut = execution.truncated.stdout + execution.truncated.stderr + execution.truncated.outputs
    if cut:
        contents.append(Text(f"[the session kept all but {cut:,} bytes of this output]"))
    return ToolResult(_bound(contents, most_bytes, rest), execution.status != "ok")


def make_full_text(execution: Execution) -> str:
    """All text of an execution, for who asks for what was cut."""
    contents = [*_render_outputs(execution.outputs), *_texts(_describe_end(execution))]
    return "\n".join(each.text for each in contents if isinstance(each, Text))


def _render_outputs(outputs: Sequence[dict[str, Any]]) -> Iterator[Content]:
    images, printed = 0, ""
    for output in outputs:
        if output.get("output_type") == "stream":
            printed += join_text(output.get("text", ""))
            continue
        yield from _texts(printed)
        printed = ""
        data = output.get("data")
        if not isinstance(data, dict):
            continue
        image = _find_image(data) if images < MOST_IMAGES else None
        if image is not None:
            images += 1
            yield image
        else:
            yield from _texts(_describe_display(data))
    yield from _texts(printed)


def _texts(text: str) -> Iterator[Text]:
    found = clean(text).rstrip("\n")
    if found:
        yield Text(found)


def _find_image(data: dict[str, Any]) -> Image | None:
    for media_type in IMAGES:
        if media_type in data:
            try:
                content = base64.b64decode("".join(join_text(data[media_type]).split()), validate=True)
            except (binascii.Error, TypeError):
                continue
            if len(content) <= MOST_IMAGE_BYTES:
                return Image(content, media_type)
    return None


def _describe_display(data: dict[str, Any]) -> str:
    for media_type in ("text/plain", "text/markdown", "text/html"):
        if media_type in data:
            return join_text(data[media_type])
    return f"[{', '.join(data)}]"


def _describe_end(execution: Execution) -> str:
    """The traceback, and a sentence for an end that the code did not choose."""
    error, death = execution.error, execution.death
    lines = []
    if error is not None:
        lines.append("\n".join(error.traceback) or f"{error.name}: {error.value}")
    if execution.status == "timeout":
        after = "variables are kept" if death is None else death.detail
        lines.append(f"[it ran longer than it may and was stopped; {after}]")
    elif execution.status == "interrupted":
        lines.append("[it was interrupted; variables are kept]")
    elif death is not None:
        lines.append(f"[Python ended: {death.detail}. Files are kept]")
    if execution.why and execution.status != "ok":
        lines.append(f"[{execution.why}]")
    if execution.memory is not None:
        lines.append(f"[{describe_memory(execution.memory)}]")
    return "\n".join(lines)


def list_lost(variables: Sequence[RestoredVariable]) -> list[str]:
    """A line for each variable that another kernel did not get, or not as it was."""
    return [f"[{each.name} is {each.outcome}: {each.why or 'it is not known why'}]" for each in variables]


def describe_memory(shortage: MemoryShortage) -> str:
    """A sentence that says how short memory was, and of what there is most."""
    named = [f"{each.name} ({each.type}, {each.size_bytes / MEGABYTE:,.1f} MB)" for each in shortage.largest]
    return f"{shortage.detail}. Largest: {', '.join(named)}" if named else shortage.detail


def render_command(command: Command, most_bytes: int, rest: str) -> ToolResult:
    """stdout, stderr, the exit code where it is not 0."""
    ended = {"timeout": "it ran longer than it may and was stopped", "stopped": "it was stopped"}.get(command.status)
    if ended is None and command.exit_code != 0:
        ended = f"exit code {command.exit_code}" if command.exit_code is not None else f"it ended: {command.status}"
    contents = [Text(text) for text in list_texts(command)]
    if ended is not None:
        contents.append(Text(f"[{ended}]"))
    return ToolResult(_bound(contents, most_bytes, rest), ended is not None)


def list_texts(command: Command) -> list[str]:
    """What a command wrote: stdout, and stderr under its name."""
    stdout, stderr = clean(command.stdout).rstrip("\n"), clean(command.stderr).rstrip("\n")
    texts = [stdout, f"[stderr]\n{stderr}" if stderr else ""]
    cut = command.truncated.stdout + command.truncated.stderr
    return [*filter(None, texts), *([f"[the session kept all but {cut:,} bytes of this output]"] if cut else [])]


def render_variables(found: Variables, most_bytes: int) -> ToolResult:
    """A line for each name."""
    lines = [_describe_variable(each) for each in found.variables]
    if found.omitted:
        lines.append(f"[{found.omitted:,} more]")
    return ToolResult(_bound([Text("\n".join(lines) or "(no variables)")], most_bytes, ""))


def _describe_variable(variable: Variable) -> str:
    about = [variable.type]
    if variable.shape is not None:
        about.append(f"shape {tuple(variable.shape)}")
    elif variable.length is not None:
        about.append(f"length {variable.length:,}")
    preview = f" = {variable.preview}" if variable.preview is not None else ""
    return f"{variable.name}: {', '.join(about)}{preview}"


def render_files(entries: Sequence[FileEntry], path: str, most_bytes: int) -> ToolResult:
    """A line for each file: its path, its size."""
    lines = [f"{each.path}/" if each.kind == "directory" else f"{each.path}  {each.size:,} bytes" for each in entries]
    text = "\n".join(lines).encode("utf-8", "replace").decode()
    return ToolResult(_bound([Text(text or f"(no files in {path or '/workspace'})")], most_bytes, ""))


def render_replay(replay: Replay, most_bytes: int) -> ToolResult:
    """Whether it came out the same, and what did not."""
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in replay.counts.items() if count)
    if replay.error is not None:
        return ToolResult((Text(f"The replay failed: {replay.error.message}"),), is_error=True)
    lines = [f"{'The same' if replay.same else 'Not the same'}: {counts or 'no cells'}."]
    for cell in replay.verdicts:
        if cell.verdict not in ("same", "new"):
            lines += [f"Cell {cell.number}: {cell.verdict.replace('_', ' ')}. {cell.why}".rstrip(), cell.diff]
    return ToolResult(_bound([Text("\n".join(filter(None, lines)))], most_bytes, ""))


def _bound(contents: Sequence[Content], most_bytes: int, rest: str) -> tuple[Content, ...]:
    """The contents with their text cut, in the middle of all of it, to so many bytes; images stay."""
    size = sum(len(each.text.encode("utf-8", "replace")) for each in contents if isinstance(each, Text))
    if size <= most_bytes:
        return tuple(contents) or (Text("(no output)"),)
    head, tail = int(most_bytes * HEAD_SHARE), most_bytes - int(most_bytes * HEAD_SHARE)
    where = f'; read_file(path="{rest}", offset={head}) shows more' if rest else ""
    marker = Text(f"[... {size - most_bytes:,} of {size:,} bytes are not shown{where} ...]")
    kept, at, marked = list[Content](), 0, False
    for each in contents:
        if not isinstance(each, Text):
            kept.append(each)
            continue
        data = each.text.encode("utf-8", "replace")
        kept += _decode(data[: max(head - at, 0)])
        if not marked and at + len(data) > head:
            marked = True
            kept.append(marker)
        kept += _decode(data[max(size - tail - at, 0) :])
        at += len(data)
    return (*kept, Link(rest, "all of the output")) if rest else tuple(kept)


def _decode(data: bytes) -> list[Text]:
    """A piece of UTF-8, which may begin or end within a character."""
    text = data.decode("utf-8", "ignore")
    return [Text(text)] if text else []
