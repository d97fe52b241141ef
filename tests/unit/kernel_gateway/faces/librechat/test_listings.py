"""What two listings say about the run between them, also where they are cut."""

from __future__ import annotations

from kernel_gateway.faces.librechat.listings import Listing, find_gone, find_made
from sandcell.models.workspaces import FileEntry

BEGAN = "2026-01-01T00:00:05Z"
OLD, NEW = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"


def listing(*paths: str, at: str = OLD, whole: bool = True) -> Listing:
    return Listing([FileEntry(path, "file", 1, at) for path in paths], whole)


def made(before: Listing, after: Listing) -> list[str]:
    return [each.path for each in find_made(before, after, BEGAN)]


def test_what_is_new_or_changed_was_made() -> None:
    after = Listing([*listing("a", "b/c").files, *listing("d", "e", at=NEW).files])
    assert made(listing("a", "b/c", "d"), after) == ["d", "e"]
    assert made(listing(), listing(".x", "b/.y/z", "node_modules/m.js", "__pycache__/n.pyc", at=NEW)) == []
    assert made(listing(), listing("moved-here")) == ["moved-here"]  # with the time that it had


def test_what_a_cut_listing_did_not_reach_was_made_when_it_was_changed_since() -> None:
    before = listing("a", "b/c", whole=False)
    assert made(before, listing("a", "b/c", "d", whole=False)) == []
    assert made(before, listing("a", "b/b", "b/c")) == ["b/b"]
    assert made(before, listing("a", "b/c", "d", at=NEW)) == ["a", "b/c", "d"]
    assert made(Listing([], whole=False), listing("a")) == []


def test_nothing_is_said_to_be_gone_where_a_listing_was_cut() -> None:
    assert find_gone(listing("a", "b"), listing("a"), ["a", "b", "c"]) == {"b"}
    assert find_gone(listing("a", "b"), listing("a", whole=False), ["a", "b", "c"]) == set()
