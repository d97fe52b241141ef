"""Files of kept variables: what is refused or interrupted leaves none, and spoils nothing that was kept before."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import linecache
import logging
import os
import random
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kernels.guest.in_kernel import kept_values, kept_variables
from kernels.guest.in_kernel.kept_variables import INDEX, INTERRUPTED, NO_MEMORY, NO_TIME, STAMP, KeptVariables

LARGE = 300_000
PLENTY = 10_000_000
SECONDS = 600.0


class Fails:
    """Its state goes out first and takes a file; then this happens."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self.happen = happen

    def __reduce__(self) -> Any:
        return list, ([bytes(LARGE), Late(self.happen)],)


class Late:
    def __init__(self, happen: Callable[[], object]) -> None:
        self.happen = happen

    def __reduce__(self) -> Any:
        self.happen()
        return list, ()


def fail() -> None:
    raise RuntimeError("not me")


def interrupt() -> None:
    raise KeyboardInterrupt


def new(directory: Path) -> KeptVariables:
    return KeptVariables(kept_values, str(directory))


def keep(
    kept: KeptVariables,
    names: dict[str, Any],
    most_bytes: int = PLENTY,
    seconds: float = SECONDS,
    executions: int = 1,
) -> Any:
    return kept.keep(names, {}, most_bytes, seconds, {"generation": 1, "executions": executions, "at": 1.0})


def restore(directory: Path, seconds: float = SECONDS) -> tuple[dict[str, Any], dict[str, str]]:
    names: dict[str, Any] = {}
    told = new(directory).restore(names, seconds, None, None)
    return names, {each["name"]: each["why"] for each in told["variables"] if each["outcome"] == "lost"}


@pytest.mark.parametrize("happen", [fail, lambda: sys.exit(3)])
def test_a_value_that_is_refused_half_way_leaves_no_file(tmp_path: Path, happen: Callable[[], object]) -> None:
    kept = new(tmp_path)
    names = {"number": 2, "refused": Fails(happen), "listed": [1]}
    for _ in range(3):
        assert [each["outcome"] for each in keep(kept, names)["variables"]] == ["kept", "lost", "kept"]
        assert len(list(tmp_path.iterdir())) == 4, "the index, its stamp and two values"
    found, lost = restore(tmp_path)
    assert (found, list(lost)) == ({"number": 2, "listed": [1]}, ["refused"])


def test_what_would_take_more_memory_than_there_is_ends_it(tmp_path: Path) -> None:
    held: list[bytearray] = []
    grow = Fails(lambda: held.append(bytearray(b"x") * 64_000_000))
    kept = new(tmp_path)
    keep(kept, {"before": bytes(LARGE)})
    names = {"before": bytes(LARGE), "grows": grow, "large": bytes(LARGE), "small": 1}
    told = kept.keep(names, {}, PLENTY, SECONDS, {}, memory_bytes=10**7)
    before, *rest = [(each["outcome"], each["why"]) for each in told["variables"]]
    assert before[0] == "kept", "it may be looked at last, and is there as it was then"
    assert rest == [("lost", NO_MEMORY), ("lost", NO_MEMORY), ("kept", "")]
    assert told["seconds"] > 0


def test_a_kernel_that_has_grown_since_its_memory_was_asked_for_looks_at_nothing(tmp_path: Path) -> None:
    kept = new(tmp_path)
    first = kept.keep({"number": 1}, {}, PLENTY, SECONDS, {}, memory_bytes=10**8, counted=True)
    assert (first["kept"], first["variables"]) == (1, [])
    before = (tmp_path / INDEX).read_bytes()
    looked: list[int] = []
    names = {"number": 2, "watched": Late(lambda: looked.append(1))}
    grown = kept.keep(names, {}, PLENTY, SECONDS, {}, memory_bytes=0, held_bytes=first["held"] - 1)
    assert (grown.get("kept"), grown["variables"], looked) == (None, [], [])
    assert (tmp_path / INDEX).read_bytes() == before, "what was kept before stays"
    again = kept.keep(names, {}, PLENTY, SECONDS, {}, memory_bytes=10**8, held_bytes=first["held"])
    assert (again["kept"], looked) == (2, [1])


