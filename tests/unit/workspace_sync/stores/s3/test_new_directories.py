"""Who makes a directory goes first; who comes into it meanwhile waits, and nobody else does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from workspace_sync.stores.s3.new_directories import DirectoryCreationLock

SECONDS = 120.0


class Write(threading.Thread):
    """A write below a key's directories, which ends when it is told to."""

    def __init__(self, directories: DirectoryCreationLock, key: str, *, fails: bool = False) -> None:
        super().__init__(daemon=True)
        self.inside, self.over = threading.Event(), threading.Event()
        self._enter = lambda: directories.entered(key)
        self._fails = fails
        self.start()

    def run(self) -> None:
        try:
            with self._enter():
                self.inside.set()
                assert self.over.wait(SECONDS)
                if self._fails:
                    raise OSError("the write failed")
        except OSError:
            pass

    def end(self) -> None:
        self.over.set()
        self.join(SECONDS)


@pytest.fixture
def begun() -> Callable[[str], tuple[DirectoryCreationLock, Write]]:
    def begin(key: str, *, fails: bool = False) -> tuple[DirectoryCreationLock, Write]:
        directories = DirectoryCreationLock(SECONDS)
        first = Write(directories, key, fails=fails)
        assert first.inside.wait(SECONDS)
        return directories, first

    return begin


@pytest.mark.parametrize("other", ["top/new/b", "top/other/c", "top/d"])
@pytest.mark.parametrize("fails", [False, True], ids=["made", "failed"])
def test_a_write_waits_for_the_one_that_makes_a_directory_of_its_own(
    begun: Callable[..., tuple[DirectoryCreationLock, Write]], other: str, fails: bool
) -> None:
    directories, first = begun("top/new/a", fails=fails)
    second = Write(directories, other)
    assert not second.inside.wait(0.2)
    first.end()
    assert second.inside.wait(SECONDS)
    second.end()


@pytest.mark.parametrize("other", ["else/new/b", "topmost"])
def test_no_other_write_waits(begun: Callable[..., tuple[DirectoryCreationLock, Write]], other: str) -> None:
    directories, first = begun("top/new/a")
    second = Write(directories, other)
    assert second.inside.wait(SECONDS)
    second.end()
    first.end()


def test_in_a_directory_that_is_there_all_write_at_once(
    begun: Callable[..., tuple[DirectoryCreationLock, Write]],
) -> None:
    directories, first = begun("top/new/a")
    first.end()
    several = [Write(directories, f"top/new/{number}") for number in range(3)]
    assert all(each.inside.wait(SECONDS) for each in several)
    for each in several:
        each.end()


def test_a_directory_whose_files_were_removed_is_new_again(
    begun: Callable[..., tuple[DirectoryCreationLock, Write]],
) -> None:
    directories, first = begun("top/new/a")
    first.end()
    directories.forget(["top/new/a"])
    second = Write(directories, "top/new/b")
    assert second.inside.wait(SECONDS)
    third = Write(directories, "top/new/c")
    assert not third.inside.wait(0.2)
    second.end()
    assert third.inside.wait(SECONDS)
    third.end()


def test_nobody_waits_for_longer_than_it_is_worth() -> None:
    directories = DirectoryCreationLock(0.01)
    first = Write(directories, "top/new/a")
    assert first.inside.wait(SECONDS)
    second = Write(directories, "top/new/b")
    assert second.inside.wait(SECONDS)
    second.end()
    first.end()
