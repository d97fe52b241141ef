"""The addresses of what sessions hold, `sandcell://...`: notebooks, files, outputs; paths below /workspace. Pure."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote, unquote

from sandcell.errors import NotFound
from sandcell.models.workspaces import WORKSPACE

SCHEME: Final = "sandcell://"
MOST_RESOURCES: Final = 1_000
"""Resources that one list names."""
MOST_RESOURCE_BYTES: Final = 5_000_000
"""A file that is read whole as a resource."""
ADDRESS: Final = re.compile(
    r"sandcell://sessions/(?P<session>[0-9a-f-]{36})/(?:(?P<notebook>notebook)|executions/(?P<execution>[0-9a-f-]{36})"
    r"|files/(?P<file>.+))"
)
TEMPLATES: Final = (
    ("sandcell://sessions/{session_id}/notebook", "The session's notebook", "application/x-ipynb+json"),
    ("sandcell://sessions/{session_id}/files/{+path}", "A file of the session's workspace", ""),
    ("sandcell://sessions/{session_id}/executions/{execution_id}", "All text of one run of code", "text/plain"),
)
"""As RFC 6570 writes them, with what is there and its media type."""


@dataclass(frozen=True)
class Address:
    """What an address names; `name` is a file's path or an execution's id."""

    kind: Literal["notebook", "execution", "file"]
    session_id: str
    name: str = ""


def is_address(path: str) -> bool:
    """Whether it is one of these, and no path."""
    return path.startswith(SCHEME)


def parse(uri: str) -> Address:
    """What an address names; raises NotFound."""
    found = ADDRESS.fullmatch(uri)
    if found is None:
        raise NotFound(f"there is nothing at {uri[:200]}", code="unknown_resource")
    if found["notebook"]:
        return Address("notebook", found["session"])
    if found["execution"]:
        return Address("execution", found["session"], found["execution"])
    return Address("file", found["session"], unquote(found["file"]))


def make_notebook(session_id: str) -> str:
    """The address of a session's notebook."""
    return f"{SCHEME}sessions/{session_id}/notebook"


def make_execution(session_id: str, execution_id: str) -> str:
    """The address of all text of an execution."""
    return f"{SCHEME}sessions/{session_id}/executions/{execution_id}"


def make_file(session_id: str, path: str) -> str:
    """The address of a file."""
    return f"{SCHEME}sessions/{session_id}/files/{quote(path, errors='surrogateescape')}"


def make_output(number: int) -> str:
    """The address of a command's output that was cut, in this conversation."""
    return f"{SCHEME}outputs/{number}"


def find_workspace_path(path: str) -> str:
    """A path as models write it, `/workspace/a` or `./a`, as it is below the workspace."""
    if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
        path = path.removeprefix(WORKSPACE).lstrip("/")
    while path.startswith("./"):
        path = path[2:]
    return "" if path == "." else path


def guess_media_type(path: str) -> str:
    """By the file's ending."""
    if path.endswith(".ipynb"):
        return "application/x-ipynb+json"
    return mimetypes.guess_type(path)[0] or "application/octet-stream"
