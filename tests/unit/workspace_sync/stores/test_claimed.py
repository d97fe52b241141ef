"""Two services on one store: which of them may write, and what the other hears."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from structlog.testing import capture_logs

from workspace_sync.errors import StoreUnavailable, StoreUnusable
from workspace_sync.store import StoredObject, Written
from workspace_sync.stores import claimed
from workspace_sync.stores.claim_files import MOST_USED_STORES, UsedStores, keep_service_id
from workspace_sync.stores.claimed import (
    CLAIMS,
    DELETE_BATCH,
    KEY,
    LEASE_SECONDS,
    OWN_SECONDS,
    ClaimedStore,
)
from workspace_sync.stores.local import LocalStore


class Host:
    """Makes services on one store; `pass_time` turns the clock by which they know how long ago they renewed."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.root = directory / "store"
        self._now = 1000.0
        monkeypatch.setattr(claimed, "_now", lambda: self._now)

    def service(self, place: str, data: str = "", root: str = "store") -> ClaimedStore:
        """At `place`, on the data directory of that name unless another is given."""
        kept = self.directory / (data or place)
        store = LocalStore(str(self.directory / root))
        return ClaimedStore(store, keep_service_id(kept / "id"), place, UsedStores(kept / "used"))

    def pass_time(self, seconds: float) -> None:
        """Also for the store: what is there now was written so much earlier."""
        self._now += seconds
        mark = self.root / KEY
        written = mark.stat().st_mtime - seconds
        os.utime(mark, (written, written))

    def names(self) -> set[str]:
        return {each.name for each in self.root.iterdir() if each.name != ".incoming"}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def write(store: ClaimedStore, key: str = "file") -> None:
    store.put(key, io.BytesIO(b"data"), 4)


def every_change(store: ClaimedStore) -> None:
    """Each is refused by itself."""
    for change in (
        lambda: write(store, "other"),
        lambda: store.delete(["file"]),
        lambda: store.copy("file", "other"),
        lambda: list(store.list("workspaces/")),
    ):
        with pytest.raises(StoreUnusable, match="in use by another service, first"):
            change()


def test_the_first_has_it_and_the_second_changes_nothing(host: Host) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    write(first)
    with pytest.raises(StoreUnusable, match="give this one a prefix or directory of its own"):
        second.renew()
    every_change(second)
    write(first)
    assert host.names() == {KEY, "file"}


def test_what_is_released_goes_to_the_next_at_once(host: Host) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    first.release()
    write(second)
    second.release()
    write(host.service("first"))


def test_a_release_by_what_does_not_hold_it_releases_nothing(host: Host) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    second.release()
    write(first)
    every_change(host.service("second"))


def test_a_service_that_died_is_followed_at_once_by_the_next_of_its_data_directory(host: Host) -> None:
    host.service("first").renew()
    again = host.service("first")
    again.renew()
    write(again)


@pytest.mark.parametrize(("passed", "taken"), [(LEASE_SECONDS - 10, False), (LEASE_SECONDS + 1, True)])
def test_another_may_take_it_over_once_the_holder_is_silent_for_long(host: Host, passed: float, taken: bool) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    host.pass_time(passed)
    if taken:
        write(second)
        assert host.names() == {KEY, "file"}
    else:
        every_change(second)


def test_one_that_hung_while_it_was_taken_over_writes_nothing_more(host: Host) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    host.pass_time(LEASE_SECONDS + 1)
    second.renew()
    with pytest.raises(StoreUnusable, match="second, which has taken it over from this one"):
        write(first)
    second.release()  # it may hold newer states of the same workspaces
    with pytest.raises(StoreUnusable, match="taken it over"):
        write(first)
    assert host.names() == {KEY}


def test_a_copy_of_a_data_directory_takes_over_from_the_service_that_has_the_first(host: Host) -> None:
    """They may say the same host and directory; only one of them goes on writing."""
    first = host.service("first")
    first.renew()
    shutil.copytree(host.directory / "first", host.directory / "copied")
    copy = host.service("first", "copied")
    copy.renew()
    write(copy)
    host.pass_time(OWN_SECONDS + 1)
    with pytest.raises(StoreUnusable, match="taken it over"):
        write(first)


def test_one_that_hung_and_was_not_taken_over_goes_on(host: Host) -> None:
    first = host.service("first")
    first.renew()
    host.pass_time(10 * LEASE_SECONDS)
    write(first)
    with pytest.raises(StoreUnusable, match="in use by another service, first"):
        host.service("second").renew()


