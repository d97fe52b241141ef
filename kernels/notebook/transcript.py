"""Executions to a notebook (nbformat 4.5) that any Jupyter tool opens. Pure; the same input gives the same bytes.

A *cell* is one execution; a *note* is something that happened to the session and becomes a Markdown cell. `render`
makes their nbformat cells, `seal` links one to the chain (see `kernels.notebook.chain`) and writes it, once. A notebook
is `HEAD`, the written cells with `BETWEEN` between them, and an `ending`. Outputs beyond `MAX_INLINE_BYTES` each are
split off into *blobs*, files next to the notebook (see `split_output`).
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kernels.capped_text import cut_middle, encodable
from kernels.errors import Death
from kernels.execution.outputs import Output, Truncated, clean_bundle
from kernels.execution.widgets import STATE
from kernels.notebook import chain

if TYPE_CHECKING:
    from nbformat import NotebookNode

STORED_TEXT_BYTES: Final = 256 * 1024
"""Text that a stored cell keeps of each stream, error and plain text representation."""

MAX_INLINE_BYTES: Final = 2 * 1024 * 1024
"""The largest output that stays in the notebook: an ordinary plot's PNG is a tenth of it."""

BLOB_DIRECTORY: Final = "history_files"

_UNRUN: Final = frozenset({"queued", "running", "rejected"})
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PYTHON: Final = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
"""What tools that convert a notebook want to know of its language, as ipykernel says it."""
_PYTHON_KERNEL: Final = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
_EXTENSIONS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "application/json": "json",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "text/latex": "tex",
}
BINARY: Final = frozenset({"image/png", "image/jpeg", "image/gif", "application/pdf"})
"""Media types whose value is base64."""


HEAD: Final = b'{"cells": [\n'
BETWEEN: Final = b",\n"


@dataclass(frozen=True)
class Cell:
    """One execution; times are RFC 3339. `outputs` are nbformat outputs; `author` is who ran it, when known.

    `kind` is code, command or late (output of `late_of`, which had ended, if that is known), `face` the protocol it
    came through. `clear_context`: it asked for a blank kernel. `runtime` is what ran its language. `why` says why it
    was not run. `exit_code` and `task` are of commands: `task` is the id of one in the background. `silent`: an
    attached client ran it for itself. `provenance` is what it used and changed, `full` where outputs that were cut
    lie. `updates` names the displays of earlier executions that it changed: see `kernels.notebook.revised`.
    """

    execution_id: str
    code: str
    status: str
    execution_count: int | None = None
    outputs: Sequence[Output] = ()
    generation: int = 1
    started_at: str | None = None
    ended_at: str | None = None
    truncated: Truncated = field(default_factory=Truncated)
    death: Death | None = None
    author: str | None = None
    clear_context: bool = False
    language: str = "python"
    runtime: str = "python"
    kind: str = "code"
    face: str | None = None
    why: str | None = None
    exit_code: int | None = None
    task: str | None = None
    silent: bool = False
    provenance: dict[str, Any] | None = None
    full: Sequence[dict[str, Any]] = ()
    late_of: str | None = None
    updates: Sequence[dict[str, Any]] = ()


class NotebookKernel(msgspec.Struct, frozen=True):
    """The kernel that ran all of a notebook, and that front ends open it with; `language` as its kernelspec says."""

    name: str
    title: str
    language: str


@dataclass(frozen=True)
class Note:
    """Something that happened to the session, as Markdown; `kind` is a word for it (started, generation, ended)."""

    kind: str
    text: str
    at: str | None = None
    generation: int | None = None
    number: int | None = None
    """What tells it from the session's other notes."""


class Blob(msgspec.Struct, frozen=True):
    """A file next to the notebook; `name` is a path relative to it, made from the content's digest."""

    name: str
    data: bytes
    media_type: str = ""


class Sealed(msgspec.Struct, frozen=True):
    """A cell as it is written for good: its id, its JSON, and its link in the chain."""

    id: str
    data: bytes
    hash: str


def render(entry: Cell | Note) -> list[dict[str, Any]]:
    """The nbformat cells of an entry; an execution that the kernel died of has a second one, which says so."""
    if isinstance(entry, Note):
        wanted = "note" if entry.number is None else f"note-{entry.number}"
        return [_make_markdown(wanted, entry.text, _present(asdict(entry), "kind", "at", "generation"))]
    if entry.death is None:
        return [_code(entry)]
    text = f"**The kernel died ({_plain(entry.death.cause)}).** {_plain(entry.death.detail)}"
    return [
        _code(entry),
        _make_markdown(f"death-{entry.execution_id}", text, {"kind": "death", **_death(entry.death)}),
    ]


