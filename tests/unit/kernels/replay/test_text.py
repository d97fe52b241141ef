"""Texts of a record and of two replays: what is put aside for what varies, and what is not."""

from __future__ import annotations

import pytest

from kernels.replay import Showing, compare
from kernels.replay.evidence import Standing
from tests.unit.kernels.replay.shown import at, display, error, stderr, stdout, weigh

CHANGED = {
    "order id": ("order 140000000000001", "order 140000000000999"),
    "train": ("first train 05:42:10", "first train 17:09:55"),
    "train in a table": ("  name  departs\n0    a 05:42:10", "  name  departs\n0    a 17:09:55"),
    "seconds": ("took 34.5 s", "took 87.1 s"),
    "path": ("/data/2023/sales.csv", "/data/2024/sales.csv"),
    "timedelta": ("0   0 days 00:01:30\ndtype: timedelta64[ns]", "0   0 days 00:02:30\ndtype: timedelta64[ns]"),
    "milliseconds": ("p95  345.0 ms", "p95  361.0 ms"),
    "route": ("GET /users/17/orders", "GET /users/18/orders"),
    "checksum": ("crc 0x1a2b3c4d", "crc 0xdeadbeef"),
    "patient": ("patient pid 254709", "patient pid 254710"),
    "identity": ("id 140234567890123", "id 139876543210987"),
    "date": ("on 2026-11-21", "on 2026-12-01"),
    "temporary": ("/tmp/tmpab12cd34", "/tmp/tmpzz12cd34"),
    "cent": ("total 1234.56", "total 1234.57"),
    "last digit": ("mean 0.123456", "mean 0.123457"),
    "zeros": ("rate 0.5", "rate 0.50"),
    "sign": ("0.123456", "-0.123456"),
    "leading blanks": ("  x", "   x"),
    "text plot": ("|   *\n| *", "|  *\n| *"),
    "leading line": ("\nx", "x"),
    "colour": ("\x1b[31mred\x1b[0m", "\x1b[32mred\x1b[0m"),
    "order": ("a\nb", "b\na"),
    "more lines": ("a", "a\na"),
    "nothing": ("text", ""),
    "huge exponent": ("1e999", "1e-999"),
    "ratio": ("3:10", "3:11"),
    "bar": ("sales ####", "sales ######"),
}

