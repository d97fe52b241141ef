"""The chain of a session's record: each cell carries the hash of the one before, so that no change goes unseen. Pure.

A cell's *link* is a SHA-256 over what it says (id, type, source, outputs, number and its record, `metadata.sandcell`)
and over the link before it; the first one follows the *genesis*, which names the session and its environment. Other
metadata does not count: editors add to it, split texts into lines and write 1.0 as 1, and the notebook stays whole.

The chain alone shows what was changed within a notebook. A notebook that is written again as a whole has a new chain,
and one whose end was cut off a whole one: that shows against the *manifest*, which is kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kernels.errors import InvalidManifest
from kernels.notebook import canonical, revised

FORMAT: Final = 1


class Link(msgspec.Struct, frozen=True):
    """One cell as the manifest names it."""

    id: str
    hash: str


class Manifest(msgspec.Struct, frozen=True):
    """What a session's notebook consisted of: the cells' ids and links in order; `head` is the last link."""

    format: int
    session_id: str
    environment: str
    genesis: str
    cells: list[Link]
    head: str


class FirstBad(msgspec.Struct, frozen=True):
    """Where a notebook stops being whole; of the notebook and no cell of it, there is neither index nor id."""

    index: int | None
    id: str | None
    why: str


class Verified(msgspec.Struct, frozen=True):
    """What `verify` found; `cells` is how many cells of the notebook are as they were recorded, from the first on."""

    whole: bool
    cells: int
    first_bad: FirstBad | None = None


def genesis(session_id: str, environment: str) -> str:
    """What the first cell of a session follows."""
    return canonical.digest({"format": FORMAT, "session_id": session_id, "environment": environment})


def link(cell: Mapping[str, Any], previous: str) -> str:
    """The hash of an nbformat cell as it was written, which follows `previous`; texts may be lists of lines.

    A cell that a later one has revised (see `kernels.notebook.revised`) has the link that it had before.
    """
    metadata = cell.get("metadata")
    record = metadata.get("sandcell") if isinstance(metadata, Mapping) else None
    apart = ("hash", revised.KEY)
    kept = {name: value for name, value in record.items() if name not in apart} if isinstance(record, Mapping) else {}
    said = {
        "id": cell.get("id"),
        "cell_type": cell.get("cell_type"),
        "source": canonical.join_text(cell.get("source")),
        "outputs": [canonical.output(each) for each in revised.find_written_outputs(cell)],
        "execution_count": cell.get("execution_count"),
        "metadata.sandcell": {**kept, "previous": previous},
    }
    return canonical.digest(said)


def manifest(session_id: str, environment: str, cells: Sequence[Link]) -> Manifest:
    """The manifest of a session's cells."""
    first = genesis(session_id, environment)
    return Manifest(FORMAT, session_id, environment, first, list(cells), cells[-1].hash if cells else first)


def read_manifest(data: bytes) -> Manifest:
    """A manifest from its JSON; raises InvalidManifest."""
    try:
        read = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidManifest(f"this is no manifest of a notebook: {error}") from None
    if read.format != FORMAT:
        raise InvalidManifest(f"the manifest is of format {read.format}; this version reads format {FORMAT}")
    if read != manifest(read.session_id, read.environment, read.cells):
        raise InvalidManifest("the manifest contradicts itself: its first or last link is not what its cells say")
    return read


def verify(notebook: Any, against: Manifest | None = None) -> Verified:
    """Whether a notebook is the record as it was written, and which cell is the first that is not.

    `notebook` is the decoded JSON, or what nbformat has read. Nothing that is in it raises.
    """
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(cells, list):
        return Verified(whole=False, cells=0, first_bad=FirstBad(None, None, "this is no notebook: it has no cells"))
    record = _record(notebook)
    why = _stranger(record, against)
    if why is not None:
        return Verified(whole=False, cells=0, first_bad=FirstBad(None, None, why))
    links = _links(cells, record, against)
    # Where the chain is broken the cell that made an update may be missing: the break is the fault, not what it made.
    fault = revised.find_fault(cells) if links.whole else None
    if fault is None:
        return links
    index, why = fault
    return Verified(whole=False, cells=index, first_bad=FirstBad(index, _id(cells[index]), why))


