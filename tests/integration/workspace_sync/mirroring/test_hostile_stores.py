"""Stores that hold what our code would not have written: nothing outside is touched, and the rest is still of use."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.integration.workspace_sync.hostile_trees import Canary, Workspace, picture
from workspace_sync import ObjectStore
from workspace_sync.errors import ManifestUnreadable
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

ROW = {"mtime_ns": 1, "mode": 0o644, "kind": "directory"}


def document(*rows: dict[str, Any], **fields: Any) -> bytes:
    """A manifest of these rows."""
    return msgspec.json.encode({"version": 1, "as_of": "", "entries": [ROW | row for row in rows]} | fields)


UNREADABLE = {
    "nothing": b"",
    "no-json": b"\x00\xff<html>",
    "null": b"null",
    "list": b"[]",
    "no-fields": b"{}",
    "cut": document({"path": "a"})[:-5],
    "half-a-surrogate": document({"path": "name"}).replace(b"name", rb"\ud800"),
    "nested": b"[" * 500_000,
    "nested-inside": document({"path": "a"}).replace(b'"a"', b"[" * 100_000),
    "new-version": document(version=99),
    "version-as-text": document(version="1"),
    "execution-below-none": document(execution={"id": "x", "number": -1}),
}
BROKEN_ROWS = {
    "not-utf-8": document({"path": "name"}).replace(b"name", b"\xff\xfe"),
    "late": document({"path": "a", "mtime_ns": 10**30}),
    "late-fraction": document({"path": "a", "mtime_ns": 1e300}),
    "setuid": document({"path": "a", "mode": 0o4755}),
    "device": document({"path": "a", "kind": "device"}),
    "negative-size": document({"path": "a", "kind": "file", "size": -1}),
    "path-as-number": document({"path": 7}),
}
"""Each has one row that is none."""
# fmt: off
ILLEGAL = [
    "", ".", "..", "/", "/absolute", "../up", "a/../../up", "a//b", "a/", "./a", "a/.", "a/..", "%2E", "%2E%2E/up",
    "%2e%2e%2fup", "%2Fabsolute", "a%2F..%2F..%2Fup", "nul%00", "nul\0", "n" * 256, "a/" * 2100 + "a", "a\r\n/../x",
]
# fmt: on


@pytest.fixture
def local(executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(LocalStore(str(tmp_path / "store")), executor, tmp_path)


@pytest.fixture
def moto(moto_endpoint: str, executor: ThreadPoolExecutor, tmp_path: Path) -> Iterator[Workspace]:
    """An S3 server that takes any key."""
    s3 = S3Store(BUCKET, uuid.uuid4().hex, endpoint_url=moto_endpoint, access_key=ACCESS_KEY)
    yield Workspace(s3, executor, tmp_path)
    s3.close()


def put(store: ObjectStore, key: str, content: bytes = b"x") -> None:
    """An object under a key that the stores' own check lets through."""
    store.put(key, io.BytesIO(content), len(content))


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_manifest_that_is_none_is_refused_and_stays(kind: str, local: Workspace) -> None:
    put(local.store, f"{local.prefix}/workspace/file")
    put(local.store, f"{local.prefix}/manifest.json", UNREADABLE[kind])
    with pytest.raises(ManifestUnreadable, match=r"manifest\.json"):
        local.restore()
    with local.store.get(f"{local.prefix}/manifest.json") as stream:
        assert stream.read() == UNREADABLE[kind]
    assert local.objects() == {"manifest.json", "workspace/file"}


@pytest.mark.parametrize("kind", BROKEN_ROWS)
def test_a_row_that_is_none_is_set_aside_and_told(kind: str, local: Workspace, canary: Canary) -> None:
    put(local.store, f"{local.prefix}/workspace/file", b"whole")
    put(local.store, f"{local.prefix}/manifest.json", BROKEN_ROWS[kind])
    directory, report = local.restore()
    assert len(report.skipped) == 1
    assert {name: path.read_bytes() for name in ["file"] if (path := directory / name).exists()} in (
        {},
        {"file": b"whole"},
    )
    assert set(picture(directory)) <= {b"file"}
    canary.check(local.store)


