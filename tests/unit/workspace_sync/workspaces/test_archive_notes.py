"""What an archive tells of names that no workspace can have: a client that writes to a bucket may choose any name."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from workspace_sync import ArchiveLimits, open_store
from workspace_sync.manifest import Manifest
from workspace_sync.mirroring.plan import merge
from workspace_sync.store import StoredObject
from workspace_sync.workspaces.archive import SKIPPED, Archive


@pytest.mark.parametrize("key", ["a//b", "/", "../x"], ids=["empty", "root", "up"])
def test_an_illegal_name_is_told_and_breaks_nothing(tmp_path: Path, key: str) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")
    remote = merge(Manifest(""), [StoredObject(key, 1, 0.0, "etag", "")])
    archive = Archive(store, "one/workspace/", remote, b"", ArchiveLimits(1_000, str(tmp_path)))
    with zipfile.ZipFile(io.BytesIO(b"".join(archive))) as unpacked:
        assert unpacked.namelist() == [SKIPPED]
        told = unpacked.read(SKIPPED).decode()
    assert f"\n{key!a}\t" in told
