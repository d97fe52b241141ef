"""Pages of file listings: by path, the cursor is the last path of the page before. Pure."""

from __future__ import annotations

from kernel_gateway.cursors import cursor_to, place_in
from kernel_gateway.errors import InvalidRequest
from sandcell.models.model import Page
from sandcell.models.workspaces import FileEntry


def page_of_files(
    entries: list[FileEntry], most: int, limit: int | None, cursor: str | None, *, complete: bool = False
) -> Page[FileEntry]:
    """One page of at most `limit` entries after the cursor.

    Raises InvalidRequest, also where a listing of more than `most` entries would have to go on unseen, unless the
    entries are `complete`.
    """
    limit = most if limit is None else limit
    if not 1 <= limit <= most:
        raise InvalidRequest(f"limit must be between 1 and {most:,}")
    whole = len(entries)
    entries = sorted(entries, key=lambda entry: entry.path)
    if cursor is not None:
        last = _decode(cursor)
        entries = [entry for entry in entries if entry.path > last]
    page = entries[:limit]
    if not complete and whole > most and len(entries) <= limit:
        raise InvalidRequest(f"there are more than {most:,} entries: list a directory further down", reason="too_many")
    return Page(page, _encode(page[-1].path) if len(entries) > limit else None)


def _encode(path: str) -> str:
    return cursor_to(path.encode("utf-8", "surrogateescape"))


def _decode(cursor: str) -> str:
    return place_in(cursor).decode("utf-8", "surrogateescape")