def test_a_line_that_somebody_has_broken_loses_nothing(local: Workspace) -> None:
    directory = local.directory()
    for name in ("a", "b", "c"):
        (directory / name).write_bytes(name.encode())
    (directory / "link").symlink_to("a")
    local.flush(directory)
    manifest = f"{local.prefix}/manifest.json"
    with local.store.get(manifest) as stream:
        lines = stream.read().splitlines(keepends=True)
    damaged = b"".join(line[:20] + b",\n" if b'"b"' in line or b'"link"' in line else line for line in lines[:-1])
    put(local.store, manifest, damaged.removesuffix(b",\n") + b"\n" + lines[-1])
    with local.store.get(manifest) as stream:
        before = stream.read()
    restored, report = local.restore()
    assert [(each.path, "is broken" in each.reason) for each in report.skipped] == [("row 2", True), ("row 4", True)]
    assert {path.name: path.read_bytes() for path in restored.iterdir()} == {"a": b"a", "b": b"b", "c": b"c"}
    assert [each.path for each in local.durable.list("")] == ["a", "b", "c"]
    (restored / "b").unlink()
    (restored / "c").write_bytes(b"more")
    local.flush(restored)
    assert local.objects() >= {"workspace/a", "workspace/b", "workspace/c", "manifest.damaged.json"}
    with local.store.get(f"{local.prefix}/manifest.damaged.json") as stream:
        assert stream.read() == before
    again, report = local.restore()
    assert (report.skipped, (again / "c").read_bytes(), (again / "b").read_bytes()) == ((), b"more", b"b")
    assert local.durable.contents()[1] == []
    local.durable.remove_files()
    assert local.objects() == set()


def test_rows_that_no_workspace_can_hold_are_told_and_the_rest_is_restored(local: Workspace, canary: Canary) -> None:
    rows = [{"path": path, "kind": kind} for path in ILLEGAL for kind in ("directory", "file", "link")]
    targets = ["", "nul%00", "t" * 5000]
    links = [{"path": f"link-{number}", "kind": "link", "target": target} for number, target in enumerate(targets)]
    put(local.store, f"{local.prefix}/workspace/kept")
    put(local.store, f"{local.prefix}/manifest.json", document(*rows, *links, {"path": "kept", "kind": "file"}))
    above = sorted(local.top.iterdir())
    directory, report = local.restore()
    assert list(picture(directory)) == [b"kept"]
    assert len(report.skipped) == len(rows) + len(links)
    assert sorted(local.top.iterdir()) == sorted([*above, directory])
    canary.check(local.store)


def test_links_of_a_manifest_lead_no_file_out(local: Workspace, canary: Canary) -> None:
    """Each name is a link out and a directory, in every order, and objects lie beneath it."""
    out = str(canary.directory)
    rows = [
        {"path": "a", "kind": "link", "target": out},
        {"path": "a/file", "kind": "file", "size": 1},
        {"path": "b/c", "kind": "link", "target": "../../" + canary.directory.name},
        {"path": "d", "kind": "link", "target": out},
        {"path": "d/new", "kind": "directory", "mode": 0o777},
        {"path": "e", "kind": "link", "target": out},
        {"path": "e", "kind": "directory"},
        {"path": "f", "kind": "directory"},
        {"path": "f", "kind": "link", "target": out},
        {"path": "g", "kind": "link", "target": "."},
        {"path": "g/g", "kind": "link", "target": ".."},
        {"path": "h", "kind": "link", "target": out + "/file"},
    ]
    for key in ("a/file", "b/c/file", "b/c/deep/file", "e/file", "f/file", "g/g/file", "h"):
        put(local.store, f"{local.prefix}/workspace/{key}")
    put(local.store, f"{local.prefix}/manifest.json", document(*rows))
    directory, report = local.restore()
    found = picture(directory)
    assert found[b"a/file"][3] == found[b"b/c/deep/file"][3] == found[b"f/file"][3] == found[b"h"][3] == b"x"
    assert [path for path, (_, _, _, target) in found.items() if target == os.fsencode(out)] == []
    assert report.skipped
    canary.check(local.store)


