"""readFiles, listFiles, removeFiles, writeFiles: the files of the session's workspace."""

from __future__ import annotations

from kernel_gateway.errors import GatewayError, InvalidRequest, PayloadTooLarge
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.media_types import OCTETS, TEXT, media_type, text_of
from kernel_gateway.faces.agentcore.tools.paths import shown, uri, workspace_path
from kernel_gateway.faces.agentcore.tools.results import (
    MOST_PAYLOAD_BYTES,
    ContentBlock,
    ResourceContent,
    Result,
    named,
    said,
)
from kernel_gateway.shapes import FileEntry

TROUBLES = frozenset(
    {"not_found", "is_a_directory", "not_a_directory", "not_a_file", "is_a_link", "directory_not_empty"}
    | {"permission_denied", "invalid_path"}
)
"""Reasons of a sandbox that are about one file, and say nothing about the next one."""
DESCRIPTIONS = {"file": "File", "directory": "Directory", "link": "Link", "other": "Special file"}


async def read_files(call: Invocation) -> Result:
    """The files that can be read; those that cannot are left out, unless that leaves none."""
    given = call.arguments.paths or []
    paths = {path: workspace_path(path) for path in given}
    blocks: list[ContentBlock] = []
    failures: list[str] = []
    left = MOST_PAYLOAD_BYTES
    for asked, path in paths.items():
        try:
            content = await call.services.files.read_whole(call.principal, call.session_id, path, left)
        except PayloadTooLarge as error:
            return _too_large(call, asked, path, error, alone=len(paths) == 1)
        except GatewayError as error:
            if not _is_about_one(error):
                raise
            failures.append(_trouble(asked, error))
            continue
        left -= len(content)
        blocks.append(_resource(path, content))
    return Result(blocks, is_error=False) if blocks else said(named(failures), is_error=True)


async def list_files(call: Invocation) -> Result:
    """The entries of one directory, hidden ones included."""
    arguments = call.arguments
    asked = next((each for each in (arguments.directory_path, arguments.path) if each is not None), "")
    path = workspace_path(asked)
    try:
        page = await call.services.files.list(call.principal, call.session_id, path)
    except GatewayError as error:
        if not _is_about_one(error):
            raise
        return said(_trouble(asked, error, "Directory"), is_error=True)
    return Result([_link(entry) for entry in page.items], is_error=False)


async def remove_files(call: Invocation) -> Result:
    """Remove files and empty directories; one that cannot be removed keeps no other from it."""
    given = call.arguments.paths or []
    paths = {workspace_path(path): path for path in given}
    if "" in paths:
        raise InvalidRequest("the workspace itself is not removed: name what is in it")
    removed: list[str] = []
    failures: list[str] = []
    for path, asked in paths.items():
        try:
            await call.services.files.remove(call.principal, call.session_id, path)
            removed.append(path)
        except GatewayError as error:
            failures.append(_trouble(asked, error))
            if not _is_about_one(error):
                break
    if not failures:
        return said(f"Successfully removed all {len(given)} files")
    return said(_partly("Removed", removed, len(paths), failures), is_error=True)


async def write_files(call: Invocation) -> Result:
    """Write files, and the directories they are in; one that cannot be written keeps no other from it."""
    given = call.arguments.content or []
    files = [(workspace_path(each.path), each.text if each.blob is None else each.blob) for each in given]
    if any(not path for path, _ in files):
        raise InvalidRequest("a file to write needs a name: its path is the workspace itself")
    contents = [(path, content or "") for path, content in files]
    refused = dict(await call.services.files.write_all(call.principal, call.session_id, contents))
    if not refused:
        return said(f"Successfully wrote all {len(files)} files")
    written = [path for number, (path, _) in enumerate(files) if number not in refused]
    failures = [_trouble(given[number].path, error) for number, error in refused.items()]
    return said(_partly("Wrote", written, len(files), failures), is_error=True)


def _resource(path: str, content: bytes) -> ContentBlock:
    text = text_of(content)
    if text is None:
        held = ResourceContent("blob", uri(path), media_type(path, OCTETS), blob=content)
    else:
        held = ResourceContent("text", uri(path), media_type(path, TEXT), text=text)
    return ContentBlock("resource", resource=held)


def _link(entry: FileEntry) -> ContentBlock:
    path = entry.path.encode(errors="surrogateescape").decode(errors="replace")
    block = ContentBlock(
        "resource_link", uri=uri(path), name=path.rpartition("/")[2], description=DESCRIPTIONS[entry.kind]
    )
    if entry.kind == "file":
        block.mime_type, block.size = media_type(path), entry.size
    return block


def _is_about_one(error: GatewayError) -> bool:
    """Whether it says nothing of the next file."""
    return error.details.get("reason") in TROUBLES


def _trouble(asked: str, error: GatewayError, what: str = "File") -> str:
    """What is wrong with one file."""
    if error.details.get("reason") == "not_found":
        return f"{what} not found: {shown(asked)}"
    return f"{shown(asked)}: {error.message[:1].lower()}{error.message[1:]}"


def _partly(verb: str, done: list[str], count: int, failures: list[str]) -> str:
    names = f": {named(done, 100)}" if done else ""
    return f"{verb} {len(done):,} of {count:,} files{names}\nNot done: {named(failures, 100)}"


def _too_large(call: Invocation, asked: str, path: str, error: PayloadTooLarge, *, alone: bool) -> Result:
    whole = f"{shown(asked)} is too large to be read at once: {error.message}" if alone else "These files are too large"
    fewer = "" if alone else f" together, at {shown(asked)}: read fewer at once"
    return said(
        f"{whole}{fewer}. One answer holds {MOST_PAYLOAD_BYTES:,} bytes, which is about 18 MB of binary data. Read a"
        f" large file in pieces with code, or get it from /v1/sessions/{call.session_id}/files/{path}",
        is_error=True,
    )
