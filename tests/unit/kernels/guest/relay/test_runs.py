"""Runs that were taken: none twice, each known by its reply, all bounded."""

from __future__ import annotations

import json
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.guest.relay import frames, runs
from kernels.guest.relay.kernels import KernelSource
from kernels.guest.relay.runs import Run, Runs, replied_to
from kernels.wire import zmtp
from kernels.wire.message import Signer


def make_run(name: str) -> Run:
    return Run(
        json.dumps({"id": name, "msg_id": "m", "session": "s", "seconds": 1, "grace_seconds": 1}).encode(), "p", 1
    )


def test_a_run_is_taken_once_until_it_is_done_with() -> None:
    taken = Runs()
    assert taken.add(make_run("a"))
    assert not taken.add(make_run("a"))
    assert [each["id"] for each in taken.describe()] == ["a"]
    taken.forget("a")
    assert taken.add(make_run("a"))


def test_what_is_remembered_is_bounded() -> None:
    taken = Runs()
    for number in range(runs.MOST_RUNS + 5):
        taken.add(make_run(str(number)))
    assert len(taken.describe()) == runs.MOST_RUNS


@pytest.mark.parametrize("described", [b"", b"[]", b'{"seconds": "x"}', b"\xff"])
def test_what_describes_no_run_is_refused(described: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        Run(described, "python", 1)


def test_a_reply_names_its_request() -> None:
    signer = Signer(b"key")
    header, parent = b'{"msg_id":"r","msg_type":"execute_reply"}', b'{"msg_id":"asked"}'
    frames = [b"route" * 100, *signer.sign([header, parent, b"{}", b"{}"])]
    assert replied_to(zmtp.encode(frames)) == "asked"
    begun = zmtp.encode(signer.sign([header, parent, b"{}", bytes(200_000)]))[:70_000]
    assert replied_to(begun) == "asked", "of a long reply the first piece says it"
    other = signer.sign([b'{"msg_id":"r","msg_type":"status"}', parent, b"{}", b"{}"])
    assert replied_to(zmtp.encode(other)) == ""


@given(st.binary(max_size=300))
def test_no_bytes_of_a_kernels_do_more_than_name_nothing(data: bytes) -> None:
    assert isinstance(replied_to(data), str)
    assert isinstance(replied_to(zmtp.encode([b"<IDS|MSG>", b"", data, data])), str)


def test_a_reply_is_known_by_its_first_piece() -> None:
    header, parent = b'{"msg_id":"r","msg_type":"execute_reply"}', b'{"msg_id":"asked"}'
    whole = zmtp.encode(Signer(b"key").sign([header, parent, b"{}", b"x" * 200_000]))
    assert replied_to(whole[: frames.PIECE_BYTES]) == "asked"


def test_the_longest_welcome_fits_into_a_frame() -> None:
    taken = Runs()
    for _ in range(runs.MOST_RUNS):
        named = {"id": str(uuid.uuid4()), "msg_id": str(uuid.uuid4()), "session": str(uuid.uuid4())}
        taken.add(Run(json.dumps(named).encode(), "a-name-of-thirty-two-characters-", 100_000, "f" * 64))
    assert 2 * frames.MOST_NOTE + len(json.dumps(taken.describe())) + 1000 < frames.MOST_FROM_GUEST


@pytest.mark.parametrize(("heeds", "signals"), [(True, ["interrupt"]), (False, [])])
def test_only_a_kernel_that_heeds_signals_is_interrupted_by_one(heeds: bool, signals: list[str]) -> None:
    sent: list[str] = []
    kernel = SimpleNamespace(generation=1, pid=1, key="", heeds_signals=heeds)
    kernel.interrupt = lambda: sent.append("interrupt")
    KernelSource("declared", cast("Any", kernel)).interrupt()
    assert sent == signals