def test_links_that_stand_in_the_directory_already_are_replaced_not_followed(local: Workspace, canary: Canary) -> None:
    """As when a restore begins again over what another process has made meanwhile."""
    for key in ("file", "in/file", "made/deep/file"):
        put(local.store, f"{local.prefix}/workspace/{key}", b"restored")
    directory = local.directory()
    (directory / "in").mkdir()
    (directory / "file").symlink_to(canary.directory / "file")
    (directory / "in/file").symlink_to(canary.directory / "new")
    local.restore(directory)
    found = {path: content for path, (*_, content) in picture(directory).items() if content}
    assert found == dict.fromkeys((b"file", b"in/file", b"made/deep/file"), b"restored")
    assert not (canary.directory / "new").exists()
    canary.check(local.store)


# fmt: off
FOREIGN_KEYS = [
    "a//b", "/absolute", "../up", "a/../../up", "./here", "a/./b", "folder/", "deep/folder/", "a/..", "nul%00", "..",
    ".", "n" * 400, "%long/unknown", "%2E%2E/up", "a%2Fb", "end ", "back\\slash", "plus+and&", "caf\u00e9",
    "cafe\u0301", "%61b",
]
# fmt: on


def test_a_bucket_with_keys_of_other_tools_is_restored_listed_copied_and_cleared(
    moto: Workspace, canary: Canary
) -> None:
    assert isinstance(moto.store, S3Store)
    client = moto.store._client
    below = moto.store._prefix + moto.prefix
    for key in FOREIGN_KEYS:
        client.put_object(Bucket=BUCKET, Key=f"{below}/workspace/{key}", Body=b"" if key.endswith("/") else b"x")
    above = sorted(moto.top.iterdir())
    directory, report = moto.restore()
    found = picture(directory)
    assert {path for path, (*_, content) in found.items() if content} == {
        *(b"a/b", b"end ", b"back\\slash", b"plus+and&", "caf\u00e9".encode(), "cafe\u0301".encode(), b"ab"),
    }
    assert {b"folder", b"deep/folder"} <= set(found)
    assert len(report.skipped) == 13
    assert sorted(moto.top.iterdir()) == sorted([*above, directory])
    assert {one.path for one in moto.durable.list()} == {path.decode() for path in found}
    moto.durable.put("folder/new", io.BytesIO(b"new"), 3)
    moto.flush(directory)
    assert picture(moto.restore()[0]) == found
    moto.durable.copy_to(moto.prefix + "-copy")
    copied = Workspace(moto.store, moto.executor, moto.top)
    copied.prefix = moto.prefix + "-copy"
    assert picture(copied.restore()[0]) == found
    moto.durable.clear()
    assert list(moto.store.list(moto.prefix + "/")) == []
    canary.check(moto.store)


def test_an_object_of_another_age_breaks_no_manifest(local: Workspace) -> None:
    put(local.store, f"{local.prefix}/workspace/old")
    put(local.store, f"{local.prefix}/workspace/new")
    files = local.top / "store" / local.prefix / "workspace"
    os.utime(files / "new", (1, 13_000_000_000))
    os.utime(files / "old", (1, -2_000_000_000))
    local.durable.put("third", io.BytesIO(b"x"), 1)
    directory, _ = local.restore()
    local.flush(directory)
    assert {one.path for one in local.durable.list()} == {"old", "new", "third"}
