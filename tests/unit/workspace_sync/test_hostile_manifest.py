"""Manifests of any entries, and of any bytes: what we write we read, and what we read we can write again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from workspace_sync.errors import ManifestUnreadable
from workspace_sync.manifest import Entry, decode_manifest, encode_manifest
from workspace_sync.names import key_of, path_of

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