def test_a_third_of_the_room_on_the_disk_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = new(tmp_path)
    monkeypatch.setattr(kept, "_find_room", lambda: 3 * LARGE)
    told = kept.keep({"fits": bytes(LARGE // 2), "not": bytes(LARGE)}, {}, PLENTY, SECONDS, {}, share=True)
    assert [each["outcome"] for each in told["variables"]] == ["kept", "lost"]


def test_room_is_what_is_free_and_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _path: free)
    kept = new(tmp_path)
    keep(kept, {"large": bytes(LARGE), "also": "large"})
    assert 0 <= kept._find_room() - free.f_bavail * free.f_frsize - LARGE < 2_000


def test_the_code_of_a_value_that_goes_on_is_ended_and_nothing_else(tmp_path: Path) -> None:
    kept = new(tmp_path)
    kept.end_value()  # as where it was about to end by itself
    told = keep(kept, {"goes_on": Fails(kept.end_value), "after": 1})["variables"]
    assert [(each["outcome"], each["why"]) for each in told] == [("lost", NO_TIME), ("kept", "")]


def test_a_value_without_room_leaves_no_file(tmp_path: Path) -> None:
    kept = new(tmp_path)
    for _ in range(2):
        keep(kept, {"many": [bytes(LARGE) for _ in range(3)]}, most_bytes=LARGE * 2)
        assert {each.name for each in tmp_path.iterdir()} == {INDEX, STAMP}


def test_an_interrupt_leaves_what_was_kept_before(tmp_path: Path) -> None:
    kept = new(tmp_path)
    keep(kept, {"a": 1, "b": bytes(LARGE)})
    before = {each.name for each in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        keep(kept, {"a": 2, "b": bytes(LARGE + 1), "c": Fails(interrupt)})
    assert {each.name for each in tmp_path.iterdir()} == before
    successor = new(tmp_path)  # has kept nothing yet: those of the one before stay
    with pytest.raises(KeyboardInterrupt):
        keep(successor, {"b": bytes(LARGE + 2), "c": Fails(interrupt)})
    assert {each.name for each in tmp_path.iterdir()} == before
    found, lost = restore(tmp_path)
    assert (found["a"], len(found["b"]), lost) == (1, LARGE, {})


def test_modules_of_the_image_are_imported_while_the_rest_is_being_laid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, laid = tmp_path / "work", tmp_path / "laid"
    for each in (work, laid):
        each.mkdir()
    (work / "of_the_workspace.py").write_text("")
    monkeypatch.syspath_prepend(str(work))
    names = [importlib.import_module(each) for each in ("colorsys", "of_the_workspace")]
    keep(new(tmp_path / "before"), {each.__name__: each for each in names})
    for each in names:
        monkeypatch.delitem(sys.modules, each.__name__)
    index = threading.Timer(0.2, lambda: (tmp_path / "before" / INDEX).rename(laid / INDEX))
    index.start()
    assert new(laid).prepare(SECONDS) == {"status": "ok"}
    index.join()
    assert [each.__name__ in sys.modules for each in names] == [True, False]


def test_time_that_is_over_is_looked_at_for_each_name(tmp_path: Path) -> None:
    told = keep(new(tmp_path), {"a": 1, "b": "x"}, seconds=-1.0)["variables"]
    assert told == [{"name": name, "outcome": "lost", "why": NO_TIME} for name in "ab"]
    keep(new(tmp_path), {"a": 1})
    assert restore(tmp_path, seconds=-1.0) == ({}, {"a": NO_TIME})


def test_code_that_comes_ends_it_and_leaves_what_was_kept_before(tmp_path: Path) -> None:
    asked: list[bool] = []
    kept, names = new(tmp_path), {"a": 1, "wanted": Fails(list), "large": [bytes(LARGE)], "last": 2}
    keep(kept, names)
    names.update(a=2, wanted=Fails(lambda: asked.append(True)), large=[bytes(LARGE + 1)], last=3)
    kept.is_unwanted = lambda: bool(asked)
    told = keep(kept, names, executions=2)["variables"]
    assert {each["name"]: (each["outcome"], each["why"]) for each in told} == {
        "a": ("kept", ""),
        **dict.fromkeys(("wanted", "large", "last"), ("kept", NO_TIME)),
    }
    found: dict[str, Any] = {}
    again = new(tmp_path).restore(found, SECONDS, None, None)["variables"]
    assert [each["name"] for each in again if each["outcome"] == "stale"] == ["wanted", "large", "last"]
    assert (found["a"], len(found["large"][0]), found["last"]) == (2, LARGE, 2)
    kept.is_unwanted = lambda: False
    assert keep(kept, names)["variables"][-1]["why"] == "", "the next time has time again"


def test_what_a_restore_cannot_take_up_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(new(tmp_path), {"first": 1, "second": 2, "third": 3})
    read = KeptVariables._read
    errors: dict[str, type[BaseException]] = {"second": SystemExit}

    def fail_for_some(kept: KeptVariables, name: str, *arguments: Any) -> Any:
        if name in errors:
            raise errors[name]
        return read(kept, name, *arguments)

    monkeypatch.setattr(kept_variables.KeptVariables, "_read", fail_for_some)
    assert restore(tmp_path) == ({"first": 1, "third": 3}, {"second": "SystemExit: "})
    errors["second"] = KeyboardInterrupt
    assert restore(tmp_path) == ({"first": 1}, {"second": INTERRUPTED, "third": INTERRUPTED})


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    kept = new(tmp_path)
    names: dict[str, Any] = {"small": [1], "large": bytearray(5_000_000), "frame": [bytes(LARGE), bytearray(LARGE)]}
    keep(kept, names)
    before = {each.name for each in tmp_path.iterdir()}
    keep(kept, names)
    assert {each.name for each in tmp_path.iterdir()} == before
    for change in (
        lambda: names["large"].__setitem__(4_999_999, 1),  # the last byte, in place
        lambda: names["large"].__setitem__(0, 1),
        lambda: names["large"].append(2),  # begins as it was
        lambda: names["large"].__delitem__(slice(3_000_000, None)),
        lambda: names["frame"][1].__setitem__(7, 1),
        lambda: names["small"].append(2),
    ):
        change()
        keep(kept, names)
        after = {each.name for each in tmp_path.iterdir()}
        assert len(after - before) == 1, "one file is another"
        assert restore(tmp_path)[0] == names
        before = after


def test_what_there_is_no_time_for_stays_as_it_was_and_says_so(tmp_path: Path) -> None:
    kept, names = new(tmp_path), {"a": [1], "b": [bytearray(LARGE)]}
    keep(kept, names, executions=5)
    names["b"].append(2)
    names["c"] = [3]
    keep(kept, names, seconds=-1.0, executions=6)
    keep(kept, names, seconds=-1.0, executions=7)
    found: dict[str, Any] = {}
    told = new(tmp_path).restore(found, SECONDS, None, None)
    assert (told["executions"], found) == (7, {"a": [1], "b": [bytearray(LARGE)]})
    assert told["variables"] == [
        {"name": "a", "outcome": "stale", "why": NO_TIME, "executions": 5},
        {"name": "b", "outcome": "stale", "why": NO_TIME, "executions": 5},
        {"name": "c", "outcome": "lost", "why": NO_TIME},
    ]
    keep(kept, names, executions=8)
    assert restore(tmp_path) == (names, {})


def test_only_what_the_expected_kernel_has_kept_or_taken_up_is_restored(tmp_path: Path) -> None:
    keep(new(tmp_path), {"a": 1})
    assert new(tmp_path).restore({}, SECONDS, 2, 3)["found"] is False
    assert new(tmp_path).restore({}, SECONDS, 1, 2)["found"] is True
    assert new(tmp_path).restore({}, SECONDS, 1, 3)["found"] is False, "it is generation 2's now"
    assert new(tmp_path).restore({}, SECONDS, 2, 3)["found"] is True


def test_the_directory_can_be_moved(tmp_path: Path) -> None:
    names = {"a": [bytearray(LARGE)], "f": 2**300}
    keep(new(tmp_path / "there"), names)
    (tmp_path / "there").rename(tmp_path / "here")
    assert restore(tmp_path / "here") == (names, {})


def test_objects_that_several_variables_have_are_told(tmp_path: Path) -> None:
    inner = [1]
    keep(new(tmp_path), {"inner": inner, "outer": {"inner": inner}, "other": (inner,), "alone": [1], "again": inner})
    told = new(tmp_path).restore({}, SECONDS, None, None)["variables"]
    assert {each["name"]: each["outcome"] for each in told} == {
        **dict.fromkeys(("inner", "outer", "other"), "copied"),
        **dict.fromkeys(("alone", "again"), "restored"),
    }


def test_what_a_module_has_itself_comes_back_as_that_or_is_told_as_a_copy(tmp_path: Path) -> None:
    its_own = {"environment": os.environ, "inside": [os.environ], "modules": sys.modules, "root": logging.getLogger()}
    its_own.update(logger=logging.getLogger("mine"), with_logger=[logging.getLogger("mine")])
    copied = {"path": sys.path, "generator": vars(random)["_inst"], "missing": dataclasses.MISSING}
    others = {"fresh": random.Random(1), "listed": [*sys.path], "utc": datetime.UTC}
    keep(new(tmp_path), {**its_own, **copied, **others})
    names: dict[str, Any] = {}
    told = {each["name"]: each for each in new(tmp_path).restore(names, SECONDS, None, None)["variables"]}
    assert {name for name, each in told.items() if each["outcome"] == "copied"} == {*copied}
    assert {each["outcome"] for each in told.values()} == {"restored", "copied"}
    assert told["path"]["why"] == "it was `sys.path`, which is another object now"
    assert names["environment"] is names["inside"][0] is os.environ
    assert (names["modules"], names["root"]) == (sys.modules, logging.getLogger())
    assert names["modules"] is sys.modules


def test_what_many_shared_objects_have_is_looked_for_once_for_each_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a figure of Matplotlib and its axes share: a look for each object took seconds of each execution."""
    looks: list[Any] = []
    find = kept_variables._find_attributes
    monkeypatch.setattr(kept_variables, "_find_attributes", lambda memo: looks.append(memo) or find(memo))
    parts = [[number] for number in range(1_000)]
    told = keep(new(tmp_path), {"figure": {"parts": parts}, "axes": [parts], "alone": [[1]]})
    assert len(looks) == 1
    restored = new(tmp_path).restore({}, SECONDS, None, None)["variables"]
    assert len(told["variables"]) == 3
    assert {each["name"]: each["outcome"] for each in restored} == {
        **dict.fromkeys(("figure", "axes"), "copied"),
        "alone": "restored",
    }


def test_code_of_another_python_comes_back_by_its_source_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def double(x): return x * 2\nhidden = lambda: 1\n"
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "<cell>", (len(source), None, lines, "<cell>"))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), names)
    keep(new(tmp_path), names)
    monkeypatch.setattr(kept_variables, "PYTHON", "3.99")
    found, lost = restore(tmp_path)
    assert found["double"](3) == 6
    assert list(lost) == ["hidden"]
    assert "3.99" in lost["hidden"]


class Odd:
    """Says that it is of a class that nobody may ask for."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("not me")


def test_an_object_that_fails_whatever_it_is_asked_spoils_no_other(tmp_path: Path) -> None:
    inner = [1]
    keep(new(tmp_path), {"odd": Odd(), "inner": inner, "outer": [inner]})
    found, lost = restore(tmp_path)
    assert (found, lost) == ({"inner": [1], "outer": [[1]]}, {"odd": "RuntimeError: not me"})


def test_what_is_to_be_forgotten_is_there_for_no_other_kernel(tmp_path: Path) -> None:
    keep(new(tmp_path), {"a": list(range(LARGE)), "b": 1})
    names: dict[str, Any] = {}
    first = new(tmp_path)
    assert first.restore(names, SECONDS, None, 2, forget=True)["found"] is True
    assert (len(names["a"]), names["b"]) == (LARGE, 1)
    assert list(tmp_path.iterdir()) == []
    assert new(tmp_path).restore({}, SECONDS, None, None)["found"] is False
    keep(first, names)
    assert new(tmp_path).restore({}, SECONDS, None, None)["found"] is True


def test_while_code_waits_what_took_long_is_looked_at_only_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(kept_variables.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(kept_variables.time, "thread_time", lambda: clock[0])

    def take(seconds: float) -> None:
        clock[0] += seconds

    kept, names = new(tmp_path), {"large": Fails(lambda: take(1.0)), "small": [1], "refused": Fails(fail)}
    kept.is_awaited = lambda: True
    first = keep(kept, names, executions=1)["variables"]
    assert [each["outcome"] for each in first] == ["kept", "kept", "lost"], "what was never kept is not put off"
    names["small"].append(2)
    told = keep(kept, names, executions=2)["variables"]
    assert [(each["outcome"], each["why"]) for each in told][:2] == [("kept", NO_TIME), ("kept", "")]
    found: dict[str, Any] = {}
    again = new(tmp_path).restore(found, SECONDS, None, None)["variables"]
    assert again[0] == {"name": "large", "outcome": "stale", "why": NO_TIME, "executions": 1}
    assert found["small"] == [1, 2]
    kept.is_awaited = lambda: False
    assert keep(kept, names, executions=3)["variables"][0]["why"] == "", "nobody waits"
    kept.is_awaited = lambda: True
    clock[0] += kept_variables.BACK_OFF - 0.5
    assert keep(kept, names, executions=4)["variables"][0]["why"] == NO_TIME
    clock[0] += 1.0
    assert keep(kept, names, executions=5)["variables"][0]["why"] == "", "it is due"


def test_a_value_that_took_all_of_the_time_leaves_it_to_the_others_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(kept_variables.time, "monotonic", lambda: clock[0])

    def take() -> None:
        clock[0] += 3.0

    kept, names = new(tmp_path), {"slow": Fails(take), "small": [1], "number": 5}
    told = keep(kept, names, seconds=2.0)["variables"]
    assert [(each["name"], each["why"]) for each in told] == [(name, NO_TIME) for name in names]
    told = keep(kept, names, seconds=2.0)["variables"]
    assert [(each["name"], each["why"]) for each in told] == [("slow", NO_TIME), ("small", ""), ("number", "")]
    names["slow"] = [3]
    keep(kept, names, seconds=2.0)
    found, lost = restore(tmp_path)
    assert (found, lost) == ({"slow": [3], "small": [1], "number": 5}, {})
    assert kept._slow == {}, "it is not slow any more"


def test_code_that_comes_while_a_large_value_is_looked_at_waits_for_a_piece_of_it(tmp_path: Path) -> None:
    looks = count()
    kept, names = new(tmp_path), {"large": bytearray(5 * kept_values.PIECE_BYTES), "small": [1]}
    keep(kept, names)
    kept._due = {"large": float("inf")}  # it was looked at not long ago
    kept.is_awaited = lambda: next(looks) > 2
    names["large"][-1] = 1
    names["small"].append(2)
    told = keep(kept, names, executions=2)["variables"]
    assert [(each["outcome"], each["why"]) for each in told] == [("kept", NO_TIME), ("kept", "")]
    found: dict[str, Any] = {}
    assert new(tmp_path).restore(found, SECONDS, None, None)["variables"][0]["outcome"] == "stale"
    assert (found["large"][-1], found["small"]) == (0, [1, 2])


def test_before_what_took_long_it_waits_once_for_code_that_comes_at_once(tmp_path: Path) -> None:
    looks: list[object] = []
    names = {name: Late(partial(looks.append, name)) for name in ("large", "larger", "small")}
    kept = new(tmp_path)
    kept.pause = looks.append
    keep(kept, names)
    assert looks == ["large", "larger", "small"], "nothing has taken long yet"
    looks.clear()
    kept._due = dict.fromkeys(("large", "larger"), float("inf"))
    keep(kept, names)
    assert looks == ["small", kept_variables.PAUSE_SECONDS, "large", "larger"]
    looks.clear()
    kept.is_awaited = lambda: kept_variables.PAUSE_SECONDS in looks  # code comes while it waits
    told = keep(kept, names)["variables"]
    assert looks == ["small", kept_variables.PAUSE_SECONDS]
    assert [each["why"] for each in told] == [NO_TIME, NO_TIME, ""]


def test_a_name_that_gets_another_value_meanwhile_gives_it_to_no_other(tmp_path: Path) -> None:
    kept, names = new(tmp_path), {"large": [1, 2], "alias": None}
    names["alias"] = names["large"]
    keep(kept, names)
    kept._due = {"large": float("inf")}
    kept.pause = lambda _seconds: names.update(large=[3])  # of another thread
    keep(kept, names)
    assert restore(tmp_path) == ({"large": [1, 2], "alias": [1, 2]}, {})


def test_a_second_name_of_what_there_was_no_time_for_is_as_it_was_itself(tmp_path: Path) -> None:
    kept, names = new(tmp_path), {"large": [1], "other": [2], "alias": None, "fresh": [3]}
    names["alias"] = names["large"]
    keep(kept, names, executions=1)
    kept._due = {"large": float("inf")}  # it was looked at not long ago
    kept.is_awaited = lambda: True
    names["large"] = names["other"] = names["alias"] = names["young"] = [4]
    keep(kept, names, executions=2)
    found: dict[str, Any] = {}
    told = new(tmp_path).restore(found, SECONDS, None, None)["variables"]
    assert found == {"large": [1], "other": [2], "alias": [1], "fresh": [3]}
    assert {each["name"]: (each["outcome"], each.get("executions")) for each in told} == {
        **dict.fromkeys(("large", "other", "alias"), ("stale", 1)),
        "young": ("lost", None),
        "fresh": ("restored", None),
    }


def test_what_took_long_is_looked_at_last_and_keeps_its_place(tmp_path: Path) -> None:
    looks: list[str] = []
    large, small = (Late(partial(looks.append, name)) for name in ("large", "small"))
    kept, names = new(tmp_path), {"large": large, "alias": large, "small": small}
    keep(kept, names)
    kept._due = {"large": float("inf")}  # it was looked at not long ago
    kept.is_awaited = lambda: looks[2:] == ["small"]  # code comes as soon as the small one was looked at
    told = keep(kept, names, executions=2)["variables"]
    assert looks == ["large", "small", "small"]
    assert [(each["name"], each["why"]) for each in told] == [("large", NO_TIME), ("alias", NO_TIME), ("small", "")]
    found, _lost = restore(tmp_path)
    assert list(found) == ["large", "small", "alias"], "as they were defined, then second names"
    assert found["large"] is found["alias"]
