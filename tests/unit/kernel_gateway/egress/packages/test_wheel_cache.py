"""The cache of packages' files: what gets into it, what leaves it, what a damaged disk does."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from kernel_gateway.egress.packages.wheel_cache import WheelCache


def keep(cache: WheelCache, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    unfinished = cache.begin(sha256)
    assert unfinished is not None
    unfinished.write(content)
    unfinished.finish()
    unfinished.discard()
    return sha256


def read(cache: WheelCache, sha256: str) -> bytes | None:
    found = cache.open(sha256)
    if found is None:
        return None
    with found[0] as file:
        content = file.read()
    assert found[1] == len(content)
    return content


def test_a_finished_file_is_kept_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    cache = WheelCache(tmp_path / "a/b", 1000)
    sha256 = keep(cache, b"whole")
    assert read(cache, sha256) == b"whole"
    unfinished = cache.begin("0" * 64)
    assert unfinished is not None
    unfinished.write(b"half")
    unfinished.discard()
    assert read(cache, "0" * 64) is read(cache, "") is None
    assert [each.name for each in (tmp_path / "a/b").iterdir()] == [sha256]


def test_what_was_damaged_on_the_disk_is_not_given_out(tmp_path: Path) -> None:
    cache = WheelCache(tmp_path, 1000)
    sha256 = keep(cache, b"whole")
    (tmp_path / sha256).write_bytes(b"w")
    assert read(cache, sha256) is None
    assert list(tmp_path.iterdir()) == []


def test_the_file_that_was_not_asked_for_the_longest_goes_first(tmp_path: Path) -> None:
    cache = WheelCache(tmp_path, 25)
    first, second, third = (keep(cache, bytes([each]) * 10) for each in range(3))
    for age, sha256 in enumerate((third, second, first)):
        os.utime(tmp_path / sha256, (age, age))
    assert read(cache, third) is not None
    cache.make_room()
    assert {each.name for each in tmp_path.iterdir()} == {first, third}


def test_nothing_is_kept_where_nothing_may_be_or_fits(tmp_path: Path) -> None:
    assert WheelCache(tmp_path, 0).begin("0" * 64) is None
    assert WheelCache(tmp_path, 100, reserve_bytes=2**60).begin("0" * 64) is None
    keep(WheelCache(tmp_path, 3), b"large")
    (tmp_path / "file").write_text("")
    assert WheelCache(tmp_path / "file", 3).begin("0" * 64) is None
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = WheelCache(tmp_path, 100).begin("0" * 64)
    assert left is not None
    sha256 = keep(WheelCache(tmp_path, 100), b"whole")
    assert [each.name for each in tmp_path.iterdir()] == [sha256]
    left.discard()