NOISE = {
    "address": ("<A at 0x7f3a2c1b4d90> 5", "<A at 0x7f91bc004a10> 5", "<A at 0x7f91bc00ffff> 5", {"address": 1}),
    "identity": ("id 140234567890123", "id 139876543210987", "id 139876543211111", {"number": 1}),
    "process": ("pid=1234", "pid=87", "pid=88", {"number": 1}),
    "random": ("0.52 of 3", "0.51 of 3", "0.55 of 3", {"number": 1}),
    "temporary": ("/tmp/tmpab12cd34/x", "/tmp/tmpzz12cd34/x", "/tmp/tmp12345678/x", {"path": 1}),
    "identifier": ("job 5fd81c", "job a30e77", "job 19c4b2", {"identifier": 1}),
    "unit": ("Wall time: 1.02 s", "Wall time: 980 ms", "Wall time: 991 ms", {"duration": 1}),
    "epochs": (
        "Epoch 1/3 - 0.42s - loss: 0.5\nEpoch 2/3 - 0.44s - loss: 0.4\nEpoch 3/3 - 0.45s - loss: 0.3",
        "Epoch 1/3 - 0.43s - loss: 0.5\nEpoch 2/3 - 0.41s - loss: 0.4\nEpoch 3/3 - 0.41s - loss: 0.3",
        "Epoch 1/3 - 0.47s - loss: 0.5\nEpoch 2/3 - 0.41s - loss: 0.4\nEpoch 3/3 - 0.43s - loss: 0.3",
        {"duration": 3},
    ),
    "keras": (
        "3/3 ━━━━━━━━━━ 1s 14ms/step - loss: 0.51",
        "3/3 ━━━━━━━━━━ 0s 12ms/step - loss: 0.51",
        "3/3 ━━━━━━━━━━ 0s 13ms/step - loss: 0.51",
        {"duration": 1},
    ),
    "lightgbm": (
        "the overhead of testing was 0.000123 seconds.\nTotal Bins 510",
        "the overhead of testing was 0.000161 seconds.\nTotal Bins 510",
        "the overhead of testing was 0.000210 seconds.\nTotal Bins 510",
        {"duration": 1},
    ),
    "pip": (
        "   ━━━━━━ 19.5/19.5 MB 45.3 MB/s eta 0:00:00",
        "   ━━━━━━ 19.5/19.5 MB 812.0 kB/s eta 0:00:00",
        "   ━━━━━━ 19.5/19.5 MB 50.1 MB/s eta 0:00:00",
        {"rate": 1},
    ),
    "%time": (
        "CPU times: user 1.2 ms, sys: 31 µs, total: 1.23 ms\nWall time: 1.31 ms",
        "CPU times: user 2 ms, sys: 0 ns, total: 2 ms\nWall time: 1.5 ms",
        "CPU times: user 2.1 ms, sys: 0 ns, total: 2.1 ms\nWall time: 1.5 ms",
        {"duration": 2},
    ),
    "%timeit": (
        "8.4 ns ± 0.1 ns per loop (mean ± std. dev. of 7 runs, 100,000,000 loops each)",
        "11 ns ± 0.31 ns per loop (mean ± std. dev. of 7 runs, 10,000,000 loops each)",
        "The slowest run took 4.91 times longer than the fastest. This could mean that an intermediate result is being "
        "cached.\n12 ns ± 0.31 ns per loop (mean ± std. dev. of 7 runs, 10,000,000 loops each)",
        {"duration": 1},
    ),
    "progress": (
        "\r  0%|  | 0/3 [00:00<?, ?it/s]\r100%|##| 3/3 [00:01<00:00,  2.9it/s]\n",
        "\r100%|##| 3/3 [00:02<00:00,  1.1it/s]\n",
        "\r100%|##| 3/3 [00:02<00:00,  1.2it/s]\n",
        {"duration": 1},
    ),
    "column": ("t    9.87 s |", "t   10.21 s |", "t   11.30 s |", {"duration": 1}),
}

ORDER = {
    "set": ("{'a', 'c', 'b'} 5", "{'c', 'b', 'a'} 5", "{'b', 'a', 'c'} 5", {"value in another order": 3}),
    "threads": ("go\na\nb\nc\nend", "go\nc\na\nb\nend", "go\nb\na\nc\nend", {"line in another order": 3}),
}

STILL_DIFFERENT = {
    "beside noise": ("0.52 of 3", "0.51 of 4", "0.55 of 4"),
    "after an address": ("<A at 0x7f3a2c1b4d90> 5", "<A at 0x7f91bc004a10> 6", "<A at 0x7f91bc00ffff> 6"),
    "on another line": ("took 3.2 s\nsum 3", "took 3.3 s\nsum 4", "took 3.4 s\nsum 4"),
    "a set's other value": ("{'a', 'c', 'b'} 5", "{'c', 'b', 'a'} 6", "{'b', 'a', 'c'} 6"),
    "a word": ("4edc6800 matches", "0e3e2ac8 does not match", "f0314e6a does not match"),
    "a moved star": ("t=0.42s   *", "t=0.43s    *", "t=0.44s    *"),
    "a line that is gone": ("took 3.2 s\na\nb", "took 3.3 s\nb", "took 3.4 s\nb"),
    "a list that moved along": ("1\n5\n8\n7", "1\n5\n9\n7", "5\n9\n7\n3"),
    "equal by chance": ("took 0.42 s", "took 0.43 s", "took 0.43 s"),
    "another loop's budget": (
        "plan 5 s took 1.2 s\nplan 7 s took 1.3 s",
        "plan 5 s took 1.3 s\nplan 8 s took 1.4 s",
        "plan 5 s took 1.4 s\nplan 8 s took 1.5 s",
    ),
}

