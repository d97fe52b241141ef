"""A value's whole text: what `repr` says, in so many characters, and no more of it made than that."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from kernels.guest.in_kernel.whole_values import DEEPEST, MOST_CHARACTERS, show

ITSELF: list[Any] = [1]
ITSELF.append(ITSELF)


def text(value: object) -> tuple[str, bool]:
    found = show({"x": value}, {"name": "x", "show": "text"})
    return found["text"], found["cut"]


@pytest.mark.parametrize(
    "value",
    [
        "it's",
        b"\x00",
        4.5,
        None,
        [],
        (),
        {},
        set(),
        frozenset(),
        (1,),
        (1, "two", [3, {"four": (5, {6})}]),
        frozenset({7}),
        {"a": {}, ("b",): [None]},
        collections.OrderedDict(a=1),
        ITSELF,
        [[1], [1]],
    ],
)
def test_it_is_what_repr_says(value: object) -> None:
    assert text(value) == (repr(value), False)


class Counting:
    """Counts how often it was asked what it looks like."""

    asked = 0

    def __repr__(self) -> str:
        Counting.asked += 1
        return "one of many"


def test_no_more_is_made_than_has_room() -> None:
    found, cut = text([Counting()] * 1_000_000)
    assert cut
    assert found.startswith("[one of many, one of many")
    assert len(found) == MOST_CHARACTERS
    assert Counting.asked <= MOST_CHARACTERS / len("one of many")
    assert text("x" * (MOST_CHARACTERS + 1)) == ("'" + "x" * (MOST_CHARACTERS - 1), True)
    exactly = "x" * (MOST_CHARACTERS - 2)
    assert text(exactly) == (repr(exactly), False)
    assert text(range(3)) == ("range(0, 3)", False)


def test_what_is_too_deep_or_too_long_for_python_is_shown_otherwise() -> None:
    deep: list[Any] = []
    for _ in range(10 * DEEPEST):
        deep = [deep]
    assert text(deep) == ("[" * DEEPEST + "[...]" + "]" * DEEPEST, True)
    assert text(16**5_000) == ("0x1" + "0" * 5_000, False)


def test_text_that_no_message_can_carry_is_escaped() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "\udc80"

    assert text(Odd()) == ("\\udc80", False)


def test_names_that_are_not_there_are_not_found_and_what_is_no_array_is_no_picture() -> None:
    assert show({}, {"name": "x", "show": "text"}) == {"status": "ok", "found": False}
    assert show({"x": [[1, 2], [3, 4]]}, {"name": "x", "show": "picture"})["picture"] is None
