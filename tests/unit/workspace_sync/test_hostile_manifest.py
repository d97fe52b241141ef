"""Manifests of any entries, and of any bytes: what we write we read, and what we read we can write again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_sync.entry import ENTRIES, Entry
from workspace_sync.errors import ManifestUnreadable
from workspace_sync.manifest import (
    AsOf,
    Manifest,
    NotByLine,
    decode_manifest,
    encode_manifest,
    manifest_lines,
    read_manifest,
)
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.names import key_of, path_of
from workspace_sync.stores.local import LocalStore
from workspace_sync.table import Table

names = (
    st.binary(min_size=1, max_size=20)
    .map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_"))
    .filter(lambda name: name not in (b".", b".."))
)
paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)
entries = st.builds(
    Entry,
    path=paths,
    kind=st.sampled_from(["file", "directory", "link"]),
    size=st.integers(0, 2**62),
    mtime_ns=st.integers(-(2**70), 2**70),
    mode=st.integers(0, 0o777),
    sha256=st.just("") | st.just("a" * 64),
    target=names,
    etag=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    version_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
)
FEW = ["", ".", "..", "/", "a", "a/b", "a//b", "%00", "%2F", "%2E%2E", "\ud800", "\udcff", "x" * 300]
texts = st.sampled_from(FEW) | st.text(max_size=8)
rows = st.fixed_dictionaries(
    {
        "path": texts,
        "kind": st.sampled_from(["file", "directory", "link", "pipe", ""]),
        "mtime_ns": st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False),
        "mode": st.integers(-1, 0o10000),
    },
    optional={"size": st.integers(-1, 2**70), "sha256": texts, "target": texts, "etag": texts, "more": st.none()},
)


@given(st.lists(entries, max_size=6, unique_by=lambda entry: entry.path))
def test_what_is_written_can_be_read(listed: list[Entry]) -> None:
    manifest = decode_manifest(encode_manifest(listed, ""))
    assert manifest.skipped == ()
    assert manifest.entries.keys() == {entry.path for entry in listed}


@given(st.lists(entries, max_size=4, unique_by=lambda entry: entry.path))
def test_it_is_read_line_by_line_too(listed: list[Entry]) -> None:
    data = encode_manifest(listed, "now", AsOf("one", 1))
    assert data.count(b"\n") == len(listed) + 2
    assert json.loads(data)["version"] == 2
    assert read_manifest(io.BytesIO(data), len(data)) == decode_manifest(data)


LINES = encode_manifest([Entry(b"a", "file"), Entry(b"b", "directory")], "now").splitlines(keepends=True)
MORE = st.sampled_from([*LINES, b"\n", b",\n", b"x", b"", LINES[1].strip(b",\n") + b"\n"])


@given(st.lists(MORE, max_size=6).map(lambda lines: LINES[0] + b"".join(lines)))
def test_what_is_read_line_by_line_is_what_is_read_as_a_whole(data: bytes) -> None:
    try:
        by_line = read_manifest(io.BytesIO(data), len(data))
    except NotByLine:
        return
    assert by_line == decode_manifest(data)


@pytest.mark.parametrize("indent", [None, 1])
def test_it_may_be_written_in_any_way_that_json_allows(indent: int | None, tmp_path: Path) -> None:
    """Also one that begins as ours do: who changes a row by hand may break its line."""
    store = LocalStore(str(tmp_path))
    durable = DurableFiles(store, "w", 1000)
    kept = Manifest("now", Table(ENTRIES, {b"a": Entry(b"a", "file"), b"b": Entry(b"b", "directory")}))
    whole = json.dumps(json.loads(b"".join(LINES)), indent=indent).encode()
    for data in (whole, b"".join(LINES), b"".join(LINES).replace(b',"kind', b',\n"kind')):
        store.put("w/manifest.json", io.BytesIO(data), len(data))
        assert durable.read_manifest() == kept


@pytest.mark.parametrize("size", [0, 50, 120])
def test_one_that_is_too_long_is_not_read(size: int, tmp_path: Path) -> None:
    for data in (b"".join(LINES), b"".join(LINES).replace(b"\n", b" ")):
        with pytest.raises(ManifestUnreadable, match="longer"):
            read_manifest(io.BytesIO(data), size)
    broken = b"".join(LINES).replace(b",\n", b",\n\n")
    store = LocalStore(str(tmp_path))
    store.put("w/manifest.json", io.BytesIO(broken), len(broken))
    with pytest.raises(ManifestUnreadable, match="longer"):
        DurableFiles(store, "w", size).read_manifest()


def test_entries_that_are_not_in_order_are_not_written() -> None:
    for paths in ([b"b", b"a"], [b"a", b"a"]):
        with pytest.raises(ValueError, match="order"):
            b"".join(manifest_lines([Entry(path, "file") for path in paths], ""))


@given(st.lists(rows, max_size=4), st.integers(0, 3))
def test_what_can_be_read_can_be_written_again(listed: list[dict[str, object]], version: int) -> None:
    text = json.dumps({"version": version, "as_of": "", "entries": listed})  # half surrogates become escapes
    try:
        manifest = decode_manifest(text.encode())
    except ManifestUnreadable:
        return
    again = decode_manifest(encode_manifest(manifest.entries.values(), ""))
    assert again.entries == manifest.entries
    for path in manifest.entries:
        assert path_of(key_of(path)) in (path, None)
        assert not path.startswith(b"/")
        assert not {b"", b".", b".."} & set(path.split(b"/"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_are_refused(data: bytes) -> None:
    try:
        decode_manifest(data)
    except ManifestUnreadable:
        return


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("damage", [{"mode": "rwx"}, {"kind": "socket"}, {"size": -1}, {"path": None}])
def test_a_broken_row_makes_no_other_file_unreadable(
    indent: int | None, damage: dict[str, object], tmp_path: Path
) -> None:
    """Written by us, with one row changed by hand on its line, and as any other tool writes it."""
    listed = [Entry(name, "file", 1, 0, 0o644, "a" * 64) for name in (b"a", b"b", b"c")]
    document = json.loads(encode_manifest(listed, "now"))
    row = json.dumps(document["entries"][1], separators=(",", ":"))
    document["entries"][1].update(damage)
    broken = json.dumps(document["entries"][1], separators=(",", ":"))
    by_line = encode_manifest(listed, "now").decode()
    assert row in by_line
    store = LocalStore(str(tmp_path))
    for text in (json.dumps(document, indent=indent), by_line.replace(row, broken)):
        store.put("w/manifest.json", io.BytesIO(text.encode()), len(text))
        manifest = DurableFiles(store, "w", 10_000).read_manifest()
        assert manifest is not None
        assert list(manifest.entries) == [b"a", b"c"]
        (skipped,) = manifest.skipped
        assert (skipped.path, "is broken" in skipped.reason) == ("row 2", True)


BROKEN_LINES = [
    b"",
    b"{",
    b'{"path":"b","kind":"file",',
    b"garbage",
    b'{"path":"b"}{}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'"b',
]


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("broken", BROKEN_LINES, ids=range(len(BROKEN_LINES)))
def test_a_line_that_is_no_json_makes_no_other_file_unreadable(broken: bytes, number: int) -> None:
    lines = encode_manifest([Entry(name, "file") for name in (b"a", b"b", b"c")], "now", AsOf("one", 1)).split(b"\n")
    lines[number] = broken + (b"," if number < 3 else b"")
    manifest = decode_manifest(b"\n".join(lines))
    left = [name for place, name in enumerate((b"a", b"b", b"c"), 1) if place != number]
    assert (list(manifest.entries), manifest.as_of, manifest.execution) == (left, "now", AsOf("one", 1))
    assert [each.path for each in manifest.skipped] == [f"row {number}"]
    assert manifest.damaged


@pytest.mark.parametrize("change", [(0, b'{"version":2,"as_of'), (3, b""), (4, b"]")])
def test_one_without_its_head_or_its_end_is_none(change: tuple[int, bytes]) -> None:
    lines = encode_manifest([Entry(name, "file") for name in (b"a", b"b", b"c")], "now").split(b"\n")
    lines[change[0]] = change[1]
    lines[1] = b"garbage,"
    with pytest.raises(ManifestUnreadable):
        decode_manifest(b"\n".join(lines[: change[0] + 1]))
