"""The count of a session, and the answer to who goes beyond it."""

from __future__ import annotations

import pytest

from kernel_gateway.egress.budget import Budget, EgressLimits, EgressUsage, Meter, OverBudget
from kernel_gateway.egress.policy import no
from kernel_gateway.egress.refusal import Refused, answer
from kernels.environment import NetworkMode


def word_of(budget: Budget) -> str:
    with pytest.raises(OverBudget) as over:
        budget.ask()
    return over.value.word


def test_requests_are_counted_in_all() -> None:
    budget = Budget(EgressLimits(requests=2))
    budget.ask()
    budget.ask()
    assert word_of(budget) == "requests"
    assert budget.usage.requests == 2


def test_one_connection_too_many_is_refused_when_it_asks_and_the_next_is_fine_once_others_closed() -> None:
    budget = Budget(EgressLimits(connections=1))
    budget.open()
    budget.ask()
    budget.open()
    assert word_of(budget) == "connections"
    budget.close()
    budget.ask()
    assert budget.usage == EgressUsage(connections_open=1, requests=3)


def test_bytes_never_pass_their_limit() -> None:
    budget = Budget(EgressLimits(sent_bytes=10, received_bytes=5))
    meter = Meter(budget)
    meter.send(9)
    with pytest.raises(OverBudget, match="sent the 10 bytes"):
        meter.send(2)
    meter.send(1)
    assert word_of(budget) == "sent_bytes"
    with pytest.raises(OverBudget, match="received the 5 bytes"):
        meter.receive(6)
    assert (meter.sent_bytes, meter.received_bytes) == (10, 0)
    assert (budget.usage.sent_bytes, budget.usage.received_bytes) == (10, 0)


def test_a_new_sandbox_goes_on_from_what_was_used() -> None:
    used = EgressUsage(connections_open=7, requests=3, refused=2, sent_bytes=10, received_bytes=20)
    budget = Budget(EgressLimits(requests=3), used)
    assert budget.usage == EgressUsage(connections_open=0, requests=3, refused=2, sent_bytes=10, received_bytes=20)
    assert word_of(budget) == "requests"


def test_an_answer_names_the_mode_and_the_reason_in_its_first_line_and_its_body() -> None:
    refused = Refused(403, no("not_declared", "x.example:443 is not among the declared endpoints"))
    head, _, body = answer(NetworkMode.ALLOWLIST, refused).decode().partition("\r\n\r\n")
    said = "Network mode ALLOWLIST: x.example:443 is not among the declared endpoints (not_declared)"
    assert head.splitlines()[0] == f"HTTP/1.1 403 {said}"
    assert f"Content-Length: {len(body)}" in head
    assert body == said + "\n"


def test_nothing_a_name_server_says_breaks_the_answer() -> None:
    refused = Refused(502, no("not_resolved", "x\r\nSet-Cookie: y\n\n\x00é" + "z" * 5000))
    raw = answer(NetworkMode.PUBLIC, refused)
    head, _, body = raw.partition(b"\r\n\r\n")
    assert len(head.splitlines()) == 5
    assert len(raw) < 1000
    assert body.decode().isascii()
