"""The face on a real service: large bodies in turn, early refusals, restarts, ends; conformance tests have the rest."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from botocore.exceptions import ClientError, EventStreamError

from tests.integration.kernel_gateway.faces.agentcore.conftest import KEY, SECRET, SYSTEM, Caller, Live
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

MEGABYTE = 1_000_000
INVOKE = f"/code-interpreters/{SYSTEM}/tools/invoke"


@pytest.mark.sample("doors")
def test_an_endpoint_may_have_a_path(caller: Caller) -> None:
    session = replace(caller, prefix="/behind/a/proxy").start()
    assert session.code("print(6 * 7)") == "42"
    session.stop()


@pytest.mark.sample("doors")
def test_large_bodies_take_turns_and_each_is_carried_out(live: Live) -> None:
    """There is memory for one of them at a time."""
    blob, results = bytes(15 * MEGABYTE), []

    def write(number: int) -> None:
        content = [{"path": f"{number}.bin", "blob": blob}]
        results.append(live.call("writeFiles", content=content))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [result["isError"] for result in results] == [False] * 3
    assert live.code("import os; print([os.path.getsize(f'{n}.bin') for n in range(3)])") == str([len(blob)] * 3)


@pytest.mark.sample("doors")
def test_large_answers_take_turns_and_give_their_memory_back(live: Live) -> None:
    """Also when the client asks for one and leaves."""
    blob, results = bytes(range(256)) * 16_000, []
    assert live.call("writeFiles", content=[{"path": "large.bin", "blob": blob}])["isError"] is False

    def read() -> None:
        results.append(live.call("readFiles", paths=["large.bin"]))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        live.client.invoke_code_interpreter(
            codeInterpreterIdentifier=SYSTEM, sessionId=live.id, name="readFiles", arguments={"paths": ["large.bin"]}
        )["stream"].close()
    for thread in threads:
        thread.join(120)
    assert [result["content"][0]["resource"]["blob"] == blob for result in results] == [True] * 4
    assert live.call("writeFiles", content=[{"path": "a", "blob": bytes(15 * MEGABYTE)}])["isError"] is False


def head(caller: Caller, length: int, *more: str) -> bytes:
    """Of a request whose signature nobody has checked yet."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{KEY}/{stamp[:8]}/us-west-2/bedrock-agentcore/aws4_request"
    lines = [
        f"POST {INVOKE} HTTP/1.1",
        f"Host: {urlsplit(caller.service.url).netloc}",
        f"X-Amz-Date: {stamp}",
        f"Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def connected(caller: Caller) -> socket.socket:
    address = urlsplit(caller.service.url)
    return socket.create_connection((address.hostname, address.port), timeout=120)


@pytest.mark.sample("doors")
def test_memory_that_a_client_leaves_is_there_for_the_next(caller: Caller, live: Live) -> None:
    for _ in range(3):
        with connected(caller) as connection:
            connection.sendall(head(caller, 30 * MEGABYTE) + bytes(MEGABYTE))
    assert live.call("writeFiles", content=[{"path": "a", "blob": bytes(15 * MEGABYTE)}])["isError"] is False


@pytest.mark.sample("doors")
def test_a_large_body_with_a_wrong_signature_gives_its_memory_back(caller: Caller, live: Live) -> None:
    with connected(caller) as connection:
        connection.sendall(head(caller, 20 * MEGABYTE) + bytes(20 * MEGABYTE))
        assert b"InvalidSignatureException" in connection.recv(65_536)
    assert live.call("writeFiles", content=[{"path": "a", "blob": bytes(15 * MEGABYTE)}])["isError"] is False


@pytest.mark.parametrize("more", [[], ["Expect: 100-continue"]])
def test_a_body_that_is_too_large_is_refused_before_it_is_read(caller: Caller, more: list[str]) -> None:
    with connected(caller) as connection:
        connection.sendall(head(caller, 200 * MEGABYTE, *more))
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"ValidationException" in answer


def test_an_unsigned_request_is_refused_before_its_body_is_read(caller: Caller) -> None:
    with connected(caller) as connection:
        connection.sendall(f"PUT {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n".encode())
        assert b"UnknownOperationException" in connection.recv(65_536)
    with connected(caller) as connection:
        connection.sendall(f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n".encode())
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"MissingAuthenticationTokenException" in answer


def test_a_bearer_token_is_no_proof_here_and_a_signature_none_there(caller: Caller) -> None:
    bearer = {"Authorization": f"Bearer {caller.service.token}"}
    refused = httpx.get(f"{caller.service.url}/code-interpreters/{SYSTEM}", headers=bearer)
    assert (refused.status_code, refused.headers["x-amzn-errortype"]) == (403, "MissingAuthenticationTokenException")
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=x"}
    unknown = httpx.get(f"{caller.service.url}/v1/sessions", headers=signed)
    assert (unknown.status_code, unknown.headers["x-amzn-errortype"]) == (404, "UnknownOperationException")


def test_the_time_to_live_is_no_longer_than_the_operator_allows(caller: Caller, live: Live) -> None:
    names = {"codeInterpreterIdentifier": SYSTEM, "sessionId": live.id}
    assert live.client.get_code_interpreter_session(**names)["sessionTimeoutSeconds"] == 600
    with pytest.raises(ClientError, match="600"):
        caller.start(sessionTimeoutSeconds=601)


def test_sessions_are_the_same_ones_over_rest(caller: Caller, live: Live) -> None:
    with caller.service.client() as rest:
        ours = {session.id.replace("-", ""): session for session in rest.list_sessions().items}
        assert ours[live.id].environment == "python"
        started = rest.start_session(name="over REST")
        shown = live.client.get_code_interpreter_session(
            codeInterpreterIdentifier=SYSTEM, sessionId=started.id.replace("-", "")
        )
        assert shown["name"] == "over REST"
        rest.stop_session(started.id)


def test_a_call_is_in_the_audit_log_without_its_code(caller: Caller, live: Live) -> None:
    live.call("executeCode", code="the_secret_word = 1")
    with caller.service.client() as rest:
        records = [each for each in rest.list_audit(event="InvokeCodeInterpreter").items if each.session_id is not None]
    record = next(each for each in records if each.session_id.replace("-", "") == live.id)
    assert record.detail["userIdentity"]["accessKeyId"] == KEY
    assert record.detail["requestParameters"]["name"] == "executeCode"
    assert "the_secret_word" not in str(record)


def with_id(client: Any, invocation_id: str) -> Any:
    """A client whose invocations all have this id, as those have that botocore sends again."""

    def mark(request: Any, **_more: Any) -> None:
        request.headers["amz-sdk-invocation-id"] = invocation_id

    client.meta.events.register("before-send.bedrock-agentcore.InvokeCodeInterpreter", mark)
    return client


@pytest.mark.sample("doors")
def test_what_is_asked_for_again_after_a_restart_is_not_done_again(make_service: Callable[..., RunningService]) -> None:
    """Neither code that ran, nor a start whose answer was not kept when the service died."""
    caller, token = Caller(make_service(access_key_id=KEY, secret_access_key=SECRET)), "a" * 40
    session = caller.start(clientToken=token, name="once")
    code = "runs = globals().get('runs', 0) + 1; print(runs)"
    first = session.call("executeCode", with_id(caller.client(), "once"), code=code)
    command = "echo ran | tee --append runs"
    said = session.call("executeCommand", with_id(caller.client(), "once"), command=command)
    task = session.call("startCommandExecution", with_id(caller.client(), "once"), command=command)
    caller.service.kill()
    with sqlite3.connect(caller.service.data_dir / "state" / "sandcell.db") as database:
        assert database.execute("DELETE FROM client_tokens").rowcount == 1  # as if it had died before it kept this
    caller.service.start()
    repeated = caller.start(clientToken=token, name="once")
    assert repeated.id == session.id
    again = repeated.call("executeCode", with_id(caller.client(), "once"), code=code)
    assert (again["content"], again["isError"]) == (first["content"], False)
    assert repeated.code("print(runs)") == "1"
    same = repeated.call("executeCommand", with_id(caller.client(), "once"), command=command)
    assert same["content"] == said["content"]
    assert repeated.call("startCommandExecution", with_id(caller.client(), "once"), command=command) == task
    name = task["structuredContent"]["taskId"]
    eventually(lambda: repeated.call("getTask", taskId=name)["structuredContent"]["taskStatus"] == "completed")
    assert repeated.call("executeCommand", command="cat runs")["structuredContent"]["stdout"] == "ran\r\nran\r\n"
    repeated.stop()
    another = caller.start(clientToken="b" * 40)
    assert another.id != session.id
    another.stop()


SLOW = "import time; print('before', flush=True); time.sleep(3); print('after')"


def read_after_stop(caller: Caller, code: str) -> dict[str, Any]:
    """What a program gets that reads the result when it has stopped the session."""
    session = caller.start()
    answer = session.client.invoke_code_interpreter(
        codeInterpreterIdentifier=SYSTEM, sessionId=session.id, name="executeCode", arguments={"code": code}
    )
    session.stop()
    (event,) = list(answer["stream"])
    return dict(event["result"])


def test_a_session_that_is_stopped_waits_for_what_its_client_waits_for(caller: Caller) -> None:
    """Here an answer is held for less than the code takes."""
    result = read_after_stop(caller, SLOW)
    assert (result["isError"], result["content"][0]["text"]) == (False, "before\nafter")


def test_a_client_that_leaves_is_not_waited_for(caller: Caller) -> None:
    session = caller.start()
    code = "import time; time.sleep(25)"  # less than a stop waits
    answer = session.client.invoke_code_interpreter(
        codeInterpreterIdentifier=SYSTEM, sessionId=session.id, name="executeCode", arguments={"code": code}
    )
    with caller.service.client() as rest:
        name = str(uuid.UUID(session.id))
        eventually(lambda: rest.list_executions(name).items[0].status == "running")
        answer["stream"].close()
        session.stop()
        assert rest.list_executions(name).items[0].status == "interrupted"


@pytest.fixture(scope="module")
def brief(make_service: Callable[..., RunningService]) -> Caller:
    """A service that waits for nobody's work for long."""
    waits = {"agentcore_hold_seconds": 0.5, "agentcore_stop_wait_seconds": 0.5, "drain_seconds": 0}
    return Caller(make_service(access_key_id=KEY, secret_access_key=SECRET, **waits))


@pytest.mark.sample("doors")
def test_what_runs_on_when_a_stop_waits_no_longer_keeps_what_it_printed(brief: Caller) -> None:
    result = read_after_stop(brief, "import time; print('before', flush=True); time.sleep(600)")
    assert result["isError"] is True
    assert result["content"][0]["text"] == "before"
    assert "interrupted" in result["content"][1]["text"]


@pytest.mark.sample("doors")
def test_a_stream_ends_when_the_service_does(brief: Caller) -> None:
    caller = brief
    session, ends = caller.start(), []

    def invoke() -> None:
        try:
            ends.append(session.call("executeCode", code="import time; time.sleep(60)")["isError"])
        except (EventStreamError, ClientError) as error:
            ends.append(error)

    thread = threading.Thread(target=invoke)
    thread.start()
    with caller.service.client() as rest:
        name = str(uuid.UUID(session.id))
        eventually(lambda: [each.status for each in rest.list_executions(name).items] == ["running"])
    assert caller.service.stop() == 0
    thread.join(120)
    assert ends
    assert ends != [False]
