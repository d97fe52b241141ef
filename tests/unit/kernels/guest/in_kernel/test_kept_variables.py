"""Files of kept variables: what is refused or interrupted leaves none, and spoils nothing that was kept before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.guest.in_kernel import kept_variables
from kernels.guest.in_kernel.kept_variables import INDEX, INTERRUPTED, NO_TIME, KeptVariables

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


def keep(kept: KeptVariables, names: dict[str, Any], most_bytes: int = PLENTY, seconds: float = SECONDS) -> Any:
    return kept.keep(names, {}, most_bytes, seconds)


def restore(directory: Path, seconds: float = SECONDS) -> tuple[dict[str, Any], dict[str, str]]:
    names: dict[str, Any] = {}
    told = KeptVariables(str(directory)).restore(names, seconds)
    return names, {each["name"]: each["why"] for each in told["variables"] if each["outcome"] == "lost"}


@pytest.mark.parametrize("happen", [fail, lambda: sys.exit(3)])
def test_a_value_that_is_refused_half_way_leaves_no_file(tmp_path: Path, happen: Callable[[], object]) -> None:
    kept = KeptVariables(str(tmp_path))
    names = {"number": 2, "refused": Fails(happen), "listed": [1]}
    for _ in range(3):
        assert keep(kept, names) == {"status": "ok", "kept": 2, "refused": 1}
        assert len(list(tmp_path.iterdir())) == 3, "the index and two values"
    found, lost = restore(tmp_path)
    assert (found, list(lost)) == ({"number": 2, "listed": [1]}, ["refused"])


def test_a_value_without_room_leaves_no_file(tmp_path: Path) -> None:
    kept = KeptVariables(str(tmp_path))
    for _ in range(2):
        keep(kept, {"many": [bytes(LARGE) for _ in range(3)]}, most_bytes=LARGE * 2)
        assert [each.name for each in tmp_path.iterdir()] == [INDEX]


def test_an_interrupt_leaves_what_was_kept_before(tmp_path: Path) -> None:
    kept = KeptVariables(str(tmp_path))
    keep(kept, {"a": 1, "b": bytes(LARGE)})
    before = {each.name for each in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        keep(kept, {"a": 2, "b": bytes(LARGE + 1), "c": Fails(interrupt)})
    assert {each.name for each in tmp_path.iterdir()} == before
    successor = KeptVariables(str(tmp_path))  # has kept nothing yet: those of the one before stay
    with pytest.raises(KeyboardInterrupt):
        keep(successor, {"b": bytes(LARGE + 2), "c": Fails(interrupt)})
    assert {each.name for each in tmp_path.iterdir()} == before
    found, lost = restore(tmp_path)
    assert (found["a"], len(found["b"]), lost) == (1, LARGE, {})


def test_time_that_is_over_is_looked_at_for_each_name(tmp_path: Path) -> None:
    assert keep(KeptVariables(str(tmp_path)), {"a": 1, "b": "x"}, seconds=-1.0)["refused"] == 2
    keep(KeptVariables(str(tmp_path)), {"a": 1})
    assert restore(tmp_path, seconds=-1.0) == ({}, {"a": NO_TIME})


def test_what_a_restore_cannot_take_up_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(KeptVariables(str(tmp_path)), {"first": 1, "second": 2, "third": 3})
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
