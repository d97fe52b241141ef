"""The client's operations on files of live sessions and of workspaces; `sessions` says what an operation is. No I/O."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from sandcell.errors import InvalidRequest, NotFound, ServiceUnavailable
from sandcell.models.commands import Command
from sandcell.models.model import Page
from sandcell.models.workspaces import FileEntry
from sandcell.paging import collect_pages
from sandcell.steps import Ask, Operation, Piece, Progress, decode, exchange, omit_none, quote

SESSIONS = "/v1/sessions"
MOST_AT_ONCE_BYTES = 100_000_000
"""What a service takes in one request, unless its `payload_bytes` says otherwise."""
PART_BYTES = 50_000_000
JOIN_SECONDS = 600.0
"""How long a part may take to be put in its place on the sandbox's disk."""


def files(session_id: str, path: str = "", *, recursive: bool = False) -> Operation[list[FileEntry]]:
    """The live files below a directory of the workspace."""
    return (yield from _files(f"{SESSIONS}/{quote(session_id)}", path, recursive=recursive))


def upload(
    session_id: str, path: str, content: bytes | Path, *, on_progress: Progress | None = None
) -> Operation[FileEntry]:
    """Write a live file, whole or not at all; a `Path` is sent as it is read.

    What is larger than `MOST_AT_ONCE_BYTES` goes over in parts, and when the same is called again after a failure, it
    goes on with the first part that is missing.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if size > MOST_AT_ONCE_BYTES:
        return (yield from upload_in_parts(session_id, path, content, size, on_progress))
    return (yield from _upload(f"{SESSIONS}/{quote(session_id)}", path, content, on_progress=on_progress))


def upload_in_parts(
    session_id: str, path: str, content: bytes | Path, size: int, on_progress: Progress | None
) -> Operation[FileEntry]:
    """Write a live file of any size: each part is uploaded next to it and put in its place by a command in the sandbox.

    The file grows under a hidden name that follows from its content, by which a later call finds it, and gets its own
    name when it is whole. Each command does nothing the second time, so all of it may be sent twice.
    """
    owner = f"{SESSIONS}/{quote(session_id)}"
    folder, slash, name = path.rpartition("/")
    short = name.encode("utf-8", "surrogateescape")[:100].decode("utf-8", "ignore")  # a name may have 255 bytes
    growing = f"{folder}{slash}.{short}.{_name_upload(path, content, size)}.part"
    start = (yield from _size_of(owner, folder, growing)) // PART_BYTES * PART_BYTES
    while start < size:
        length = min(PART_BYTES, size - start)
        # A name for each: the command that a lost connection has left behind removes its own part, never the next.
        part = f"{growing}.{start}"
        piece = Piece(content, start, length) if isinstance(content, Path) else content[start : start + length]
        yield from _upload(owner, part, piece, on_progress=_shift(on_progress, start, size))
        place = f"of={shlex.quote(growing)} bs=1M oflag=seek_bytes seek={start} conv=notrunc status=none"
        yield from _do_once(owner, part, f"dd if={shlex.quote(part)} {place} && rm -f -- {shlex.quote(part)}")
        start += length
    yield from _do_once(owner, growing, f"mv -f -T -- {shlex.quote(growing)} {shlex.quote(path)}")
    found = yield from _files(owner, folder, recursive=False)
    entry = next((each for each in found if each.path == path), None)
    if entry is None:  # code in the session, or another caller, was quicker
        raise ServiceUnavailable(f"{path} was removed as soon as it was uploaded", code="upload_failed")
    return entry


def _name_upload(path: str, content: bytes | Path, size: int) -> str:
    """What tells one upload from another: a local file by its time of change, bytes by themselves."""
    version = content if isinstance(content, bytes) else str(content.stat().st_mtime_ns).encode()
    return hashlib.sha256(f"{path}\n{size}\n".encode("utf-8", "surrogateescape") + version).hexdigest()[:16]


def _size_of(owner: str, folder: str, path: str) -> Operation[int]:
    """How large a file of a folder is, 0 when it or the folder is not there."""
    try:
        found = yield from _files(owner, folder, recursive=False)
    except NotFound:
        return 0
    return next((each.size for each in found if each.path == path), 0)


def _do_once(owner: str, needed: str, command: str) -> Operation[None]:
    """Run a command in the sandbox if the file that it takes away is there."""
    body = {"command": f"if [ -e {shlex.quote(needed)} ]; then {command}; fi", "timeout_seconds": JOIN_SECONDS}
    ask = Ask("POST", f"{owner}/commands", json=body, timeout_seconds=JOIN_SECONDS + 60)
    done = decode((yield from exchange(ask, repeatable=True)), Command)
    if done.exit_code != 0:
        why = done.stderr.strip() or done.status
        raise ServiceUnavailable(f"the parts of the file cannot be put together: {why}", code="upload_failed")


def _shift(on_progress: Progress | None, start: int, size: int) -> Progress | None:
    """The progress of a part as that of the whole."""
    return None if on_progress is None else lambda done, _size: on_progress(start + done, size)


def resolve_upload(path: str | Path, content: bytes | Path | None) -> tuple[str, bytes | Path]:
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
    content: bytes | Path,
    *,
    if_match: str | None = None,
    if_none_match: str | None = None,
    on_progress: Progress | None = None,
) -> Operation[FileEntry]:
    """Write a durable file; refused while a live session holds the workspace.

    `if_match` is the ETag that the file has to have, `if_none_match="*"` means that there must be none yet.
    """
    headers = omit_none(**{"If-Match": if_match, "If-None-Match": if_none_match})
    owner = f"/v1/workspaces/{quote(workspace_id)}"
    return (yield from _upload(owner, path, content, headers, on_progress=on_progress))


def workspace_download(workspace_id: str, path: str) -> Operation[bytes]:
    """A durable file's content; `workspace_download_to` is for large ones."""
    return (yield from exchange(Ask("GET", f"/v1/workspaces/{quote(workspace_id)}/files/{quote(path)}")))


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
    owner: str,
    path: str,
    content: bytes | Path | Piece,
    conditions: dict[str, str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> Operation[FileEntry]:
    address = f"{owner}/files/{quote(path)}"
    ask = Ask("PUT", address, content=content, headers=conditions or {}, on_progress=on_progress)
    # On a condition the first of two would keep the second from being done.
    return decode((yield from exchange(ask, repeatable=not conditions)), FileEntry)


def _remove(owner: str, path: str, *, recursive: bool) -> Operation[None]:
    query = omit_none(recursive="true" if recursive else None)
    yield from exchange(Ask("DELETE", f"{owner}/files/{quote(path)}", query), removes=True)
