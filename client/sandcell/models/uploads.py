"""Uploads in parts: how far one is, and what completes it. Fields may be added, never renamed."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sandcell.models.model import Model
from sandcell.models.workspaces import FileEntry


class CompleteUpload(Model, forbid_unknown_fields=True):
    """Body of `POST .../uploads/{id}/complete`. With `sha256`, of all bytes, the file is only written if they match."""

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None


class Upload(Model):
    """A file that arrives in parts: the next part begins at `offset_bytes` and has at most `part_bytes`.

    It is removed at `expires_at`, which each part moves. `file` is what was written, null until it is complete.
    """

    id: str
    path: str
    size_bytes: int | None
    offset_bytes: int
    part_bytes: int
    created_at: str
    expires_at: str
    file: FileEntry | None = None
