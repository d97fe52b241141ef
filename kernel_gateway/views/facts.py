"""What a notebook's record says of itself and of each cell, in the few words that a reader looks for. Pure.

The notebook may be anybody's: what is not of the expected type is not said.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

_FACT_CHARACTERS: Final = 80
_NAMED_FILES: Final = 3
_NAMED_OUTPUTS: Final = 20
_FINE: Final = frozenset({"ok"})
_LANGUAGES: Final = {
    "bash": "Shell",
    "html": "HTML",
    "javascript": "JavaScript",
    "python": "Python",
    "r": "R",
    "sql": "SQL",
    "typescript": "TypeScript",
}


def make_heading(document: dict[str, Any]) -> tuple[str, str]:
    """Title and subtitle of the page: the session's name, and what else identifies it."""
    record = _record(document)
    session, environment, name = (_text(record.get(key)) for key in ("session_id", "environment", "name"))
    count = f"{len(document['cells']):,} cells"
    if not session:
        return "Notebook", count
    where = f" in {environment}" if environment else ""
    return (name, f"Session {session}, {count}, run{where}") if name else (f"Session {session}", f"{count}, run{where}")


def has_failed(cell: dict[str, Any]) -> bool:
    """Whether the record says that the cell did not end well."""
    status = _text(_record(cell).get("status"))
    return bool(status) and status not in _FINE


def name_language(language: str) -> str:
    """A language as people write it."""
    return _LANGUAGES.get(language, language.capitalize())


def collect_facts(cell: dict[str, Any]) -> list[dict[str, str]]:
    """Facts of one cell, each with the kind it is styled by: `plain`, `bad` or `time`."""
    record = _record(cell)
    said = [_text(record.get("author")), _name_face(record)]
    made = [{"kind": "plain", "text": text} for text in said if text]
    status = _text(record.get("status"))
    if status and status not in _FINE:
        made.append({"kind": "bad", "text": status})
    exit_code = record.get("exit_code")
    if type(exit_code) is int and exit_code:
        made.append({"kind": "bad", "text": f"exit code {exit_code}"})
    if files := _describe_files(record):
        made.append({"kind": "plain", "text": files})
    when = _text(record.get("started_at")) or _text(record.get("at"))
    made += [{"kind": "time", "text": text} for text in (when[:19].replace("T", " "), _describe_cost(record)) if text]
    return made


def _name_face(record: dict[str, Any]) -> str:
    face = _text(record.get("face"))
    return f"via {face}" if face else ""


def describe_full_outputs(cell: dict[str, Any]) -> list[str]:
    """Where the outputs lie of which the cell holds a part, a sentence each."""
    full = _record(cell).get("full")
    said = []
    for each in map(_object, full[:_NAMED_OUTPUTS] if isinstance(full, list) else []):
        what, digest, size = (
            _text(each.get("stream") or each.get("media_type")),
            _text(each.get("sha256")),
            each.get("size"),
        )
        if what and digest and type(size) is int:
            said.append(f"{what} in full: {size:,} bytes, SHA-256 {digest}")
    return said


def _describe_files(record: dict[str, Any]) -> str:
    """Which files it changed, in the order of the record: a few names, and how many more."""
    files = _object(record.get("provenance")).get("files")
    listed = files if isinstance(files, list) else []
    names = [name for each in listed[:_NAMED_FILES] if (name := _text(_object(each).get("path")))]
    more = len(listed) - len(names)
    return f"changed {', '.join(names)}" + (f" and {more:,} more" if more else "") if names else ""


def _describe_cost(record: dict[str, Any]) -> str:
    """How long it took, and what of the processor and of memory."""
    words = []
    taken = _measure_seconds(record.get("started_at"), record.get("ended_at"))
    if taken is not None:
        words.append(f"{taken:,.2f} s")
    provenance = _object(record.get("provenance"))
    if isinstance(cpu := provenance.get("cpu_seconds"), int | float):
        words.append(f"{cpu:,.2f} s of CPU")
    if type(peak := provenance.get("memory_peak_bytes")) is int:
        words.append(f"{peak / 1e6:,.0f} MB")
    return ", ".join(words)


def _measure_seconds(began: Any, ended: Any) -> float | None:
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None


def _record(holder: dict[str, Any]) -> dict[str, Any]:
    return _object(_object(holder.get("metadata")).get("sandcell"))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[:_FACT_CHARACTERS] if isinstance(value, str) else ""
