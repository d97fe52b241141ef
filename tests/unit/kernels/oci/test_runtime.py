"""A shared directory is there whole or not at all, and made by one of those who want it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.oci.runtime import create_atomically


def test_of_several_makers_at_once_the_whole_work_of_one_stays(tmp_path: Path) -> None:
    together = threading.Barrier(4, timeout=120)

    def fill(building: Path) -> None:
        (building / "maker").write_text(building.name)
        together.wait()
        (building / "same maker").write_text(building.name)

    with ThreadPoolExecutor(4) as threads:
        made = set(threads.map(lambda _: create_atomically(tmp_path / "it", fill), range(4)))
    assert made == {tmp_path / "it"}
    assert list(tmp_path.iterdir()) == [tmp_path / "it"]
    assert (tmp_path / "it" / "maker").read_text() == (tmp_path / "it" / "same maker").read_text()


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "it").mkdir()

    def fill(_: Path) -> None:
        raise AssertionError

    assert create_atomically(tmp_path / "it", fill) == tmp_path / "it"


def test_what_could_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_atomically(tmp_path / "it", lambda building: (building / "absent" / "file").touch())
    assert list(tmp_path.iterdir()) == []