def seal(cell: dict[str, Any], previous: str) -> Sealed:
    """The cell with its place in the chain after `previous`, written."""
    about = {**cell["metadata"]["sandcell"], "previous": previous}
    linked = {**cell, "metadata": {**cell["metadata"], "sandcell": about}}
    about["hash"] = chain.link(linked, previous)
    return Sealed(cell["id"], msgspec.json.encode(linked), about["hash"])


def ending(
    session_id: str,
    environment: str,
    *,
    cells: int,
    head: str,
    name: str = "",
    kernel: NotebookKernel | None = None,
    widgets: Mapping[str, Any] | None = None,
) -> bytes:
    """What follows the written cells, of which there are so many; `head` is the link of the last one.

    `kernel` is the one that the notebook names as its own; None is Python's. `widgets` are those that the cells show,
    by their ids, where front ends look for them.
    """
    about: dict[str, Any] = {"session_id": _plain(session_id), "environment": _plain(environment)}
    about |= {"name": _plain(name)} if name else {}
    about |= {"cells": cells, "head": head}
    shown = {"widgets": {STATE: {"version_major": 2, "version_minor": 0, "state": widgets}}} if widgets else {}
    metadata = msgspec.json.encode({**_language_of(kernel), "sandcell": about, **shown})
    return b'\n], "metadata": ' + metadata + b', "nbformat": 4, "nbformat_minor": 5}\n'


def notebook(
    cells: Iterable[Cell | Note], *, session_id: str, environment: str, kernel: NotebookKernel | None = None
) -> NotebookNode:
    """A notebook of entries as one value, always valid; cells that have not run yet have no outputs and no number."""
    import nbformat  # noqa: PLC0415 - a second to import, and the service writes its notebooks without it

    ids, previous = _Ids(), chain.genesis(_plain(session_id), _plain(environment))
    written: list[bytes] = []
    for entry in cells:
        for cell in render(entry):
            sealed = seal({**cell, "id": ids.take(cell["id"])}, previous)
            previous = sealed.hash
            written.append(sealed.data)
    last = ending(session_id, environment, cells=len(written), head=previous, kernel=kernel)
    node: NotebookNode = nbformat.from_dict(msgspec.json.decode(HEAD + BETWEEN.join(written) + last))
    return node


def trim_output(output: Output, stored_text_bytes: int = STORED_TEXT_BYTES) -> tuple[Output, int]:
    """A valid nbformat output whose texts are each within a bound, and how many bytes were cut from it."""
    kind = output.get("output_type")
    if kind == "stream":
        text, cut = cut_middle(_join_text(output.get("text")), stored_text_bytes)
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": text}, cut
    if kind == "error":
        return _trim_error(output, stored_text_bytes)
    data, metadata, _ = clean_bundle(output)
    cut = 0
    if "text/plain" in data:  # the one representation that means something when it is cut
        data["text/plain"], cut = cut_middle(data["text/plain"], stored_text_bytes)
    made: Output = {"output_type": "display_data", "data": data, "metadata": metadata}
    if kind == "execute_result":
        made = {**made, "output_type": kind, "execution_count": _count(output.get("execution_count"))}
    return made, cut


def split_output(output: Output, max_inline_bytes: int = MAX_INLINE_BYTES) -> tuple[Output, list[Blob]]:
    """An output whose representations are within a bound, and those that were not, as files to put next to it.

    The placeholder names its files in `metadata.sandcell.files` (media type to relative name) and says so in
    `text/plain`; a browser shows `text/html` with a link.
    """
    data = output.get("data")
    if not isinstance(data, dict):
        return output, []
    blobs: dict[str, Blob] = {}
    for media_type, value in data.items():
        encoded = _encode(media_type, value)
        if len(encoded) > max_inline_bytes:
            blobs[media_type] = _blob(media_type, encoded)
    if not blobs:
        return output, []
    kept = {media_type: value for media_type, value in data.items() if media_type not in blobs}
    lines = [f"[{media_type}, {len(each.data):,} bytes, in {each.name}]" for media_type, each in blobs.items()]
    kept["text/plain"] = "\n".join([*([kept["text/plain"]] if "text/plain" in kept else []), *lines])
    files = {media_type: each.name for media_type, each in blobs.items()}
    metadata = {**(output.get("metadata") or {}), "sandcell": {"files": files}}
    return {**output, "data": kept, "metadata": metadata}, list(blobs.values())


