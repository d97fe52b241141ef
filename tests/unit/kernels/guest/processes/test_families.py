"""Families of processes, those that left their group included."""

from __future__ import annotations

import os

from kernels.guest.processes.families import Kin, family, snapshot

TREE = {
    1: Kin(0, 1),
    10: Kin(1, 10),  # a shell
    11: Kin(10, 10),  # its child
    12: Kin(11, 12),  # which left the session
    13: Kin(1, 10),  # one whose parent has died
    14: Kin(13, 14),  # and its child in a session of its own
    20: Kin(1, 20),  # somebody else
}


def test_a_family_is_session_and_descendants() -> None:
    assert family([10], TREE) == {10, 11, 12, 13, 14}


def test_of_pid_1_it_is_everything() -> None:
    assert family([1], TREE) == set(TREE)


def test_the_dead_have_none() -> None:
    assert family([99], TREE) == set()


def test_the_snapshot_knows_us() -> None:
    mine = snapshot()[os.getpid()]
    assert (mine.parent, mine.session) == (os.getppid(), os.getsid(0))