@pytest.mark.parametrize("restarted", [False, True])
def test_an_empty_directory_in_place_of_the_store_is_not_the_store(host: Host, restarted: bool) -> None:
    """As when its file system is not mounted: neither restored from nor written to."""
    first = host.service("first")
    first.renew()
    host.pass_time(OWN_SECONDS + 1)
    shutil.rmtree(host.root)
    if restarted:
        first = host.service("first")
    with pytest.raises(StoreUnavailable, match="Is its file system mounted"):
        list(first.list("workspaces/"))
    with pytest.raises(StoreUnavailable, match="first/used"):
        write(first)
    if restarted:  # as the message says
        (host.directory / "first" / "used").unlink()
        write(first)


def test_a_mark_that_is_none_is_named(host: Host) -> None:
    host.root.mkdir()
    (host.root / KEY).write_bytes(b"\xff not ours")
    with pytest.raises(StoreUnusable, match="Remove it, or mend it"):
        write(host.service("first"))


def test_two_hosts_of_one_name_do_not_take_the_store_from_each_other(host: Host) -> None:
    first, second = host.service("localhost:/data", "one"), host.service("localhost:/data", "another")
    first.renew()
    with pytest.raises(StoreUnusable, match="in use by another service, localhost:/data"):
        second.renew()
    write(first)


def test_a_killed_service_has_its_store_at_once_under_another_host_name(host: Host) -> None:
    host.service("container-1:/data", "volume").renew()
    again = host.service("container-2:/data", "volume")
    with capture_logs() as logs:
        again.renew()
    (told,) = [each for each in logs if each["event"] == "store_taken_over"]
    assert (told["other"], told["same_data_directory"]) == ("container-1:/data", True)


@pytest.mark.parametrize("released", [False, True])
def test_a_takeover_from_what_was_not_released_is_logged(host: Host, released: bool) -> None:
    first = host.service("first")
    first.renew()
    if released:
        first.release()
    host.pass_time(LEASE_SECONDS + 1)
    second = host.service("second")
    with capture_logs() as logs:
        second.renew()
        second.renew()
    assert [each["other"] for each in logs if each["event"] == "store_taken_over"] == ([] if released else ["first"])


def test_a_store_is_remembered_while_another_is_used(host: Host) -> None:
    for root in ("store", "other"):
        one = host.service("first", root=root)
        one.renew()
        one.release()
    shutil.rmtree(host.root)
    with pytest.raises(StoreUnavailable, match="Is its file system mounted"):
        host.service("first").renew()


def test_so_many_stores_are_remembered(tmp_path: Path) -> None:
    used = UsedStores(tmp_path / "used")
    for number in range(MOST_USED_STORES + 1):
        assert used.add(f"store\n{number}")
    before = (tmp_path / "used").stat()
    assert used.add("store\n1")
    assert (tmp_path / "used").stat() == before, "written only when different"
    assert [used.has(f"store\n{number}") for number in (0, 1, MOST_USED_STORES)] == [False, True, True]
    assert [each.name for each in tmp_path.iterdir()] == ["used"]


def test_a_disk_that_takes_nothing_stops_no_claim(host: Host) -> None:
    """Something in the way of its files, since a full disk cannot be had here; root may write everywhere."""
    (host.directory / "first" / "used.new").mkdir(parents=True)
    (host.directory / "first" / "id.new").mkdir()
    with capture_logs() as logs:
        first = host.service("first")
        first.renew()
        host.pass_time(OWN_SECONDS + 1)
        write(first)
    assert [each["event"] for each in logs] == ["service_id_not_kept", "store_not_remembered"]
    (host.directory / "first" / "used.new").rmdir()
    first.renew()
    assert UsedStores(host.directory / "first" / "used").has(LocalStore(str(host.root)).description)


def test_a_store_that_may_have_been_used_is_not_taken_for_a_new_one(host: Host) -> None:
    (host.directory / "first" / "used").mkdir(parents=True)  # reading it fails
    with pytest.raises(StoreUnavailable, match=r"says whether .* was used before"):
        host.service("first").renew()
    assert host.names() == set()


def test_nothing_is_claimed_after_the_release(host: Host) -> None:
    first = host.service("first")
    first.renew()
    first.release()
    for late in (first.renew, lambda: write(first)):
        with pytest.raises(StoreUnavailable, match="this service has ended"):
            late()
    host.service("second").renew()


