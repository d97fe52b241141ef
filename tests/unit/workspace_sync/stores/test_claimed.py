"""Two services on one store: which of them may write, and what the other hears."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from workspace_sync.errors import StoreUnavailable, StoreUnusable
from workspace_sync.stores import claimed
from workspace_sync.stores.claimed import KEY, LEASE_SECONDS, OWN_SECONDS, ClaimedStore
from workspace_sync.stores.local import LocalStore


class Host:
    """Makes services on one store; `pass_time` turns the clock by which they know how long ago they renewed."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.root = directory / "store"
        self._now = 1000.0
        monkeypatch.setattr(claimed, "_now", lambda: self._now)

    def service(self, place: str) -> ClaimedStore:
        return ClaimedStore(LocalStore(str(self.root)), place, self.directory / f"remembered-{place}")

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
    write(first)


def test_a_release_by_what_does_not_hold_it_releases_nothing(host: Host) -> None:
    first, second = host.service("first"), host.service("second")
    first.renew()
    second.release()
    every_change(second)


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
    first, copy = host.service("first"), host.service("first")
    first.renew()
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
    with pytest.raises(StoreUnavailable, match="remembered-first"):
        write(first)
    if restarted:  # as the message says
        (host.directory / "remembered-first").unlink()
        write(first)


def test_a_mark_that_is_none_is_named(host: Host) -> None:
    host.root.mkdir()
    (host.root / KEY).write_bytes(b"\xff not ours")
    with pytest.raises(StoreUnusable, match="Remove it, or mend it"):
        write(host.service("first"))