NOT_EXPLAINED = {
    "far away": ("accuracy 0.12", "accuracy 0.91", "accuracy 0.92"),
    "another kind": ("best none", "best 0.91", "best 0.92"),
    "not whole": ("17.5 left", "17 left", "18 left"),
    "another word": ("winner broken", "winner passed", "winner failed"),
    "another magnitude": ("took 87.1 s", "took 0.42 s", "took 0.43 s"),
    "another length": ("id 5fd81c99", "id a30e77", "id 19c4b2"),
    "another number of lines": ("a\nb\nc\nd", "a\nx1\nd", "a\ny2\nz\nd"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_both_replays_show_alike_is_different(name: str) -> None:
    recorded, replayed = CHANGED[name]
    for second in (None, replayed):
        for one, other in ((recorded, replayed), (replayed, recorded)):
            found = weigh(one, other, None if second is None else other)
            assert (found.standing, found.aside) == (Standing.DIFFERENT, {})
            assert found.why
    assert weigh(recorded, replayed).diff.startswith("--- recorded stdout\n+++ replayed stdout\n@@")
    assert weigh([display(text_plain=recorded)], [display(text_plain=replayed)]).standing is Standing.DIFFERENT


@pytest.mark.parametrize("name", NOISE | ORDER)
def test_what_varies_between_replays_is_put_aside_at_its_place(name: str) -> None:
    recorded, first, second, aside = (NOISE | ORDER)[name]
    found = weigh(recorded, first, second)
    assert (found.standing, found.diff) == (Standing.SAME, "")
    assert {what.removesuffix(" from run to run"): count for what, count in found.aside.items()} == aside
    assert weigh(recorded, first).standing is Standing.DIFFERENT, "one replay is no evidence"
    assert weigh(recorded, first, first).standing is Standing.DIFFERENT, "two that agree are evidence of the opposite"
    assert weigh(recorded, first, second, strict=True).standing is Standing.DIFFERENT


@pytest.mark.parametrize("name", STILL_DIFFERENT)
def test_noise_hides_nothing_beside_it(name: str) -> None:
    assert weigh(*STILL_DIFFERENT[name]).standing is Standing.DIFFERENT


@pytest.mark.parametrize("name", NOT_EXPLAINED)
def test_noise_explains_only_what_is_plausible(name: str) -> None:
    found = weigh(*NOT_EXPLAINED[name])
    assert (found.standing, found.aside) == (Standing.VARIES, {})


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("2026-11-21 15:02:42.123456", "2026-11-24 01:00:00.5"),
        ("2026-11-21T15:02:42Z", "2026-11-24T02:00:00+01:00"),
        ("Sat Nov 21 15:02:42 2026", "Tue Nov 24 01:00:00 2026"),
        ("Sat, 21 Nov 2026 15:02:42 GMT", "Tue, 24 Nov 2026 01:00:00 GMT"),
        ("datetime.datetime(2026, 11, 21, 15, 2, 42, 1)", "datetime.datetime(2026, 11, 24, 1, 0)"),
        ("run 20261121_150242", "run 20261124_010000"),
        ("1795273362.123", "1795482000.4"),
        ("as of 21.11.2026 15:02", "as of 24.11.2026 01:00"),
        ("as of 11/21/2026 15:02", "as of 11/24/2026 01:00"),
        ("15:02:42 INFO ready", "01:00:00 INFO ready"),
        ("-rw-r--r-- 1 user user 5 Nov 21 15:02 a.csv", "-rw-r--r-- 1 user user 5 Nov 24 01:00 a.csv"),
        ("-rw-r--r-- 1 user user 5 Nov 21 14:31 a.csv", "-rw-r--r-- 1 user user 5 Nov 24 00:45 a.csv"),
    ],
)
def test_a_time_is_held_against_its_own_run(then: str, now: str) -> None:
    recorded = at(f"{then} 5", "2026-11-21", "15:02:41", "15:02:43", "14:30:00")
    replayed = at(f"{now} 5", "2026-11-24", "00:59:59", "01:00:02", "00:40:00")
    found = compare(recorded, replayed)
    assert (found.standing, found.aside) == (Standing.SAME, {"time of the run's own clock": 1})
    late = at(f"{now} 5", "2026-11-24", "05:59:59", "06:00:02")
    assert compare(recorded, late).standing is Standing.DIFFERENT, "not a time of that run"
    early = at(f"{then} 5", "2026-11-20", "09:02:41", "09:02:43")
    assert compare(early, replayed).standing is Standing.DIFFERENT, "nor of the record"
    assert compare(recorded, replayed, strict=True).standing is Standing.DIFFERENT
    changed = at(f"{now} 6", "2026-11-24", "00:59:59", "01:00:02", "00:40:00")
    assert compare(recorded, changed).standing is Standing.DIFFERENT