class Away(LocalStore):
    """A store of which nothing can be read until its outage is over; others come meanwhile."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked = 0
        self.away = threading.Event()

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        self.asked += 1
        self.away.wait(60)
        raise StoreUnavailable("it does not answer")


class WatchedLock:
    """Says when eight have come, the one that has it among them."""

    def __init__(self) -> None:
        self._lock, self._came = threading.Lock(), itertools.count(1)
        self.eight_came = threading.Event()

    def acquire(self, timeout: float) -> bool:
        if next(self._came) == 8:
            self.eight_came.set()
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()


def test_one_failed_renewal_answers_all_who_waited(host: Host) -> None:
    behind = Away(str(host.root))
    store = ClaimedStore(behind, "id", "first", UsedStores(host.directory / "used"))

    def try_to_write(_number: int) -> str:
        with pytest.raises(StoreUnavailable) as caught:
            write(store)
        return str(caught.value)

    lock = WatchedLock()
    cast("Any", store)._renewing = lock
    with ThreadPoolExecutor(8) as pool:
        told = pool.map(try_to_write, range(8))
        assert lock.eight_came.wait(60)
        behind.away.set()
        assert set(told) == {"it does not answer"}
    assert behind.asked == 1
    try_to_write(0)  # who comes later finds out for itself
    assert behind.asked == 2


class Bucket(LocalStore):
    """A store without locks. `before` is called before each time that it is asked for anything, with their number."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked = 0
        self.before: Callable[[int], None] = lambda _: None

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        yield False

    def _note(self) -> None:
        self.asked += 1
        self.before(self.asked)

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        self._note()
        return super().put(key, source, size)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        self._note()
        return super().get(key, offset, size)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._note()
        return super().list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self._note()
        super().delete(keys)


def renew(store: ClaimedStore) -> str:
    """How it went."""
    try:
        store.renew()
    except StoreUnusable as error:
        return str(error)
    return "it has the store"


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("before", ["nobody", "a killed one", "the first"])
def test_of_two_that_claim_a_bucket_at_once_one_has_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, first: str, before: str
) -> None:
    """The second comes in all of its steps between two steps of the first: at the beginning, in between, at the end.

    Who had it `before` has said nothing for long; the first, if it did, had hung.
    """
    monkeypatch.setattr(claimed.time, "sleep", lambda _: None)
    used = UsedStores(host.directory / "used")
    for step in itertools.count(1):
        shutil.rmtree(host.root, ignore_errors=True)
        used.file.unlink(missing_ok=True)
        buckets = [Bucket(str(host.root)) for _ in range(2)]
        names = [first, "b" if first == "a" else "a"]
        stores = [ClaimedStore(*each, used) for each in zip(buckets, names, names, strict=True)]
        said: list[str] = []
        if before != "nobody":
            killed = ClaimedStore(Bucket(str(host.root)), "c", "killed", used)
            (killed if before == "a killed one" else stores[0]).renew()
            host.pass_time(LEASE_SECONDS + 1)
            buckets[0].asked = 0

        def come_between(asked: int, step: int = step, store: ClaimedStore = stores[1], said: list[str] = said) -> None:
            if asked == step:
                said.append(renew(store))

        buckets[0].before = come_between
        said.append(renew(stores[0]))
        if len(said) == 1:
            break
        assert said.count("it has the store") == 1, (step, said)
    assert step > 5


def test_a_name_that_a_service_left_as_it_died_goes_once_it_is_old(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimed.time, "sleep", lambda _: None)
    bucket = Bucket(str(host.root))
    left = f"{CLAIMS}another"
    bucket.put(left, io.BytesIO(b""), 0)
    store = ClaimedStore(bucket, "id", "first", UsedStores(host.directory / "used"))
    assert "at the same moment: try again" in renew(store)
    os.utime(host.root / left, (0, 0))
    assert renew(store) == "it has the store"
    assert list(bucket.list(CLAIMS)) == []


@pytest.mark.parametrize(("seconds", "released", "named"), [(0, False, 0), (LEASE_SECONDS / 2, False, 1), (0, True, 1)])
def test_what_a_service_had_until_just_now_nobody_else_can_claim(
    host: Host, monkeypatch: pytest.MonkeyPatch, seconds: float, released: bool, named: int
) -> None:
    names: list[str] = []
    monkeypatch.setattr(ClaimedStore, "_wait_for_turn", lambda store: names.append(store._name))
    stores = [ClaimedStore(Bucket(str(host.root)), "id", "first", UsedStores(host.directory / "used")) for _ in "12"]
    stores[0].renew()
    if released:
        stores[0].release()
    host.pass_time(seconds)
    names.clear()
    stores[1].renew()
    assert names == [f"{CLAIMS}id"] * named
    write(stores[1])


def test_claims_of_a_local_store_are_made_one_after_another(host: Host) -> None:
    services = [host.service(f"{number}") for number in range(8)]

    def claim(service: ClaimedStore) -> bool:
        with contextlib.suppress(StoreUnusable):
            service.renew()
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, services)) == 1


def test_a_long_removal_stops_when_the_store_is_taken_over(host: Host) -> None:
    first = host.service("first")
    for name in ("kept", "removed"):
        write(first, name)

    def keys() -> Iterator[str]:
        yield "removed"
        yield from (f"absent-{number}" for number in range(DELETE_BATCH - 1))
        host.pass_time(LEASE_SECONDS + 1)
        host.service("second").renew()
        yield "kept"

    with pytest.raises(StoreUnusable, match="taken it over"):
        first.delete(keys())
    assert host.names() == {KEY, "kept"}
