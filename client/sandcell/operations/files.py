"""The client's operations on files of live sessions and of workspaces; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from pathlib import Path

from sandcell.models.shapes import FileEntry, Page
from sandcell.paging import every
from sandcell.steps import Ask, Operation, Progress, decoded, exchange, given, quoted

SESSIONS = "/v1/sessions"


def files(session_id: str, path: str = "", *, recursive: bool = False) -> Operation[list[FileEntry]]:
    """The live files below a directory of the workspace."""
    return (yield from _files(f"{SESSIONS}/{quoted(session_id)}", path, recursive=recursive))


def upload(
    session_id: str, path: str, content: bytes | Path, *, on_progress: Progress | None = None
) -> Operation[FileEntry]:
    """Write a live file, whole or not at all; a `Path` is sent as it is read."""
    return (yield from _upload(f"{SESSIONS}/{quoted(session_id)}", path, content, on_progress=on_progress))


def upload_names(path: str | Path, content: bytes | Path | None) -> tuple[str, bytes | Path]:
    """Where an upload goes, and what it is: a local file alone goes under its own name."""
    if content is None:
        return Path(path).name, Path(path)
    return path.as_posix() if isinstance(path, Path) else path, content


def download(session_id: str, path: str) -> Operation[bytes]:
    """A live file's content; `download_to` is for large ones."""
    return (yield from exchange(Ask("GET", f"{SESSIONS}/{quoted(session_id)}/files/{quoted(path)}")))


def remove_file(session_id: str, path: str, *, recursive: bool = False) -> Operation[None]:
    """Remove a live file."""
    yield from _remove(f"{SESSIONS}/{quoted(session_id)}", path, recursive=recursive)


def workspace_files(workspace_id: str, path: str = "", *, recursive: bool = True) -> Operation[list[FileEntry]]:
    """The durable files below a directory of a workspace."""
    return (yield from _files(f"/v1/workspaces/{quoted(workspace_id)}", path, recursive=recursive))


def workspace_upload(
    workspace_id: str,
    path: str,
    content: bytes | Path,
    *,
    if_match: str | None = None,
    if_none_match: str | None = None,
    on_progress: Progress | None = None,
) -> Operation[FileEntry]:
    """Write a durable file; refused while a live session holds the workspace.

    `if_match` is the ETag that the file has to have, `if_none_match="*"` means that there must be none yet.
    """
    headers = given(**{"If-Match": if_match, "If-None-Match": if_none_match})
    owner = f"/v1/workspaces/{quoted(workspace_id)}"
    return (yield from _upload(owner, path, content, headers, on_progress=on_progress))


def workspace_download(workspace_id: str, path: str) -> Operation[bytes]:
    """A durable file's content; `workspace_download_to` is for large ones."""
    return (yield from exchange(Ask("GET", f"/v1/workspaces/{quoted(workspace_id)}/files/{quoted(path)}")))


def workspace_remove(workspace_id: str, path: str, *, recursive: bool = False) -> Operation[None]:
    """Remove a durable file."""
    yield from _remove(f"/v1/workspaces/{quoted(workspace_id)}", path, recursive=recursive)


def _files(owner: str, path: str, *, recursive: bool) -> Operation[list[FileEntry]]:
    # Names that are not UTF-8 travel as their bytes: the query is quoted here, not by the HTTP library.
    address = f"{owner}/files" + (f"?path={quoted(path)}" if path else "")

    def page(cursor: str | None) -> Operation[Page[FileEntry]]:
        query = given(recursive="true" if recursive else None, cursor=cursor)
        return decoded((yield from exchange(Ask("GET", address, query))), Page[FileEntry])

    return every(page)


def _upload(
    owner: str,
    path: str,
    content: bytes | Path,
    conditions: dict[str, str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> Operation[FileEntry]:
    address = f"{owner}/files/{quoted(path)}"
    ask = Ask("PUT", address, content=content, headers=conditions or {}, on_progress=on_progress)
    # On a condition the first of two would keep the second from being done.
    return decoded((yield from exchange(ask, repeatable=not conditions)), FileEntry)


def _remove(owner: str, path: str, *, recursive: bool) -> Operation[None]:
    query = given(recursive="true" if recursive else None)
    yield from exchange(Ask("DELETE", f"{owner}/files/{quoted(path)}", query))
