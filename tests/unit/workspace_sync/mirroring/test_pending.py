"""What is still to come of many files."""

from __future__ import annotations

from workspace_sync.entry import Entry
from workspace_sync.mirroring.pending import Pending
from workspace_sync.mirroring.plan import Remote
from workspace_sync.mirroring.restore import _smallest_first


def test_it_knows_what_is_left() -> None:
    pending = Pending([(b"a", 1), (b"b", 20), (b"c", 300)])
    assert (pending.files, pending.size_bytes, list(pending.left())) == (3, 321, [0, 1, 2])
    for _ in range(2):  # who is done twice is done
        pending.done(1)
        assert (pending.files, pending.size_bytes, list(pending.left())) == (2, 301, [0, 2])
    assert [pending.paths[number] for number in pending.left()] == [b"a", b"c"]
    assert pending.size(2) == 300


def test_a_size_that_no_file_has_is_taken_for_one_that_it_can_have() -> None:
    assert Pending([(b"a", 10**30), (b"b", 1)]).size_bytes > 10**18
    assert Pending([(b"a", -(10**30)), (b"b", 1)]).size_bytes == 1
    assert Pending().files == 0


def test_the_smallest_comes_first_whatever_sizes_a_listing_tells() -> None:
    remote = Remote()
    for path, size in ((b"a", 10**30), (b"b", 5), (b"c", -1), (b"d", 5)):
        remote.entries[path] = Entry(path, "file", size, 0, 0o644)
        remote.keys[path] = path.decode()
    assert _smallest_first(remote).paths == [b"c", b"b", b"d", b"a"]
