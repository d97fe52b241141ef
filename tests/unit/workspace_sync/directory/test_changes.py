"""What changed in a directory between two looks, within bounds, whatever stands in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from workspace_sync.directory import changes
from workspace_sync.directory.changes import ChangedFile, ChangeLimits, Changes, Watched

NOBODY = 65_534


def watched(directory: Path, **limits: float) -> Watched:
    made = Watched(str(directory), ChangeLimits(**limits))  # type: ignore[arg-type]
    assert made.look() == Changes()
    return made


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_added_changed_and_removed_files_are_told_by_path_and_nothing_is_told_twice(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(b"1")
    (tmp_path / "goes").write_bytes(b"22")
    (tmp_path / "turns").write_bytes(b"333")
    look = watched(tmp_path).look
    (tmp_path / "goes").unlink()
    (tmp_path / "turns").write_bytes(b"4444")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new").write_bytes(b"55555")
    assert look().files == (
        ChangedFile("deep/new", "added", 5, digest(b"55555")),
        ChangedFile("goes", "removed", 2),
        ChangedFile("turns", "changed", 4, digest(b"4444")),
    )
    assert look() == Changes()


def test_the_same_size_and_time_do_not_hide_a_change(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    look = watched(tmp_path).look
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert look().files == (ChangedFile("f", "changed", 3, digest(b"two")),)


def test_links_pipes_sockets_and_what_is_closed_are_no_harm(tmp_path: Path) -> None:
    look = watched(tmp_path).look
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / os.fsdecode(b"\xff\n")).write_bytes(b"x")
    assert look().files == (ChangedFile("\\xff\n", "added", 1, digest(b"x")),)


def test_what_is_closed_to_us_is_not_gone() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "shut").mkdir()
        (directory / "shut" / "f").write_bytes(b"1")
        (directory / "g").write_bytes(b"1")
        for path in (directory, directory / "shut", directory / "shut" / "f", directory / "g"):
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            look = watched(directory).look
            (directory / "shut").chmod(0)
            (directory / "g").chmod(0)
            assert look().files == (ChangedFile("g", "changed", 1, None),)
            (directory / "shut").chmod(0o700)
            assert look() == Changes()
        finally:
            os.seteuid(0)


def test_more_changes_than_are_told_are_counted(tmp_path: Path) -> None:
    look = watched(tmp_path, listed=3).look
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(b"")
    found = look()
    assert [each.path for each in found.files] == ["0", "1", "2"]
    assert found.omitted == 7


def test_no_more_is_hashed_than_may_be(tmp_path: Path) -> None:
    look = watched(tmp_path, hashed_bytes=5).look
    for name, size in (("a", 3), ("b", 3), ("c", 2)):
        (tmp_path / name).write_bytes(bytes(size))
    assert [(each.size, each.sha256 is None) for each in look().files] == [(3, False), (3, True), (2, False)]
    late = watched(tmp_path, seconds=0).look
    (tmp_path / "d").write_bytes(b"1")
    assert late().files == (ChangedFile("d", "added", 1, None),)


def test_more_names_than_are_looked_through_say_so_and_fewer_are_seen_again(tmp_path: Path) -> None:
    look = watched(tmp_path, names_bytes=1_000).look
    for number in range(10):
        (tmp_path / f"{number}").touch()
    assert "more names" in look().unknown
    for number in range(9):
        (tmp_path / f"{number}").unlink()
    assert look() == Changes()
    (tmp_path / "new").touch()
    assert [each.path for each in look().files] == ["new"]


def test_a_directory_that_is_gone_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    made = watched(tmp_path / "d")
    (tmp_path / "d").rmdir()
    assert "cannot be read" in made.look().unknown


def test_what_somebody_else_is_known_to_have_changed_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "goes").touch()
    made = watched(tmp_path)
    (tmp_path / "f").write_bytes(b"1")
    (tmp_path / "g").write_bytes(b"1")
    (tmp_path / "d" / "goes").unlink()
    made.accept([b"f", b"d/goes", b"d", b"never"])
    assert [each.path for each in made.look().files] == ["g"]


def test_what_is_changed_after_somebody_else_changed_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"1")
    (tmp_path / "d" / "stays").write_bytes(b"1")
    (tmp_path / "e").write_bytes(b"1")
    made = watched(tmp_path)
    for name in ("d/f", "e"):
        (tmp_path / name).write_bytes(b"22")
    made.accept([b"d", b"d/f", b"e"])
    (tmp_path / "d" / "f").write_bytes(b"333")
    (tmp_path / "d" / "stays").write_bytes(b"22")
    assert [(each.path, each.change) for each in made.look().files] == [("d/f", "changed"), ("d/stays", "changed")]
    assert made.look() == Changes()


def test_a_directory_that_somebody_else_removed_is_gone_and_what_comes_in_its_place_is_new(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"1")
    (tmp_path / "d" / "g").write_bytes(b"1")
    made = watched(tmp_path)
    shutil.rmtree(tmp_path / "d")
    made.accept([b"d"])
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"22")
    assert made.look().files == (ChangedFile("d/f", "added", 2, digest(b"22")),)


def test_a_look_that_does_not_end_holds_nobody_up(tmp_path: Path) -> None:
    made = watched(tmp_path, seconds=0.05)
    made._looking.acquire()
    assert "has not ended" in made.look().unknown
    made._looking.release()
    assert made.look() == Changes()


@pytest.mark.timeout(60)
def test_files_that_change_and_turn_into_links_while_they_are_hashed_get_no_wrong_hash(tmp_path: Path) -> None:
    made = watched(tmp_path)
    stop = threading.Event()
    contents = [bytes([each]) * 300_000 for each in range(4)]
    right = {digest(each) for each in contents}

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (tmp_path / "new").write_bytes(contents[number % 4])
            (tmp_path / "new").replace(tmp_path / "f")
            (tmp_path / "link").symlink_to("/etc/passwd")
            (tmp_path / "link").replace(tmp_path / "f")

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for each in made.look().files:
                assert each.sha256 is None or each.sha256 in right or each.size < 300_000
    finally:
        stop.set()
        churning.join()


def test_a_tree_that_takes_too_long_to_walk_is_not_walked_to_its_end(tmp_path: Path) -> None:
    look = Watched(str(tmp_path), ChangeLimits(scan_seconds=0)).look
    assert look() == Changes(unknown=changes.TOO_LONG)


def test_one_that_took_long_for_nothing_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(changes, "RESTS", 1e9)
    look = watched(tmp_path, names_bytes=1_000).look
    for number in range(10):
        (tmp_path / f"file-{number}").touch()
    assert look() == Changes(unknown=changes.TOO_MANY)
    for number in range(10):
        (tmp_path / f"file-{number}").unlink()
    assert look() == Changes(unknown=changes.TOO_LONG)
