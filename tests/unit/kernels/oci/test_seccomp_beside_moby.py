"""Our list of system calls beside moby's default profile, which Docker runs containers with.

`moby_seccomp.json` keeps the names that its release allows on x86_64 and aarch64: always, for some arguments only, by
architecture, and for holders of a capability, which nothing in a sandbox is. To hold ours against a newer release,
replace the names. `pytest -s` prints what moby allows and ours does not.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kernels.oci import seccomp

MOBY: dict[str, Any] = json.loads((Path(__file__).parent / "moby_seccomp.json").read_text())
MACHINES = ("x86_64", "aarch64")
BEYOND = {
    "aarch64": {"arch_prctl": "a call of x86_64 alone, which the list names for both: no such call on aarch64"},
    "x86_64": dict[str, str](),
}
"""What ours allows and moby's does not, each with its reason."""
WHOLE = {"ioctl", "prctl", "seccomp", "setsockopt"}
"""Calls that moby allows with any arguments, and ours with some."""


def ours(machine: str) -> set[str]:
    return {
        name
        for rule in seccomp.profile(machine)["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW"
        for name in rule["names"]
    }


def mobys(machine: str) -> set[str]:
    found = " ".join([MOBY["always"], MOBY["for_some_arguments"], MOBY["architectures"][machine]])
    return set(found.split())


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_allowed_that_moby_refuses_without_a_reason(machine: str) -> None:
    missing = sorted(mobys(machine) - ours(machine))
    print(f"\n{len(missing)} calls that moby ({MOBY['version']}) allows on {machine} and ours does not:")
    print(textwrap.fill(" ".join(missing), 116))
    assert ours(machine) - mobys(machine) == set(BEYOND[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_what_moby_narrows_by_arguments_is_narrowed_here_too(machine: str) -> None:
    narrowed = {name for rule in seccomp.profile(machine)["syscalls"] if "args" in rule for name in rule["names"]}
    assert set(MOBY["for_some_arguments"].split()) <= narrowed
    assert narrowed - set(MOBY["for_some_arguments"].split()) == WHOLE
    whole = {name for names in _unconditional(machine) for name in names}
    assert not narrowed & whole, "a rule without arguments would undo those with arguments"


def _unconditional(machine: str) -> list[list[str]]:
    rules = seccomp.profile(machine)["syscalls"]
    return [rule["names"] for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule]


def test_no_call_that_moby_keeps_for_a_capability_is_allowed_to_all() -> None:
    """`clone` is the exception in both: without the capability, and without new namespaces."""
    for capability, names in MOBY["capabilities"].items():
        assert set(names.split()) & (ours("x86_64") | ours("aarch64")) <= {"clone"}, capability
