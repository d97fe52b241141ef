"""Paths as the file tools take them and uris as they give them: everything is relative to the workspace. Pure."""

from __future__ import annotations

from kernel_gateway.errors import InvalidRequest
from sandcell.models.workspaces import WORKSPACE

MOST_PATH_BYTES = 4096
_SCHEME = "file://"


def parse_path(given: str) -> str:
    """The path relative to the workspace, "" for the workspace itself; raises InvalidRequest.

    A leading slash means nothing, as on AWS, but a path that begins with the workspace's own, which is how code sees
    it, is taken as meant; so is a uri of a result. What leads out of the workspace is refused.
    """
    if "\0" in given:
        raise InvalidRequest(f"a path has no NUL character: {quote(given)}")
    if len(given.encode()) > MOST_PATH_BYTES:
        raise InvalidRequest(f"a path has at most {MOST_PATH_BYTES:,} bytes: {quote(given)}")
    path = given.removeprefix(_SCHEME)
    if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
        path = path[len(WORKSPACE) :]
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise InvalidRequest(f"a path does not lead out of the workspace: {quote(given)}")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def make_uri(path: str) -> str:
    """The uri of a path in the workspace; nothing in it is escaped, so that clients get the path back from it."""
    return f"{_SCHEME}/{path}"


def quote(text: str) -> str:
    """A caller's text in a sentence: short, and on one line."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
