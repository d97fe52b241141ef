"""The audit file: whole lines, bounded by rotation, begun again when it is gone, and a refusal that says what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kernel_gateway.errors import StartRefused
from kernel_gateway.services.audit.file import AuditFile

LINE = b'{"n":1}\n'


def opened(path: Path, most_bytes: int = 100, files: int = 3) -> AuditFile:
    file = AuditFile(path, most_bytes, files)
    file.open()
    return file


def test_lines_are_appended_to_what_is_there_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.jsonl"
    for _ in range(2):
        file = opened(path)
        file.append(LINE)
        file.close()
    assert path.read_bytes() == LINE * 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_is_renamed_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = opened(path, most_bytes=20)
    for number in range(10):
        file.append(b'{"n":%d}\n' % number)
    file.close()
    kept = {each.name: [json.loads(one)["n"] for one in each.read_text().splitlines()] for each in tmp_path.iterdir()}
    assert kept == {"a.jsonl": [8, 9], "a.jsonl.1": [6, 7], "a.jsonl.2": [4, 5]}


def test_a_single_file_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = opened(path, most_bytes=20, files=1)
    for _ in range(5):
        file.append(LINE)
    file.close()
    assert path.read_bytes() == LINE
    assert list(tmp_path.iterdir()) == [path]


def test_more_at_once_than_a_file_holds_is_written_all_the_same(tmp_path: Path) -> None:
    file = opened(tmp_path / "a.jsonl", most_bytes=20)
    file.append(LINE * 100)
    file.append(LINE)
    file.close()
    assert (tmp_path / "a.jsonl.1").read_bytes() == LINE * 100


@pytest.mark.parametrize("how", ["rename", "unlink"])
def test_a_file_that_is_taken_away_is_recreated(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.jsonl"
    file = opened(path)
    file.append(LINE)
    if how == "rename":
        path.rename(tmp_path / "elsewhere")
    else:
        path.unlink()
    file.append(b'{"n":2}\n')
    file.close()
    assert path.read_bytes() == b'{"n":2}\n'


def test_a_line_that_lacks_its_end_is_ended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":')
    file = opened(path)
    file.append(LINE)
    file.append(LINE)
    file.close()
    assert path.read_bytes() == b'{"n":\n' + LINE * 2


def test_a_full_disk_is_an_error_and_what_comes_later_begins_on_a_line_of_its_own() -> None:
    file = AuditFile(Path("/dev/full"), 1 << 40, 2)
    file.open()
    with pytest.raises(OSError, match="No space"):
        file.append(LINE)
    assert file._torn
    file.close()


def test_links_and_directories_are_refused_with_what_to_do(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(StartRefused, match="set audit_file to a file in a directory of its own"):
            AuditFile(tmp_path / name, 100, 2).open()
    assert target.read_text() == "precious"