def _code(cell: Cell) -> dict[str, Any]:
    ran = cell.status not in _UNRUN
    source = f"%%bash\n{cell.code}" if cell.kind == "command" else cell.code
    return {
        "id": _legal(cell.execution_id),
        "cell_type": "code",
        "metadata": {"sandcell": _about(cell), **_language(cell)},
        "source": _plain(source),
        "outputs": [trim_output(each, sys.maxsize)[0] for each in cell.outputs] if ran else [],
        "execution_count": _count(cell.execution_count) if ran else None,
    }


def _about(cell: Cell) -> dict[str, Any]:
    """The cell's own part of the record, in the order of the docs."""
    names = ("execution_id", "kind", "author", "face", "started_at", "ended_at", "generation", "status")
    about = _present(vars(cell), *names)
    if cell.clear_context:
        about["clear_context"] = True
    if cell.silent:
        about["silent"] = True
    if cell.runtime != "python":
        about["runtime"] = _plain(cell.runtime)
    about |= _present(vars(cell), "why", "exit_code", "task", "late_of")
    if cell.death is not None:
        about["death"] = _death(cell.death)
    if any(cut := asdict(cell.truncated).values()) and sum(cut):
        about["truncated"] = asdict(cell.truncated)
    if cell.provenance:
        about["provenance"] = cell.provenance
    if cell.full:
        about["full"] = list(cell.full)
    if cell.updates:
        about["updates"] = list(cell.updates)
    return about


def _language(cell: Cell) -> dict[str, Any]:
    """Of a cell that is not Python, named where VS Code and others look for it."""
    if cell.language == "python":
        return {}
    return {"language": _plain(cell.language), "vscode": {"languageId": _plain(cell.language)}}


def _make_markdown(wanted: str, text: str, about: dict[str, Any]) -> dict[str, Any]:
    return {"id": _legal(wanted), "cell_type": "markdown", "metadata": {"sandcell": about}, "source": _plain(text)}


def _language_of(kernel: NotebookKernel | None) -> dict[str, Any]:
    if kernel is None:
        return {"kernelspec": dict(_PYTHON_KERNEL), "language_info": dict(_PYTHON)}
    language = _plain(kernel.language)
    spec = {"name": _plain(kernel.name), "display_name": _plain(kernel.title), "language": language}
    return {"kernelspec": spec, "language_info": dict(_PYTHON) if language == "python" else {"name": language}}


def _legal(wanted: str) -> str:
    """A cell's id as nbformat has it."""
    return wanted if _CELL_ID.fullmatch(wanted) else _digest(wanted)


class _Ids:
    """Cell ids: unique in the notebook, and the same each time."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        candidate = wanted
        while candidate in self._taken:
            candidate = _digest(candidate)
        self._taken.add(candidate)
        return candidate


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _present(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Those of the named values that are not None."""
    return {
        name: _plain(value) if isinstance(value, str) else value
        for name in names
        if (value := values[name]) is not None
    }


def _death(death: Death) -> dict[str, Any]:
    return _present(asdict(death), *asdict(death))


def _plain(text: str) -> str:
    return encodable(text)[0]


def _join_text(value: Any) -> str:
    """nbformat allows a text to be a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _trim_error(output: Output, most_bytes: int) -> tuple[Output, int]:
    lines = output.get("traceback")
    raw = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
    traceback, cut = cut_middle(raw, most_bytes)
    value, value_cut = cut_middle(_join_text(output.get("evalue")), most_bytes)
    return {
        "output_type": "error",
        "ename": _plain(_join_text(output.get("ename"))),
        "evalue": value,
        "traceback": traceback.split("\n") if traceback else [],
    }, cut + value_cut


def _encode(media_type: str, value: Any) -> bytes:
    """A representation as the bytes of its file."""
    if not isinstance(value, str | list):
        return msgspec.json.encode(value)
    text = _join_text(value) if isinstance(value, str) or all(isinstance(line, str) for line in value) else None
    if text is None:
        return msgspec.json.encode(value)
    if media_type in BINARY:
        try:
            return base64.b64decode(text, validate=False)
        except (binascii.Error, ValueError):
            pass
    return text.encode("utf-8", "replace")


def _blob(media_type: str, data: bytes) -> Blob:
    extension = _EXTENSIONS.get(media_type, "json" if media_type.endswith("+json") else "bin")
    return Blob(f"{BLOB_DIRECTORY}/{hashlib.sha256(data).hexdigest()}.{extension}", data, media_type)
