"""Quotas and throttling, as the clients know them: 402 and 429 with the wait in milliseconds, and tries again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import pytest

from tests.conformance.agentcore.accounts import CONTROL, KEY, SECRET, SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import invocation, send, signed
from tests.conformance.agentcore.watching_proxy import WatchingProxy
from tests.running_service import RunningService

Watch = Callable[[RunningService], WatchingProxy]


@pytest.fixture(scope="module")
def narrow(make_service: Callable[..., RunningService], watch: Watch) -> Account:
    """A service with room for one session, one waiting execution in it, and two invocations a second."""
    limits = {"live_sessions": 1, "queue_length": 1, "invocations_per_second": 2, "agentcore_keep_alive_seconds": 0.5}
    service = make_service(access_key_id=KEY, secret_access_key=SECRET, **limits)
    return Account(watch(service).url)


def test_more_sessions_than_there_may_be_are_a_quota(narrow: Account) -> None:
    client = narrow.client()
    first = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)
    with pytest.raises(client.exceptions.ServiceQuotaExceededException) as raised:
        client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 402
    Session(client, first["sessionId"]).stop()


def test_more_invocations_than_there_may_be_are_throttled_and_tried_again(narrow: Account) -> None:
    client = narrow.client()
    session = Session(client, client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)["sessionId"])
    requests = [signed(narrow, invocation(session.id, {"name": "listFiles"})) for _ in range(12)]
    replies = []
    threads = [threading.Thread(target=lambda r=request: replies.append(send(narrow, r))) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    throttled = [reply for reply in replies if reply.status == 429]
    assert throttled
    assert {reply.status for reply in replies} == {200, 429}
    assert all(reply.code == "ThrottlingException" for reply in throttled)
    assert all(1 <= int(reply.headers["x-amz-retry-after"]) <= 5000 for reply in throttled)
    patient = narrow.client(retries={"mode": "standard", "total_max_attempts": 8})
    again = Session(patient, session.id)
    assert [again.code("print(1)") for _ in range(4)] == ["1"] * 4
    session.stop()


def test_more_code_than_may_wait_is_throttled_and_tried_again(narrow: Account) -> None:
    client = narrow.client(retries={"mode": "standard", "total_max_attempts": 8})
    session = Session(client, client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)["sessionId"])
    printed: list[str] = []
    slow = "import time; time.sleep(2); print('done')"
    threads = [threading.Thread(target=lambda: printed.append(session.code(slow))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert printed == ["done"] * 3
    session.stop()


def test_interpreters_are_made_and_deleted_at_the_same_rate(narrow: Account) -> None:
    hasty = narrow.client(CONTROL)
    patient = narrow.client(CONTROL, retries={"mode": "standard", "total_max_attempts": 8})
    made: list[str] = []

    def make(number: int) -> None:
        network = {"networkMode": "SANDBOX"}
        reply = hasty.create_code_interpreter(name=f"hasty{number}", networkConfiguration=network)
        made.append(reply["codeInterpreterId"])

    with pytest.raises(hasty.exceptions.ThrottlingException):
        deque(map(make, range(100)), maxlen=0)
    assert made
    for each in made:
        patient.delete_code_interpreter(codeInterpreterId=each)
