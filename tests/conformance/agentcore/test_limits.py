"""Quotas and throttling, as the clients know them: 402 and 429 with the wait in milliseconds, and tries again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conformance.agentcore.accounts import CONTROL, KEY, SECRET, SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import Reply, invocation, send, signed
from tests.conformance.agentcore.watching_proxy import WatchingProxy
from tests.running_service import RunningService

Watch = Callable[[str], WatchingProxy]


@pytest.fixture(scope="module")
def narrow(make_service: Callable[..., RunningService], watch: Watch) -> Account:
    """A service with room for one session, one waiting execution in it, and two invocations a second."""
    limits = {"live_sessions": 1, "queue_length": 1, "invocations_per_second": 2, "agentcore_keep_alive_seconds": 0.5}
    service = make_service(access_key_id=KEY, secret_access_key=SECRET, **limits)
    return Account(watch(service.url).url)


def test_more_sessions_than_there_may_be_are_a_quota(narrow: Account) -> None:
    client = narrow.client()
    first = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)
    with pytest.raises(client.exceptions.ServiceQuotaExceededException) as raised:
        client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 402
    Session(client, first["sessionId"]).stop()


def test_more_invocations_than_there_may_be_are_throttled_and_tried_again(narrow: Account) -> None:
    patient = narrow.client(retries={"mode": "standard", "total_max_attempts": 8})
    session = Session(patient, patient.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)["sessionId"])
    try:
        replies: list[Reply] = []
        while {reply.status for reply in replies} != {200, 429}:  # a bucket that was empty fills between two rounds
            assert {reply.status for reply in replies} <= {200, 429}
            assert len(replies) < 1000
            replies += _at_once(narrow, session.id)
        throttled = [reply for reply in replies if reply.status == 429]
        assert all(reply.code == "ThrottlingException" for reply in throttled)
        assert all(1 <= int(reply.headers["x-amz-retry-after"]) <= 5000 for reply in throttled)
        assert [session.code("print(1)") for _ in range(4)] == ["1"] * 4
    finally:
        session.stop()


def _at_once(account: Account, session_id: str) -> list[Reply]:
    """The replies to twelve invocations that are sent at the same time."""
    requests = [signed(account, invocation(session_id, {"name": "listFiles"})) for _ in range(12)]
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda request: send(account, request), requests))


def test_more_code_than_may_wait_is_throttled_and_tried_again(narrow: Account) -> None:
    client = narrow.client(retries={"mode": "standard", "total_max_attempts": 8})
    session = Session(client, client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)["sessionId"])
    try:
        with ThreadPoolExecutor(3) as pool:
            printed = list(pool.map(session.code, ["import time; time.sleep(1); print('done')"] * 3))
        assert printed == ["done"] * 3
    finally:
        session.stop()


def test_interpreters_are_made_and_deleted_at_the_same_rate(narrow: Account) -> None:
    hasty = narrow.client(CONTROL)
    patient = narrow.client(CONTROL, retries={"mode": "standard", "total_max_attempts": 8})
    made: list[str] = []

    def make(number: int, client: Any = hasty) -> None:
        network = {"networkMode": "SANDBOX"}
        reply = client.create_code_interpreter(name=f"hasty{number}", networkConfiguration=network)
        made.append(reply["codeInterpreterId"])

    make(0, patient)  # the tests before may have left nothing of the rate
    with pytest.raises(hasty.exceptions.ThrottlingException):
        deque(map(make, range(1, 100)), maxlen=0)
    for each in made:
        patient.delete_code_interpreter(codeInterpreterId=each)
