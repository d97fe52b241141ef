"""Families of processes, those that left their group included."""

from __future__ import annotations

import os

from kernels.guest.processes.families import Kin, family, parents_first, snapshot

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


def test_parents_come_before_their_children() -> None:
    chain = {7: Kin(8, 64), 8: Kin(9, 64), 9: Kin(33, 64), 33: Kin(64, 64), 64: Kin(1, 64)}  # the pids have wrapped
    assert parents_first(family([64], chain), chain) == [64, 33, 9, 8, 7]
    assert set(parents_first(set(TREE), TREE)) == set(TREE)


def test_the_snapshot_knows_us() -> None:
    mine = snapshot()[os.getpid()]
    assert (mine.parent, mine.session) == (os.getppid(), os.getsid(0))
