"""The client's operations on workspaces, and on durable files beyond those in `files`. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from sandcell.models.model import Page
from sandcell.models.workspaces import Copied, DurableFile, Link, Removed, Workspace
from sandcell.steps import Ask, Operation, decode, exchange, omit_none, quote

WORKSPACES = "/v1/workspaces"
COPY_SECONDS = 1_860.0
"""Longer than the service takes for one copy."""


def list_workspaces(*, limit: int = 100, cursor: str | None = None) -> Operation[Page[Workspace]]:
    """One page of your workspaces."""
    return decode((yield from exchange(Ask("GET", WORKSPACES, omit_none(limit=limit, cursor=cursor)))), Page[Workspace])


def get_workspace(workspace_id: str) -> Operation[Workspace]:
    """Show a workspace."""
    return decode((yield from exchange(Ask("GET", _one(workspace_id)))), Workspace)


def workspace_stat(workspace_id: str, path: str) -> Operation[DurableFile]:
    """What is durable at a path: kind, size, mode, SHA-256, ETag."""
    # Names that are not UTF-8 travel as their bytes: the query is quoted here, not by the HTTP library.
    return decode((yield from exchange(Ask("GET", f"{_one(workspace_id)}/stat?path={quote(path)}"))), DurableFile)


def workspace_read(workspace_id: str, path: str, start: int | None = None, end: int | None = None) -> Operation[bytes]:
    """Bytes of a durable file from `start` up to `end`, which is not read; without `start` the last `end`."""
    if start is not None and end is not None and end <= start:
        return b""
    first = "" if start is None else str(start)
    last = "" if end is None else str(end if start is None else end - 1)
    headers = {"Range": f"bytes={first}-{last}"} if first or last else {}
    return (yield from exchange(Ask("GET", f"{_one(workspace_id)}/files/{quote(path)}", headers=headers)))


def workspace_would_remove(workspace_id: str, path: str, *, recursive: bool = False) -> Operation[Removed]:
    """What `workspace_remove` would take away; nothing is."""
    query = omit_none(dry_run="true", recursive="true" if recursive else None)
    return decode((yield from exchange(Ask("DELETE", f"{_one(workspace_id)}/files/{quote(path)}", query))), Removed)


def delete_workspace(workspace_id: str, *, dry_run: bool = False) -> Operation[Removed]:
    """Delete a workspace with all its files, or only say what would go. Notebooks of its sessions stay."""
    query = omit_none(dry_run="true" if dry_run else None)
    ask = Ask("DELETE", _one(workspace_id), query, timeout_seconds=COPY_SECONDS)
    return decode((yield from exchange(ask, repeatable=dry_run)), Removed)


def workspace_copy(
    workspace_id: str,
    to: str,
    paths: Sequence[str] = (),
    *,
    to_path: str = "",
    overwrite: bool = False,
    dry_run: bool = False,
) -> Operation[Copied]:
    """Copy files, directories and links to another workspace of yours, all of them without `paths`.

    Each keeps its path, below `to_path`. Sending it twice does no harm: what is there already is not copied again.
    """
    body = {"to": to, "paths": list(paths), "to_path": to_path, "overwrite": overwrite, "dry_run": dry_run}
    ask = Ask("POST", f"{_one(workspace_id)}/copy", json=body, timeout_seconds=COPY_SECONDS)
    return decode((yield from exchange(ask, repeatable=True)), Copied)


def workspace_link(workspace_id: str, path: str, *, lifetime_seconds: int | None = None) -> Operation[Link]:
    """A link by which anyone can read a durable file for a while; only where the store is S3."""
    body = omit_none(path=path, lifetime_seconds=lifetime_seconds)
    return decode((yield from exchange(Ask("POST", f"{_one(workspace_id)}/links", json=body))), Link)


def archive_request(workspace_id: str, path: str = "") -> Ask:
    """The request for durable files as a zip archive."""
    return Ask("GET", f"{_one(workspace_id)}/archive" + (f"?path={quote(path)}" if path else ""))


def _one(workspace_id: str) -> str:
    return f"{WORKSPACES}/{quote(workspace_id)}"
