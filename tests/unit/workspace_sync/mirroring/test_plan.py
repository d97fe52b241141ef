"""The manifest, the rule for what a store holds, and what a flush does."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from workspace_sync.directory.scan import Scan, Signature
from workspace_sync.entry import ENTRIES, Entry
from workspace_sync.errors import ManifestUnreadable
from workspace_sync.manifest import Manifest, decode_manifest, encode_manifest
from workspace_sync.mirroring.baseline import Seen
from workspace_sync.mirroring.plan import FlushPlan, merge, plan_flush
from workspace_sync.names import key_of
from workspace_sync.store import StoredObject
from workspace_sync.table import Table

SIGNATURE = Signature(1, 1, 1, 1)


def file(path: bytes, size: int = 1) -> Entry:
    return Entry(path, "file", size, 5, 0o600, "hash")


def table(entries: Iterable[Entry]) -> Table[Entry]:
    return Table(ENTRIES, {entry.path: entry for entry in entries})


def manifest(*entries: Entry) -> Manifest:
    return Manifest("then", table(entries))


def stored(key: str, size: int = 1) -> StoredObject:
    return StoredObject(key, size, 7.0)


def scan(*entries: Entry) -> Scan:
    found = Scan()
    found.entries.update({entry.path: entry for entry in entries})
    found.signatures.update({entry.path: SIGNATURE for entry in entries if entry.kind == "file"})
    return found


def baseline(*paths: bytes) -> dict[bytes, Seen]:
    return {path: Seen(file(path), key_of(path), SIGNATURE) for path in paths}


def test_a_manifest_comes_back() -> None:
    entries = [file(b"\xff/a"), Entry(b"l", "link", 0, -3, 0o777, "", b"../\xfe"), Entry(b"d", "directory", mode=0o700)]
    again = decode_manifest(encode_manifest(entries, "now"))
    assert again == Manifest("now", table(entries))


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"version": 3, "as_of": "", "entries": []}'])
def test_what_is_no_manifest_is_unreadable(data: bytes) -> None:
    with pytest.raises(ManifestUnreadable):
        decode_manifest(data)


def test_objects_decide_which_files_there_are() -> None:
    remote = merge(
        manifest(file(b"kept"), file(b"gone"), file(b"grown")), [stored("kept"), stored("grown", 9), stored("new")]
    )
    assert remote.entries[b"kept"] == file(b"kept")
    assert remote.entries[b"grown"] == Entry(b"grown", "file", 9, 7_000_000_000, 0o600)
    assert remote.entries[b"new"] == Entry(b"new", "file", 1, 7_000_000_000, 0o644)
    assert b"gone" not in remote.entries


def test_a_directory_wins_over_a_file_of_its_name() -> None:
    remote = merge(manifest(), [stored("a"), stored("a/b"), stored("folder/")])
    assert {path: entry.kind for path, entry in remote.entries.items()} == {
        b"a": "directory", b"a/b": "file", b"folder": "directory",
    }  # fmt: skip
    assert [one.path for one in remote.skipped] == ["a"]


def test_of_two_keys_for_a_path_ours_wins_and_an_unknown_hash_is_left_out() -> None:
    for keys in (["50%", "50%25"], ["50%25", "50%"]):
        remote = merge(manifest(), [stored(key) for key in keys])
        assert remote.keys == {b"50%": "50%25"}
        assert [(one.path, one.reason) for one in remote.skipped] == [("'50%'", "another key holds the same path")]
    strange = merge(manifest(), [stored("%61b"), stored("a%62"), stored("%61%62")])
    assert strange.keys == {b"ab": "%61b"}
    assert [one.path for one in strange.skipped] == ["'a%62'", "'%61%62'"]
    assert merge(manifest(), [stored("%long/" + "0" * 64)]).entries == {}


def test_a_folder_that_a_console_made_is_a_directory_whatever_the_manifest_calls_it() -> None:
    known = manifest(file(b"f"), Entry(b"l", "link", target=b"x"), Entry(b"d", "directory", mode=0o700))
    remote = merge(known, [stored("f/"), stored("l/"), stored("d/"), stored("//")])
    assert {path: (entry.kind, entry.mode) for path, entry in remote.entries.items()} == {
        b"f": ("directory", 0o755), b"l": ("directory", 0o755), b"d": ("directory", 0o700),
    }  # fmt: skip
    assert remote.keys == {}
    assert [one.path for one in remote.skipped] == ["'//'"]


def test_a_store_full_of_deep_names_is_read_in_time_linear_in_their_length() -> None:
    deep = "d/" * 340
    remote = merge(manifest(), [stored(f"{deep}{number}") for number in range(20_000)])
    assert len(remote.keys) == 20_000
    assert len(remote.entries) == 20_340


def test_a_flush_sends_what_changed_and_removes_what_is_gone() -> None:
    known = baseline(b"same", b"changed", b"gone")
    known[b"changed"] = Seen(file(b"changed"), "changed", Signature(2, 2, 2, 2))
    plan = plan_flush(known, scan(file(b"same"), file(b"changed"), file(b"new")), 100)
    assert (plan.clear, plan.send, plan.delete) == ([], [b"changed", b"new"], [b"gone"])


def test_directories_and_links_are_in_the_manifest_alone() -> None:
    d, e = Entry(b"d", "directory"), Entry(b"e", "link", target=b"d")
    known = {path: Seen(Entry(path, "directory")) for path in (b"a", b"d", b"e")} | baseline(b"f")
    plan = plan_flush(known, scan(d, e, file(b"f")), 100)
    assert (plan.others, plan.gone) == ([e], [b"a"])
    assert plan == FlushPlan(gone=[b"a"], others=[e])


def test_a_directory_that_is_a_file_now_is_no_directory_any_more() -> None:
    plan = plan_flush({b"d": Seen(Entry(b"d", "directory"))}, scan(file(b"d", 200)), 100)
    assert (plan.gone, plan.send, len(plan.skipped)) == ([b"d"], [], 1)


def test_keys_in_the_way_are_cleared_first() -> None:
    known = baseline(b"was-file", b"was-dir/f")
    plan = plan_flush(known, scan(Entry(b"was-file", "directory"), file(b"was-file/f"), file(b"was-dir")), 100)
    assert sorted(plan.clear) == [b"was-dir/f", b"was-file"]
    assert plan.delete == []


def test_what_could_not_be_listed_is_not_taken_for_gone() -> None:
    now = scan(Entry(b"d", "directory"))
    now.unread.add(b"d")
    plan = plan_flush(baseline(b"d/f"), now, 100)
    assert plan == FlushPlan(others=[Entry(b"d", "directory")])