def _links(cells: list[Any], record: Mapping[str, Any], against: Manifest | None) -> Verified:
    """Whether the cells are a chain, each as it was written."""
    previous = genesis(record["session_id"], record["environment"])
    standing = {told["hash"]: index for index, cell in enumerate(cells) if (told := _read_links(cell)) is not None}
    for index, cell in enumerate(cells):
        why = _fault(cell, index, previous, standing) or _unlike(cell, index, against)
        if why is not None:
            return Verified(whole=False, cells=index, first_bad=FirstBad(index, _id(cell), why))
        previous = cell["metadata"]["sandcell"]["hash"]
    return _end(record, len(cells), previous, against)


def _stranger(record: Mapping[str, Any], against: Manifest | None) -> str | None:
    """Why the notebook as a whole is not one of a session, or not the one that the manifest is of."""
    session_id, environment = record.get("session_id"), record.get("environment")
    if not isinstance(session_id, str) or not isinstance(environment, str):
        return "the notebook has no record: its metadata names no session"
    if against is not None and (session_id, environment) != (against.session_id, against.environment):
        return f"the notebook is not the one of the manifest, which is of session {against.session_id}"
    return None


def _fault(cell: Any, index: int, previous: str, standing: Mapping[str, int]) -> str | None:
    """Why a cell is not a link of the chain at this place."""
    told = _read_links(cell)
    if told is None:
        return "it has no record: it was added, or its metadata was removed"
    try:
        is_its_own = link(cell, told["previous"]) == told["hash"]
    except (RecursionError, ValueError, TypeError):
        is_its_own = False
    if not is_its_own:
        return "it was changed after it was recorded"
    if told["previous"] == previous:
        return None
    if standing.get(told["hash"]) != index:
        return "it stands in the notebook more than once"
    if standing.get(told["previous"], -1) > index:
        return "it was moved: the cell that it followed comes after it"
    return "a cell before it is missing or was put in its place"


def _unlike(cell: Any, index: int, against: Manifest | None) -> str | None:
    """Why a link of the notebook's own chain is not the manifest's."""
    if against is None:
        return None
    if index >= len(against.cells):
        return "it was added: the manifest ends before it"
    if against.cells[index].hash != cell["metadata"]["sandcell"]["hash"]:
        return "it is another cell than the manifest names here: the notebook was written again from here on"
    return None


def _end(record: Mapping[str, Any], count: int, head: str, against: Manifest | None) -> Verified:
    """Nothing is bad so far: whether anything was cut off after the last cell."""
    if against is not None and count < len(against.cells):
        why = f"it is missing: {len(against.cells) - count} cells were cut off the end"
        return Verified(whole=False, cells=count, first_bad=FirstBad(count, against.cells[count].id, why))
    if record.get("head", head) != head or record.get("cells", count) != count:
        why = f"cells after it were cut off: the notebook says that it has {record.get('cells')!r:.20}"
        return Verified(whole=False, cells=count, first_bad=FirstBad(count, None, why))
    return Verified(whole=True, cells=count)


def _record(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = notebook.get("metadata")
    record = metadata.get("sandcell") if isinstance(metadata, Mapping) else None
    return record if isinstance(record, Mapping) else {}


def _read_links(cell: Any) -> Mapping[str, str] | None:
    """The two links that a cell names, when it names them."""
    record = _record(cell) if isinstance(cell, Mapping) else {}
    whole = isinstance(record.get("previous"), str) and isinstance(record.get("hash"), str)
    return record if whole else None


def _id(cell: Any) -> str | None:
    found = cell.get("id") if isinstance(cell, Mapping) else None
    return found if isinstance(found, str) else None
