"""The client's operations on files of live sessions and of workspaces; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from sandcell.errors import InvalidRequest
from sandcell.models.model import Page
from sandcell.models.workspaces import FileEntry
from sandcell.operations.uploads import upload_file, upload_stream
from sandcell.paging import collect_pages
from sandcell.steps import Ask, Operation, Progress, decode, exchange, omit_none, quote

SESSIONS = "/v1/sessions"
MOST_AT_ONCE_BYTES = 100_000_000
"""What a service takes in one request, unless its `payload_bytes` says otherwise."""
Content = bytes | Path | IO[bytes]
"""What is uploaded: bytes, a local file, or a stream that is read to its end."""


def files(session_id: str, path: str = "", *, recursive: bool = False) -> Operation[list[FileEntry]]:
    """The live files below a directory of the workspace."""
    return (yield from _files(f"{SESSIONS}/{quote(session_id)}", path, recursive=recursive))


def upload(
    session_id: str, path: str, content: Content, *, on_progress: Progress | None = None
) -> Operation[FileEntry]:
    """Write a live file, whole or not at all; a `Path` is sent as it is read, a stream to its end.

    What is larger than `MOST_AT_ONCE_BYTES`, or of unknown size, goes over in parts: after a broken connection it goes
    on where it was. The same call, made again after a failure, does so too, unless it is of a stream.
    """
    return (yield from _upload(f"{SESSIONS}/{quote(session_id)}", path, content, {}, on_progress))


def resolve_upload(path: str | Path, content: Content | None) -> tuple[str, Content]:
    """Where an upload goes, and what it is: a local file alone goes under its own name."""
    if content is None:
        return Path(path).name, Path(path)
    return path.as_posix() if isinstance(path, Path) else path, content


def download(session_id: str, path: str) -> Operation[bytes]:
    """A live file's content; `download_to` is for large ones."""
    return (yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/files/{quote(path)}")))


def download_part(session_id: str, path: str, start: int, most_bytes: int) -> Operation[bytes]:
    """Up to so many bytes of a live file, from its byte `start` on; none where the file has ended before."""
    headers = {"Range": f"bytes={start}-{start + most_bytes - 1}"}
    try:
        return (yield from exchange(Ask("GET", f"{SESSIONS}/{quote(session_id)}/files/{quote(path)}", headers=headers)))
    except InvalidRequest as error:
        if error.code != "range_not_satisfiable":
            raise
        return b""


def remove_file(session_id: str, path: str, *, recursive: bool = False) -> Operation[None]:
    """Remove a live file."""
    yield from _remove(f"{SESSIONS}/{quote(session_id)}", path, recursive=recursive)


def workspace_files(workspace_id: str, path: str = "", *, recursive: bool = True) -> Operation[list[FileEntry]]:
    """The durable files below a directory of a workspace."""
    return (yield from _files(f"/v1/workspaces/{quote(workspace_id)}", path, recursive=recursive))


def workspace_upload(
    workspace_id: str,
    path: str,
    content: Content,
    *,
    if_match: str | None = None,
    if_none_match: str | None = None,
    on_progress: Progress | None = None,
) -> Operation[FileEntry]:
    """Write a durable file, as `upload` does a live one; refused while a live session holds the workspace.

    `if_match` is the ETag that the file has to have, `if_none_match="*"` means that there must be none yet.
    """
    headers = omit_none(**{"If-Match": if_match, "If-None-Match": if_none_match})
    owner = f"/v1/workspaces/{quote(workspace_id)}"
    return (yield from _upload(owner, path, content, headers, on_progress))


def workspace_download(workspace_id: str, path: str) -> Operation[bytes]:
    """A durable file's content; `workspace_download_to` is for large ones."""
    return (yield from exchange(Ask("GET", f"/v1/workspaces/{quote(workspace_id)}/files/{quote(path)}")))


def checkpoint_download(session_id: str, checkpoint_id: str, path: str) -> Operation[bytes]:
    """The content of a file as a checkpoint of the session has it."""
    checkpoint = f"/v1/sessions/{quote(session_id)}/checkpoints/{quote(checkpoint_id)}"
    return (yield from exchange(Ask("GET", f"{checkpoint}/files/{quote(path)}")))


def workspace_remove(workspace_id: str, path: str, *, recursive: bool = False) -> Operation[None]:
    """Remove a durable file."""
    yield from _remove(f"/v1/workspaces/{quote(workspace_id)}", path, recursive=recursive)


def _files(owner: str, path: str, *, recursive: bool) -> Operation[list[FileEntry]]:
    # Names that are not UTF-8 travel as their bytes: the query is quoted here, not by the HTTP library.
    address = f"{owner}/files" + (f"?path={quote(path)}" if path else "")

    def page(cursor: str | None) -> Operation[Page[FileEntry]]:
        query = omit_none(recursive="true" if recursive else None, cursor=cursor)
        return decode((yield from exchange(Ask("GET", address, query))), Page[FileEntry])

    return collect_pages(page)


def _upload(
    owner: str, path: str, content: Content, conditions: dict[str, str], on_progress: Progress | None
) -> Operation[FileEntry]:
    if isinstance(content, Path) and not content.is_file():  # a pipe, or one that is not there
        with content.open("rb") as stream:
            return (yield from upload_stream(owner, path, stream, on_progress, conditions))
    if not isinstance(content, bytes | Path):
        return (yield from upload_stream(owner, path, content, on_progress, conditions))
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if size > MOST_AT_ONCE_BYTES:
        return (yield from upload_file(owner, path, content, on_progress, conditions))
    address = f"{owner}/files/{quote(path)}"
    ask = Ask("PUT", address, content=content, headers=conditions, on_progress=on_progress)
    # On a condition the first of two would keep the second from being done.
    return decode((yield from exchange(ask, repeatable=not conditions)), FileEntry)


def _remove(owner: str, path: str, *, recursive: bool) -> Operation[None]:
    query = omit_none(recursive="true" if recursive else None)
    yield from exchange(Ask("DELETE", f"{owner}/files/{quote(path)}", query), removes=True)
