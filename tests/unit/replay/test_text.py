"""Texts of two runs: what counts and what does not."""

from __future__ import annotations

import pytest

from kernels.replay import compare
from tests.unit.replay.shown import display, error, stderr, stdout

SAME = {
    "address": ("<Thing object at 0x7f3a2c1b4d90>", "<Thing object at 0x7f91bc004a10>"),
    "short address": ("<cell at 0x1f>", "<cell at 0x2e>"),
    "identity": ("id 140234567890123", "id 139876543210987"),
    "iso time": ("now 2026-11-21 15:02:42.123456", "now 2026-11-22 01:00:00.5"),
    "rfc 3339": ("at 2026-11-21T15:02:42Z", "at 2026-11-22T16:02:42+00:00"),
    "date": ("on 2026-11-21", "on 2026-12-01"),
    "ctime": ("Sat Nov 21 15:02:42 2026", "Sun Nov 22 05:12:02 2026"),
    "rfc 822": ("Sat, 21 Nov 2026 15:02:42 GMT", "Sun, 22 Nov 2026 05:12:02 GMT"),
    "written": ("November 21, 2026", "December 1, 2026"),
    "repr": ("datetime.datetime(2026, 11, 21, 15, 2, 42, 1)", "datetime.datetime(2026, 11, 22, 5, 2)"),
    "compact": ("run_ 20261121_150242", "run_ 20261122_050242"),
    "epoch": ("1795272162.123", "1795358562.456"),
    "clock": ("15:02:42 INFO ready", "05:12:02 INFO ready"),
    "wall time": (
        "CPU times: user 1.2 ms, sys: 31 µs, total: 1.23 ms\nWall time: 1.31 ms",
        "CPU times: user 2 s, sys: 1e-05 s, total: 2 s\nWall time: 2.1 s",
    ),
    "timeit": (
        "8.4 ns ± 0.1 ns per loop (mean ± std. dev. of 7 runs, 100,000,000 loops each)",
        "11 ns ± 0.31 ns per loop (mean ± std. dev. of 7 runs, 10,000,000 loops each)",
    ),
    "took": ("training took 3.2 s", "training took 4.75 seconds"),
    "elapsed": ("elapsed: 0.00123", "elapsed: 1.5"),
    "progress": (
        "\r  0%|  | 0/3 [00:00<?, ?it/s]\r100%|##| 3/3 [00:01<00:00,  2.9it/s]\n",
        "\r100%|##| 3/3 [00:02<00:00,  1.1it/s]\n",
    ),
    "temporary": ("wrote /tmp/tmpab12cd/x.bin", "wrote /tmp/tmpzz98yy/x.bin"),
    "temporary of a Mac": ("/var/folders/ab/cdef0000gn/T/tmp1", "/tmp/tmp2"),
    "absolute": ("read /home/ann/project/data.csv", "read /workspace/data.csv"),
    "directory": ("'/home/ann/project'", "'/workspace'"),
    "drive": (r"C:\Users\ann\data.csv", r"D:\work\data.csv"),
    "warning": (
        "/tmp/ipykernel_31/2837462.py:1: FutureWarning: old\n  f()",
        "/tmp/ipykernel_877/1122.py:1: FutureWarning: old\n  f()",
    ),
    "count": ("see Out[12] and <ipython-input-3-0a1b2c>", "see Out[4] and <ipython-input-9-ffee00>"),
    "process": ("pid=1234", "pid=87"),
    "colours": ("\x1b[31mred\x1b[0m", "red"),
    "trailing blanks": ("a  \nb\n\n", "a\nb"),
    "line ends": ("a\r\nb", "a\nb"),
    "overwritten": ("1%\r50%\rdone\n", "done\n"),
    "last digits": ("0.30000000000000004", "0.3"),
    "aligned": ("[0.123456789012  1.5]", "[0.12345678901  1.5]"),
    "shown digits": ("mean 0.123456", "mean 0.123457"),
}

