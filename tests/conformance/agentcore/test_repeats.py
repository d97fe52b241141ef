"""The trap: clients send an invocation again when its answer is late or lost. Code runs once all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.conformance.agentcore.accounts import Account, Session
from tests.conformance.agentcore.signed_requests import invocation, send, signed
from tests.conformance.agentcore.watching_proxy import WatchingProxy

Start = Callable[..., Session]
COUNT = "runs = globals().get('runs', 0) + 1\n"


@pytest.fixture
def fresh(data: Any, start: Start) -> Iterator[Session]:
    session = start(data, name="repeats")
    yield session
    session.stop()


def through(session: Session, client: Any) -> Session:
    return Session(client, session.id, session.identifier)


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["standard", "legacy", "adaptive"])
def test_code_longer_than_the_read_timeout_is_answered_in_time(account: Account, fresh: Session, mode: str) -> None:
    impatient = account.client(read_timeout=3, retries={"mode": mode})
    assert through(fresh, impatient).code(f"{COUNT}import time; time.sleep(5); print(runs)") == "1"
    assert fresh.code("print(runs)") == "1"


@pytest.mark.sample(1)
@pytest.mark.parametrize(("mode", "lost"), [("standard", 2), ("legacy", 4)])
def test_an_answer_that_is_lost_is_given_again(
    account: Account, proxy: WatchingProxy, fresh: Session, mode: str, lost: int
) -> None:
    patient = through(fresh, account.client(retries={"mode": mode, "total_max_attempts": 5}))
    with proxy.losing(lost):
        assert patient.code(f"{COUNT}import time; time.sleep(1); print(runs)") == "1"
    assert fresh.code("print(runs)") == "1"


def test_an_answer_whose_headers_do_not_come_is_given_again(
    account: Account, proxy: WatchingProxy, fresh: Session
) -> None:
    impatient = account.client(read_timeout=3, retries={"mode": "standard", "total_max_attempts": 3})
    with proxy.holding(1):  # of the second request: the client does not wait for that of the first
        assert through(fresh, impatient).code(f"{COUNT}import time; time.sleep(8); print(runs)") == "1"
    assert fresh.code("print(runs)") == "1"


def test_commands_and_files_are_joined_as_well(account: Account, proxy: WatchingProxy, fresh: Session) -> None:
    patient = through(fresh, account.client(retries={"mode": "standard", "total_max_attempts": 3}))
    with proxy.losing(1):
        assert patient.call("executeCommand", command="echo once >> runs.txt")["isError"] is False
    with proxy.losing(1):
        started = patient.call("startCommandExecution", command="echo task >> tasks.txt; sleep 0.2")
    assert started["isError"] is False
    assert fresh.call("executeCommand", command="cat runs.txt")["structuredContent"]["stdout"] == "once\r\n"
    written = "until [ -s tasks.txt ]; do sleep 0.1; done; sleep 1; cat tasks.txt"  # a second one would have been, too
    assert fresh.call("executeCommand", command=written)["structuredContent"]["stdout"] == "task\r\n"


def test_a_client_that_gives_up_cancels_nothing(account: Account, proxy: WatchingProxy, fresh: Session) -> None:
    impatient = through(fresh, account.client(read_timeout=1))
    with proxy.holding(1), pytest.raises(ReadTimeoutError):
        impatient.code(f"{COUNT}import time; time.sleep(3); finished = True")
    assert fresh.code("print(runs, finished)") == "1 True"


def test_invocations_with_the_same_id_run_once_though_they_come_together(account: Account, fresh: Session) -> None:
    body = {"name": "executeCode", "arguments": {"code": f"{COUNT}import time; time.sleep(2); print(runs)"}}
    headers = {"amz-sdk-invocation-id": "the same"}
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(send(account, signed(account, invocation(fresh.id, body, **headers))).status)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert statuses == [200] * 5
    assert fresh.code("print(runs)") == "1"


def test_the_same_id_with_another_body_or_session_is_another_invocation(
    account: Account, data: Any, start: Start, fresh: Session
) -> None:
    other = start(data, name="another")
    headers = {"amz-sdk-invocation-id": "not the same"}
    for session, step in ((fresh, 1), (fresh, 10), (other, 100)):
        code = f"total = globals().get('total', 0) + {step}"
        body = {"name": "executeCode", "arguments": {"code": code}}
        assert send(account, signed(account, invocation(session.id, body, **headers))).status == 200
    assert fresh.code("print(total)") == "11"
    assert other.code("print(total)") == "100"
    other.stop()


def test_an_invocation_without_an_id_is_never_joined(account: Account, fresh: Session) -> None:
    body = {"name": "executeCode", "arguments": {"code": COUNT}}
    for _ in range(2):
        assert send(account, signed(account, invocation(fresh.id, body))).status == 200
    assert fresh.code("print(runs)") == "2"
