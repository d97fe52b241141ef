"""A packed table does what a dict does, in order, whatever is set and removed while others read it."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_sync import table as table_module
from workspace_sync.directory.scan import SIGNATURES, Signature
from workspace_sync.entry import ENTRIES, Entry
from workspace_sync.mirroring.baseline import SEEN, Baseline, Seen
from workspace_sync.names import key_of
from workspace_sync.table import Codec, Table

NUMBERS = Codec[int](lambda _, number: b"%d" % number, lambda _, data: int(data))
PATHS = st.binary(min_size=1, max_size=2)
CHANGES = st.lists(st.tuples(PATHS, st.one_of(st.none(), st.integers())), max_size=300)
DIGESTS = st.one_of(
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.binary(min_size=32, max_size=32).map(lambda raw: raw.hex().upper()),
    st.sampled_from(["", "x" * 64, "\ud800", "0" * 31 + " ", "d41d8cd98f00b204e9800998ecf8427e-2"]),
)
NUMBER = st.one_of(st.integers(0, 10**6), st.integers(-(2**63), 2**63), st.integers(-(2**100), 2**100))
ENTRY = st.builds(
    Entry,
    st.just(b"a/b"),
    st.sampled_from(["file", "directory", "link"]),
    NUMBER,
    NUMBER,
    st.integers(0, 0o777),
    DIGESTS,
    st.binary(max_size=9),
    DIGESTS,
    DIGESTS,
)
SIGNATURE = st.builds(Signature, NUMBER, NUMBER, NUMBER, NUMBER)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, and what is not packed yet, of a few values."""
    monkeypatch.setattr(table_module, "BLOCK", 4)
    monkeypatch.setattr(table_module, "LEAST_FRESH", 3)


def change(table: Table[int], model: dict[bytes, int], changes: list[tuple[bytes, int | None]]) -> None:
    for path, value in changes:
        if value is not None:
            table[path] = model[path] = value
        elif path in model:
            del table[path], model[path]
        else:
            with pytest.raises(KeyError):
                del table[path]
        assert table.get(path) == model.get(path)
        assert (path in table, len(table)) == (path in model, len(model))


@given(CHANGES, CHANGES)
def test_it_holds_what_a_dict_would_in_order(
    first: list[tuple[bytes, int | None]], then: list[tuple[bytes, int | None]]
) -> None:
    table, model = Table(NUMBERS), dict[bytes, int]()
    change(table, model, first)
    table.pack()
    copied, reading, was = table.copy(), iter(table.items()), sorted(model.items())
    begun = [next(reading)] if was else []
    change(table, model, then)
    assert list(table.items()) == sorted(model.items())
    assert (list(table), list(table.values())) == (sorted(model), [model[path] for path in sorted(model)])
    assert list(copied.items()) == was
    assert [*begun, *reading] == was if begun else True


def test_who_reads_while_another_writes_finds_all_that_was_there() -> None:
    """Packing moves every value; no reader may look where it is no more, or not yet."""
    table = Table(NUMBERS, {b"%04d" % number: number for number in range(0, 2000, 2)})
    stop, missed = threading.Event(), list[int]()

    def read() -> None:
        while not stop.is_set():
            missed.extend(number for number in range(0, 2000, 2) if table.get(b"%04d" % number) != number)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 2000, 2):
        table[b"%04d" % number] = number
    stop.set()
    reader.join(120)
    assert (missed, len(table)) == ([], 2000)


@given(ENTRY)
def test_an_entry_comes_back(entry: Entry) -> None:
    assert ENTRIES.unpack(entry.path, ENTRIES.pack(entry.path, entry)) == entry


@given(SIGNATURE)
def test_a_signature_comes_back(signature: Signature) -> None:
    assert SIGNATURES.unpack(b"a", SIGNATURES.pack(b"a", signature)) == signature


@given(ENTRY, st.sampled_from(["", key_of(b"a/b"), "%long/" + "0" * 64, "a%2Fb"]), st.data(), st.booleans())
def test_what_was_seen_comes_back(entry: Entry, key: str, data: st.DataObject, ours: bool) -> None:
    times = st.integers(-(2**63), 2**63)
    same = st.builds(Signature, st.just(entry.size), st.just(entry.mtime_ns), times, times)
    seen = Seen(entry, key, data.draw(st.one_of(st.none(), SIGNATURE, same)), ours)
    assert SEEN.unpack(entry.path, SEEN.pack(entry.path, seen)) == seen


def test_a_name_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path, what the store has of it and the sign by which a change is seen; as objects that was 0.7 kB."""
    monkeypatch.undo()
    names, digest = 20_000, "0123456789abcdef"
    tracemalloc.start()
    try:
        baseline = Baseline()
        for number in range(names):
            path = b"directory/%06d.bin" % number
            entry = Entry(path, "file", 10**6 + number, 10**18 + number, sha256=digest * 4, etag=digest * 2)
            baseline[path] = Seen(entry, key_of(path), Signature(entry.size, entry.mtime_ns, 10**18, 10**6 + number))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(baseline) == names
    assert taken / names < 250


def files(*sizes: int) -> Iterator[Seen]:
    for size in sizes:
        yield Seen(Entry(b"f", "file", size), "f")


def test_a_baseline_knows_what_it_names_and_whether_that_changed() -> None:
    baseline = Baseline()
    assert baseline.changed
    small, large = files(5, 7)
    for now, total, changed in (
        (small, 5, True),
        (small, 5, False),
        (Seen(small.entry, "f", Signature(1, 2, 3, 4)), 5, False),
        (large, 7, True),
        (Seen(large.entry, "f", ours=False), 0, True),
        (large, 7, True),
        (None, 0, True),
    ):
        baseline.changed = False
        if now is None:
            del baseline[b"f"]
        else:
            baseline[b"f"] = now
        assert (baseline.file_bytes, baseline.changed) == (total, changed)
    baseline[b"d"] = Seen(Entry(b"d", "directory", 9))
    assert baseline.file_bytes == 0
