"""What the filter says of arguments: the kernel takes 32 bits of a register that holds 64, and so must every rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.oci import seccomp

USUAL = seccomp.profile("x86_64")
RULES, OF_GVISOR = USUAL["syscalls"], seccomp.for_gvisor(USUAL)["syscalls"]
REFUSED = {
    "ioctl": [(0, number) for number in (0x5412, 0x541C)],
    "prctl": [(22,)],
    "setsockopt": [(0, level, number) for level, numbers in seccomp.REFUSED_OPTIONS.items() for number in numbers],
}


def allows(call: str, *arguments: int) -> bool:
    """What the kernel would make of the rules for these registers, and so gVisor, where the first that fits holds."""
    for_kernel, for_gvisor = (
        [
            rule["action"] == "SCMP_ACT_ALLOW"
            for rule in rules
            if call in rule["names"] and all(holds(one, arguments) for one in rule.get("args", ()))
        ]
        for rules in (RULES, OF_GVISOR)
    )
    assert any(for_kernel) == any(for_gvisor[:1])
    return any(for_kernel)


def holds(comparison: dict[str, Any], arguments: tuple[int, ...]) -> bool:
    found = arguments[comparison["index"]] if comparison["index"] < len(arguments) else 0
    if comparison["op"] == "SCMP_CMP_MASKED_EQ":
        return found & comparison["value"] == comparison["valueTwo"]
    assert comparison["op"] == "SCMP_CMP_EQ", "what is not equal in 64 bits may be equal in the 32 that count"
    return found == comparison["value"]


def test_no_rule_compares_otherwise_than_for_equality() -> None:
    assert {rule["action"] for rule in RULES} == {"SCMP_ACT_ALLOW", "SCMP_ACT_TRACE"}, "whose order is of no account"
    assert {one["op"] for rule in RULES for one in rule.get("args", ())} == {"SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"}


@pytest.mark.parametrize("call", REFUSED)
@given(high=st.lists(st.integers(0, 0xFFFFFFFF), min_size=3, max_size=3))
def test_what_is_refused_is_refused_whatever_is_in_the_high_half(call: str, high: list[int]) -> None:
    for low in REFUSED[call]:
        assert not allows(call, *low)
        assert not allows(call, *(each | above << 32 for each, above in zip(low, high, strict=False)))


@given(number=st.integers(0, 0xFFFFFFFFFFFFFFFF))
def test_nothing_else_is(number: int) -> None:
    assert allows("ioctl", 0, number) == (number & 0xFFFFFFFF not in (0x5412, 0x541C))
    assert allows("prctl", number) == (number & 0xFFFFFFFF != 22)


@pytest.mark.parametrize("level", seccomp.REFUSED_OPTIONS)
def test_of_the_options_of_a_level_those_below_128_that_are_not_refused_are_there(level: int) -> None:
    refused = seccomp.REFUSED_OPTIONS[level]
    assert [number for number in range(300) if not allows("setsockopt", 0, level, number)] == [
        *sorted(refused),
        *range(128, 300),
    ]


def test_of_filters_only_one_with_a_listener_is() -> None:
    assert [flags for flags in range(64) if allows("seccomp", 1, flags)] == [8]
    assert not allows("seccomp", 1 | 1 << 32, 0)


def test_a_family_of_sockets_brings_its_usual_protocols_only() -> None:
    for family in (2, 10):
        assert [number for number in range(300) if allows("socket", family, 1, number)] == [0, 1, 6, 17, 58]
    assert [family for family in range(64) if allows("socket", family, 1, 0)] == [1, 2, 10, 16]


def test_gvisors_rules_are_few_enough_for_one_filter() -> None:
    """283 comparisons were 4,807 instructions to one of its builds, and a filter has at most 4,096."""
    assert sum(len(rule.get("args", ())) for rule in OF_GVISOR) < 200
