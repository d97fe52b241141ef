"""Workspaces and their files: what they are, what was removed or copied, links."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model

WORKSPACE: Final = "/workspace"
"""Where the code of a session finds its files."""
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
MOST_PATHS = 1_000
"""Paths that one copy names."""
MOST_NAMED = 1_000
"""Paths that an answer about many names; it counts the others."""
Paths = Annotated[list[Annotated[str, constraints.FILE_PATH]], msgspec.Meta(max_length=MOST_PATHS)]


class FileEntry(Model):
    """A file of a workspace, path relative to /workspace. `kind` is file, directory, link or other."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int
    modified_at: str


class Workspace(Model):
    """The durable files of one or more sessions, one after another.

    The counts are of what was durable when it last changed; null in lists, until they have been counted.
    `touched_at` is when a file was last written, or read without a session.
    """

    id: str
    created_at: str
    session_id: str | None = None
    file_count: int | None = None
    size_bytes: int | None = None
    touched_at: str | None = None


class DurableFile(FileEntry):
    """A durable file, directory or link. `mode` is octal, as `644`; `target` is where a link points.

    `sha256` is of a file's bytes; null when the service did not write them. `etag` is what `If-Match` and
    `If-None-Match` take.
    """

    mode: str = "644"
    sha256: str | None = None
    etag: str | None = None
    target: str | None = None


class Removed(Model):
    """What was removed, or would be with `dry_run`: the first paths, and how many more there are.

    `kept` are the workspace's notebooks and outputs, which stay: they are the record of its sessions.
    """

    dry_run: bool
    file_count: int
    size_bytes: int
    paths: list[str]
    omitted: int = 0
    kept: list[str] = msgspec.field(default_factory=list)
    pending: bool = False
    """Whether the store still has files of a removed workspace: they are removed when it answers."""


class CopyFiles(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/workspaces/{id}/copy`: files, directories and links of a workspace to another of yours.

    Without `paths` all of it. Each keeps its path, below `to_path`. What is there already with other content is a
    conflict, unless `overwrite`. With `dry_run` it is only said what would be done.
    """

    to: Id
    paths: Paths = msgspec.field(default_factory=list)
    to_path: Annotated[str, constraints.DIRECTORY_PATH] = ""
    overwrite: bool = False
    dry_run: bool = False


class Copied(Model):
    """What was copied, or would be: files and their bytes, those overwritten, those that were the same already.

    `paths` are the first paths written, in the workspace that they were copied to; `omitted` is how many more.
    """

    dry_run: bool
    file_count: int
    size_bytes: int
    overwritten: int
    unchanged: int
    paths: list[str]
    omitted: int = 0


class CreateLink(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/workspaces/{id}/links`: how long the file can be read by the link."""

    path: Annotated[str, constraints.FILE_PATH, msgspec.Meta(min_length=1)]
    lifetime_seconds: Annotated[int, constraints.LINK_SECONDS, msgspec.Meta(ge=1)] = 3_600


class Link(Model):
    """A link straight to the store. It is a secret, and cannot be revoked before it expires."""

    url: str
    path: str
    size: int
    expires_at: str

    def __repr__(self) -> str:
        return f"Link(path={self.path!r}, expires_at={self.expires_at!r})"