DIFFERENT = {
    "words": ("yes", "no"),
    "integers": ("1000000", "1000001"),
    "large integers": ("12345678901234567890", "12345678901234567891"),
    "fractions": ("0.5", "0.51"),
    "coarse fractions": ("1.23", "1.24"),
    "sign": ("0.123456", "-0.123456"),
    "tiny": ("6.6e-34", "1.6e-19"),
    "more lines": ("a", "a\na"),
    "order": ("a\nb", "b\na"),
    "other file": ("/data/a.csv", "/data/b.csv"),
    "other host": ("https://one.example/a/b", "https://two.example/a/b"),
    "short hexadecimal": ("0x1f", "0x2f"),
    "seconds that are content": ("half life 5.27 s", "half life 6.10 s"),
    "not a date": ("2026-13-45", "2026-14-45"),
    "nothing": ("text", ""),
    "ratio": ("3:10", "3:11"),
    "version": ("1.2.3", "1.2.4"),
    "infinite": ("inf", "nan"),
    "huge exponent": ("1e999", "1e-999"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_changes_from_run_to_run_is_the_same(name: str) -> None:
    recorded, replayed = SAME[name]
    assert compare([stdout(recorded)], [stdout(replayed)]).same
    assert compare([stdout(replayed)], [stdout(recorded)]).same
    assert compare([display(text_plain=recorded)], [display(text_plain=replayed)]).same


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_the_code_says_counts(name: str) -> None:
    recorded, replayed = DIFFERENT[name]
    found = compare([stdout(recorded)], [stdout(replayed)])
    assert not found.same
    assert found.diff.startswith("--- recorded stdout\n+++ replayed stdout\n@@")
    assert found.why
    assert not compare([stdout(replayed)], [stdout(recorded)]).same


def test_a_date_is_now_only_near_its_own_run() -> None:
    runs = {"recorded_at": "2026-11-21T15:00:00Z", "replayed_at": "2027-01-05T09:00:00Z"}
    assert compare([stdout("2026-11-21 15:00:01")], [stdout("2027-01-05 09:00:01")], **runs).same
    assert compare([stdout("2026-11-20")], [stdout("2027-01-06")], **runs).same, "another time zone"
    assert not compare([stdout("born 1950-01-01")], [stdout("born 1960-01-01")], **runs).same
    assert not compare([stdout("2026-11-21")], [stdout("1999-01-01")], **runs).same
    assert compare([stdout("1795272162")], [stdout("1799139600")], **runs).same
    assert not compare([stdout("1500000000")], [stdout("1600000000")], **runs).same


def test_streams_are_one_text_however_they_were_cut() -> None:
    whole = [stdout("one\ntwo\n"), stderr("warned\n")]
    pieces = [stdout("one\n"), stderr("warned\n"), stdout("two\n")]
    assert compare(whole, pieces).same


def test_stdout_is_not_stderr() -> None:
    found = compare([stdout("text")], [stderr("text")])
    assert not found.same
    assert found.why == "There is no stdout, and 1 more."


def test_text_may_be_a_list_of_lines() -> None:
    assert compare([{**stdout(""), "text": ["a\n", "b\n"]}], [stdout("a\nb\n")]).same


def test_errors_are_their_name_and_message() -> None:
    one = error("ValueError", "bad <Thing at 0x7f3a2c1b4d90>", "in line 3")
    assert compare([one], [error("ValueError", "bad <Thing at 0x7f3a2c1b0000>", "in line 4")]).same
    assert not compare([one], [error("ValueError", "worse")]).same
    assert not compare([one], [error("KeyError", "bad <Thing at 0x7f3a2c1b4d90>")]).same
    assert compare([one], []).why == "There is no error."


def test_the_diff_shows_the_lines_as_they_were_and_only_those_that_differ() -> None:
    recorded = "at 0x7f3a2c1b4d90\nsum 3\n"
    replayed = "at 0x7f3a2c1b0000\nsum 4\n"
    found = compare([stdout(recorded)], [stdout(replayed)])
    assert found.diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " at 0x7f3a2c1b0000", "-sum 3", "+sum 4"]


def test_a_diff_is_bounded_in_lines_and_line_length() -> None:
    many = compare([stdout("\n".join(f"a{n}" for n in range(9000)))], [stdout("\n".join(f"b{n}" for n in range(9000)))])
    assert len(many.diff) <= 16_000
    assert many.diff.endswith("[... the rest of the difference is not shown ...]")
    wide = compare([stdout("x" * 90_000 + "1")], [stdout("x" * 90_000 + "2")])
    assert len(wide.diff) < 1_000
    assert "x1" in wide.diff
    assert "x2" in wide.diff


def test_cut_texts_are_compared_by_what_both_have() -> None:
    def cut(address: str, count: str, tail: str = "last\n") -> str:
        return f"first\n<A at 0x{address}>\npart\n[... {count} bytes cut ...]\nial\nmiddle\n{tail}"

    assert compare([stdout(cut("7f3a2c1b4d90", "1,000,000"))], [stdout(cut("7f3a2c1b0000", "1,000,100"))]).same
    assert not compare([stdout(cut("7f3a2c1b4d90", "1,000,000"))], [stdout(cut("7f3a2c1b4d90", "2,000,000"))]).same
    assert not compare([stdout(cut("1f", "1,000"))], [stdout(cut("1f", "1,000", "other\n"))]).same


def test_text_beyond_the_bound_is_compared_as_it_is_and_said_so() -> None:
    recorded = "\n".join(f"{n} at 0x7f3a2c1b4d90" for n in range(60_000))
    found = compare([stdout(recorded)], [stdout(recorded.replace("4d90", "4d91"))])
    assert not found.same
    assert "Stdout is too large to be normalised" in found.why
    assert compare([stdout(recorded)], [stdout(recorded + "\n")]).same, "what is equal costs nothing"