def test_a_time_of_day_is_of_the_cell_and_not_of_the_whole_run() -> None:
    recorded = at("first train 05:42:10", "2026-11-21", "08:00:00", "08:00:01", "05:00:00")
    replayed = at("first train 17:09:55", "2026-11-24", "18:00:00", "18:00:01", "17:00:00")
    assert compare(recorded, replayed).standing is Standing.DIFFERENT


def test_a_time_of_another_run_is_not_explained_by_replays_that_show_their_own() -> None:
    replays = (
        at("at 01:00:00", "2026-11-24", "01:00:00", "01:00:01"),
        at("at 01:00:05", "2026-11-24", "01:00:05", "01:00:06"),
    )
    recorded = at("at 02:42:10", "2026-11-21", "15:00:00", "15:00:01")
    assert compare(recorded, *replays).standing is Standing.VARIES
    assert weigh("at 17:09:55", "at 05:42:10", "at 05:43:55").standing is Standing.VARIES
    assert weigh("in 0:00:01.25", "in 0:00:01.31", "in 0:00:01.44").standing is Standing.SAME


def test_a_time_of_day_tells_nothing_of_a_cell_that_ran_for_hours() -> None:
    recorded = at("train 05:42:10", "2026-11-21", "04:00:00", "09:00:00")
    replayed = at("train 17:09:55", "2026-11-24", "14:00:00", "19:00:00")
    assert compare(recorded, replayed).standing is Standing.DIFFERENT


def test_a_day_is_too_coarse_to_be_evidence() -> None:
    then, now = ("2026-11-21", "15:00:00", "15:00:01"), ("2026-11-24", "01:00:00", "01:00:01")
    found = compare(at("data to 2026-11-21", *then), at("data to 2026-11-24", *now), at("data to 2026-11-24", *now))
    assert found.standing is Standing.UNKNOWN
    assert "may be the time of their runs" in found.why
    other = compare(at("data to 2026-11-20", *then), at("data to 2026-11-24", *now))
    assert other.standing is Standing.DIFFERENT


def test_a_record_without_a_clock_says_nothing_of_its_times() -> None:
    now, later = ("2026-11-24", "01:00:00", "01:00:01"), ("2026-11-24", "01:00:05", "01:00:06")
    recorded = Showing([stdout("at 15:02:42")])
    found = compare(recorded, at("at 01:00:00", *now), at("at 01:00:05", *later))
    assert (found.standing, found.aside) == (Standing.SAME, {"time from run to run": 1})
    coarse = Showing([stdout("at 15:02")])
    assert compare(coarse, at("at 01:00", *now), at("at 01:00", *later)).standing is Standing.UNKNOWN


