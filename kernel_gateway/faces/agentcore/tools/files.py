"""listFiles, removeFiles, writeFiles: the files of the session's workspace."""

from __future__ import annotations

from kernel_gateway.errors import GatewayError, InvalidRequest
from kernel_gateway.faces.agentcore.tools.file_errors import describe_trouble, is_about_one
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.media_types import find_media_type
from kernel_gateway.faces.agentcore.tools.paths import make_uri, parse_path
from kernel_gateway.faces.agentcore.tools.results import ContentBlock, Result, join_names, make_text_result
from sandcell.models.workspaces import FileEntry

DESCRIPTIONS = {"file": "File", "directory": "Directory", "link": "Link", "other": "Special file"}


async def list_files(call: Invocation) -> Result:
    """The entries of one directory, hidden ones included."""
    arguments = call.arguments
    asked = next((each for each in (arguments.directory_path, arguments.path) if each is not None), "")
    path = parse_path(asked)
    try:
        page = await call.services.files.list(call.principal, call.session_id, path)
    except GatewayError as error:
        if not is_about_one(error):
            raise
        return make_text_result(describe_trouble(asked, error, "Directory"), is_error=True)
    if page.next_cursor is not None:
        return make_text_result(
            f"There are more than {len(page.items):,} entries: list a directory further down, or use executeCommand",
            is_error=True,
        )
    return Result([_link(entry) for entry in page.items], is_error=False)


async def remove_files(call: Invocation) -> Result:
    """Remove files and empty directories, in this order; one that cannot be removed keeps no other from it."""
    given = call.arguments.paths or []
    asked = {parse_path(path): path for path in given}
    if "" in asked:
        raise InvalidRequest("the workspace itself is not removed: name what is in it")
    paths = list(asked)
    refused = dict(await call.services.files.remove_all(call.principal, call.session_id, paths))
    if not refused:
        return make_text_result(f"Successfully removed all {len(given)} files")
    removed = [path for number, path in enumerate(paths) if number not in refused]
    failures = [describe_trouble(asked[paths[number]], error) for number, error in refused.items()]
    return make_text_result(_describe_partly("Removed", removed, len(paths), failures), is_error=True)


async def write_files(call: Invocation) -> Result:
    """Write files, and the directories they are in; one that cannot be written keeps no other from it."""
    given = call.arguments.content or []
    files = [(parse_path(each.path), each.text if each.blob is None else each.blob) for each in given]
    if any(not path for path, _ in files):
        raise InvalidRequest("a file to write needs a name: its path is the workspace itself")
    contents = [(path, content or "") for path, content in files]
    refused = dict(await call.services.files.write_all(call.principal, call.session_id, contents))
    if not refused:
        return make_text_result(f"Successfully wrote all {len(files)} files")
    written = [path for number, (path, _) in enumerate(files) if number not in refused]
    failures = [describe_trouble(given[number].path, error) for number, error in refused.items()]
    return make_text_result(_describe_partly("Wrote", written, len(files), failures), is_error=True)


def _link(entry: FileEntry) -> ContentBlock:
    path = entry.path.encode(errors="surrogateescape").decode(errors="replace")
    block = ContentBlock(
        "resource_link", uri=make_uri(path), name=path.rpartition("/")[2], description=DESCRIPTIONS[entry.kind]
    )
    if entry.kind == "file":
        block.mime_type, block.size = find_media_type(path), entry.size
    return block


def _describe_partly(verb: str, done: list[str], count: int, failures: list[str]) -> str:
    names = f": {join_names(done, 100)}" if done else ""
    return f"{verb} {len(done):,} of {count:,} files{names}\nNot done: {join_names(failures, 100)}"