def test_a_kernels_own_name_for_a_cell_is_put_aside() -> None:
    found = weigh("/tmp/ipykernel_877/1122.py:1: FutureWarning: x", "/tmp/ipykernel_9/33.py:1: FutureWarning: x")
    assert (found.standing, found.aside) == (Standing.SAME, {"name of a cell's own file": 1})
    assert weigh("/tmp/ipykernel_877/1122.py:1: x", "/tmp/ipykernel_9/33.py:2: x").standing is Standing.DIFFERENT


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        ("0.30000000000000004", "0.3"),
        ("a  \nb\n\n", "a\nb"),
        ("a\r\nb", "a\nb"),
        ("1%\r50%\rdone\n", "done\n"),
        ("1/2\b\b\b2/2", "2/2"),
        ("long\rX", "Xong"),
        ("long\x1b[2K\rX", "X"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_what_looks_the_same_is_the_same(recorded: str, replayed: str) -> None:
    assert weigh(recorded, replayed).standing is Standing.SAME
    assert weigh(replayed, recorded).standing is Standing.SAME


def test_rounding_is_told_from_money() -> None:
    assert weigh("0.1234567890123456", "0.1234567890123457").standing is Standing.SAME
    assert weigh("45671234567890.12", "45671234567890.13").standing is Standing.DIFFERENT
    assert weigh("0.1234567890123456", "0.1234567890223456").standing is Standing.DIFFERENT


def test_streams_are_one_text_however_they_were_cut() -> None:
    pieces = [stdout("one\n"), stderr("warned\n"), stdout("two\n")]
    assert weigh([stdout("one\ntwo\n"), stderr("warned\n")], pieces).standing is Standing.SAME
    assert weigh([{**stdout(""), "text": ["a\n", "b\n"]}], [stdout("a\nb\n")]).standing is Standing.SAME
    assert weigh([stdout("text")], [stderr("text")]).why == "There is no stdout, and 1 more."


def test_errors_are_their_name_and_message_and_those_they_came_from() -> None:
    one = error("ValueError", "bad <Thing at 0x7f3a2c1b4d90>", "line 3", "KeyError: 'x'", "ValueError: bad")
    moved = error("ValueError", "bad <Thing at 0x7f3a2c1b4d90>", "line 4", "KeyError: 'x'", "ValueError: bad")
    assert weigh([one], [moved]).standing is Standing.SAME
    assert (
        weigh([one], [error("ValueError", "bad <Thing at 0x7f3a2c1b4d90>", "KeyError: 'y'")]).standing > Standing.SAME
    )
    assert weigh([one], [error("ValueError", "worse")]).standing is Standing.DIFFERENT
    assert weigh([one], []).why == "There is no error."


def test_the_diff_shows_what_differs_and_not_what_was_put_aside() -> None:
    found = weigh("at 0x7f3a2c1b4d90\nsum 3\n", "at 0x7f3a2c1b0000\nsum 4\n", "at 0x7f3a2c1b1111\nsum 4\n")
    assert found.diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " at 0x7f3a2c1b0000", "-sum 3", "+sum 4"]


def test_a_diff_is_bounded_in_lines_and_line_length() -> None:
    many = weigh("\n".join(f"a{n}" for n in range(9000)), "\n".join(f"b{n}" for n in range(9000)))
    assert len(many.diff) <= 16_000
    assert many.diff.endswith("[... the rest of the difference is not shown ...]")
    wide = weigh("x" * 90_000 + "1", "x" * 90_000 + "2")
    assert len(wide.diff) < 1_000
    assert "x1" in wide.diff
    assert "x2" in wide.diff


CUT = "first\n{0}\npart\n[... {1} bytes cut ...]\nial\nmiddle\nlast\n"


def test_what_was_cut_is_compared_by_its_digest() -> None:
    text = [stdout(CUT.format("a", "1,000"))]

    def standing(*digests: str | None) -> Standing:
        return compare(*(Showing(text, digests={"stdout": each} if each else {}) for each in digests)).standing

    assert standing("one", "one") is Standing.SAME
    assert standing("one", "other") is Standing.DIFFERENT
    assert standing("one", "other", "other") is Standing.DIFFERENT
    assert standing("one", "other", "third") is Standing.VARIES
    assert standing(None, "one") is Standing.UNKNOWN
    assert (
        weigh([display(text_plain=text[0]["text"])], [display(text_plain=text[0]["text"])]).standing is Standing.UNKNOWN
    )


def test_cut_texts_are_compared_by_what_all_have() -> None:
    first, second = (CUT.format(f"at 0x7f3a2c1b{end}", "1,000,100") for end in ("0000", "1111"))
    found = weigh(CUT.format("at 0x7f3a2c1b4d90", "1,000,000"), first, second)
    assert (found.standing, "SHA-256" in found.why) == (Standing.UNKNOWN, True)
    assert weigh(CUT.format("at 0x7f3a2c1b4d90", "2,000,000"), first, second).standing is Standing.DIFFERENT
    assert weigh(first.replace("last", "other"), first, second).standing is Standing.DIFFERENT


def test_text_beyond_the_bound_is_compared_as_it_is_and_said_so() -> None:
    recorded = "\n".join(f"{n} at 0x7f3a2c1b4d90" for n in range(30_000))
    found = weigh(recorded, recorded.replace("4d90", "4d91"), recorded.replace("4d90", "4d92"))
    assert found.standing is Standing.VARIES
    assert "Stdout is too large to be taken apart" in found.why
    assert weigh(recorded, recorded + "\n").standing is Standing.SAME, "what is equal costs nothing"
