"""Every call of a real service is one record: over REST and as boto3 sends it, refused ones too, and after a kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from sandcell import Client
from sandcell.models.audit import AuditVerification
from tests.conformance.agentcore.accounts import KEY, SECRET, SYSTEM, Account
from tests.integration.client.sandcell.cli.conftest import Shell
from tests.integration.kernel_gateway.server.rest import Rest
from tests.running_service import RunningService

MakeService = Callable[..., RunningService]
CODE = "print('a-word-of-the-code')"
BODY = b"a-word-of-the-file"
WORDS = ("a-word-of-the", "sandcell_", SECRET, "X-Amz-Signature", "Signature=")


@dataclass
class Place:
    """A service with an access key, and the file that its records go to."""

    service: RunningService
    file: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.file.read_text().splitlines()]


@pytest.fixture(scope="module")
def place(make_service: MakeService) -> Place:
    service = make_service(
        access_key_id=KEY, secret_access_key=SECRET, invocations_per_second=1000, trusted_proxies="127.0.0.1"
    )
    return Place(service, service.data_dir / "state" / "audit.jsonl")


@pytest.fixture
def shell(place: Place, tmp_path: Path) -> Shell:
    return Shell(place.service, tmp_path)


@pytest.fixture
def rest(place: Place) -> Iterator[Rest]:
    with Rest(place.service) as rest:
        yield rest


def records(rest: Rest, query: str) -> list[dict[str, Any]]:
    """Records of calls, oldest first."""
    return list(reversed(rest.get(f"/v1/audit?kind=api&limit=1000&{query}")["items"]))


def test_the_calls_of_a_session_over_rest_are_on_record_without_what_was_in_them(rest: Rest, place: Place) -> None:
    with rest.session(labels={"team": "red"}) as session:
        outcome = session.run(CODE)
        rest.post(f"{session.path}/commands", command="echo a-word-of-the-command")
        rest.http.put(f"{session.path}/files/in/data.bin", content=BODY).raise_for_status()
        assert rest.http.get(f"{session.path}/files/in/data.bin").content == BODY
        assert rest.http.get(f"{session.path}/files/missing").status_code == 404
        assert rest.http.post(f"{session.path}/executions", json={"kode": 1}).status_code == 400
    found = records(rest, f"session_id={session.id}")
    assert [each["event"] for each in found] == [
        "StartSession",
        "ExecuteCode",
        "RunCommand",
        "WriteFile",
        "ReadFile",
        "ReadFile",
        "ExecuteCode",
        "StopSession",
    ]
    assert [each["reason"].partition(":")[0] for each in found] == [*[""] * 5, "not_found", "invalid_request", ""]
    start, execute, _, write, *_ = (each["detail"] for each in found)
    assert start["requestParameters"]["labels"] == {"team": "red"}
    assert start["responseElements"]["id"] == session.id
    assert execute["requestParameters"]["code"]["characters"] == len(CODE)
    assert execute["responseElements"]["id"] == outcome["id"]
    assert write["requestParameters"]["content"]["bytes"] == len(BODY)
    assert {each["principal"] for each in found} == {"admin"}
    everything = json.dumps(rest.get("/v1/audit?limit=1000")) + place.file.read_text()
    assert [word for word in WORDS if word in everything] == []


def test_an_answer_names_the_record_of_its_request(rest: Rest) -> None:
    answer = rest.http.get("/v1/sessions/nowhere")
    [found] = records(rest, "event=GetSession&error_code=not_found")
    assert found["detail"]["requestID"] == answer.headers["X-Request-Id"]


def test_callers_who_are_nobody_are_on_record(rest: Rest, place: Place) -> None:
    agent = "nobody/1.0"
    headers = {"Authorization": "Bearer sandcell_wrong", "User-Agent": agent}
    assert httpx.get(f"{place.service.url}/v1/sessions", headers=headers).status_code == 401
    found = records(rest, "event=ListSessions&error_code=unauthorized")[-1]
    assert (found["principal"], found["allowed"]) == (None, False)
    assert found["detail"]["userIdentity"] == {"type": "Unknown"}
    assert (found["detail"]["userAgent"], found["detail"]["sourceIPAddress"]) == (agent, "127.0.0.1")


def test_the_address_of_a_client_behind_a_trusted_proxy_is_on_record_for_every_face(rest: Rest, place: Place) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7", "User-Agent": "behind-a-proxy"}
    for path in ("/v1/sessions", "/api/kernels", "/code-interpreters/x"):
        httpx.get(f"{place.service.url}{path}", headers=headers)
    found = [each["detail"] for each in records(rest, "") if each["detail"]["userAgent"] == "behind-a-proxy"]
    assert len({each["eventSource"] for each in found}) == 3
    assert [each["sourceIPAddress"] for each in found] == ["198.51.100.7"] * 3


def test_the_calls_of_a_session_through_boto3_are_on_record(rest: Rest, place: Place) -> None:
    client = Account(place.service.url).client()
    shown = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, name="audited")["sessionId"]
    for name, arguments in (
        ("executeCode", {"code": CODE, "language": "python"}),
        ("executeCode", {"code": "1/0"}),
        ("writeFiles", {"content": [{"path": "a.txt", "text": BODY.decode()}]}),
    ):
        answer = client.invoke_code_interpreter(
            codeInterpreterIdentifier=SYSTEM, sessionId=shown, name=name, arguments=arguments
        )
        assert [event for event in answer["stream"] if "result" in event]
    client.stop_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionId=shown)
    with pytest.raises(ClientError) as ended:
        client.invoke_code_interpreter(codeInterpreterIdentifier=SYSTEM, sessionId=shown, name="listFiles")
    session_id = next(each["session_id"] for each in records(rest, "event=StartCodeInterpreterSession")[::-1])
    found = [each for each in records(rest, f"session_id={session_id}") if "CodeInterpreter" in each["event"]]
    names = ("Start", "Invoke", "Invoke", "Invoke", "Stop", "Invoke")
    assert [each["event"] for each in found] == [
        f"{name}CodeInterpreter{'' if name == 'Invoke' else 'Session'}" for name in names
    ]
    start, execute, failed, write, _, late = (each["detail"] for each in found)
    assert start["requestParameters"]["name"] == "audited"
    assert start["responseElements"]["sessionId"] == shown
    assert execute["requestParameters"]["name"] == "executeCode"
    assert execute["requestParameters"]["arguments"]["code"]["characters"] == len(CODE)
    assert execute["responseElements"]["isError"] is False
    assert (failed["responseElements"]["isError"], "errorCode" in failed) == (True, False)
    assert write["requestParameters"]["arguments"]["content"] == [{"path": "a.txt", "text": {"characters": len(BODY)}}]
    assert late["errorCode"] == ended.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert late["requestID"] == ended.value.response["ResponseMetadata"]["RequestId"]
    assert {each["detail"]["userIdentity"]["accessKeyId"] for each in found} == {KEY}
    assert {each["detail"]["eventSource"] for each in found} == {"bedrock-agentcore.amazonaws.com"}
    everything = json.dumps(rest.get("/v1/audit?limit=1000")) + place.file.read_text()
    assert [word for word in WORDS if word in everything] == []


@pytest.mark.parametrize(
    ("account", "code"),
    [
        (("SCAKUNKNOWNUNKNOWNUN", SECRET), "UnrecognizedClientException"),
        ((KEY, "another-secret-of-the-tests-0123456789ab"), "InvalidSignatureException"),
    ],
)
def test_a_key_that_does_not_count_is_on_record_and_its_secret_is_not(
    account: tuple[str, str], code: str, rest: Rest, place: Place
) -> None:
    with pytest.raises(ClientError) as refused:
        Account(place.service.url, *account).client().start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)
    assert refused.value.response["Error"]["Code"] == code
    found = records(rest, f"error_code={code}")[-1]
    assert (found["principal"], found["event"]) == (None, "StartCodeInterpreterSession")
    assert found["detail"]["userIdentity"] == {"type": "Unknown", "accessKeyId": account[0]}


def test_principals_see_their_own_records_and_administrators_choose(rest: Rest, place: Place, shell: Shell) -> None:
    token = rest.post("/v1/tokens", principal="dora")["token"]
    with Rest(place.service, token) as dora:
        dora.get("/v1/sessions")
        assert {each["principal"] for each in dora.get("/v1/audit")["items"]} == {"dora"}
        assert dora.get("/v1/audit?principal=dora&event=ListSessions")["items"]
        assert dora.http.get("/v1/audit?principal=admin").status_code == 403
    assert {each["principal"] for each in records(rest, "principal=dora")} == {"dora"}
    asked = ("audit", "--url", place.service.url, "--token", place.service.token)
    told = shell(*asked, "--principal", "dora", "--error-code", "forbidden", "--json")
    assert [each["event"] for each in json.loads(told.stdout)] == ["LookupEvents"]
    told = shell(*asked, "--event", "ListSessions", "--principal", "dora")
    assert "ListSessions\tallowed\tGET /v1/sessions" in told.stdout


@pytest.mark.sample("kills")
def test_what_was_answered_a_second_ago_survives_a_kill_in_one_chain(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    file = service.data_dir / "state" / "audit.jsonl"
    with Rest(service) as rest:
        ids = {rest.http.get("/v1/sessions").headers["X-Request-Id"] for _ in range(20)}
        time.sleep(1)
        os.kill(service.service_pid, signal.SIGKILL)
    assert ids <= {json.loads(each)["requestID"] for each in file.read_text().splitlines()}
    assert file.stat().st_mode & 0o077 == 0
    service.kill()
    service.start()
    with Rest(service) as rest:
        assert ids <= {each["detail"]["requestID"] for each in records(rest, "event=ListSessions")}
    shell = Shell(service, tmp_path)
    data = ("--data-dir", str(service.data_dir))
    assert "database: whole" in shell("audit", "verify", *data).stdout, "while it runs, after a kill"
    assert "each record compared with the database" in shell("audit", "verify", *data, "--file", str(file)).stdout
    with service.client() as client:
        assert verify_by_rest(client).state == "whole"
        with contextlib.closing(sqlite3.connect(service.data_dir / "state" / "sandcell.db")) as database, database:
            database.execute("UPDATE audit SET principal_id = 'another' WHERE number = 7")
        broken = verify_by_rest(client)
        assert (broken.state, broken.problems[0].number, broken.last) == ("broken", 7, 6)
    assert service.stop() == 0
    found = shell("audit", "verify", *data)
    assert found.returncode == 1
    assert "database: NOT WHOLE\n  record 7, ListSessions of " in found.stdout
    assert "its columns were changed" in found.stdout
    found = shell("audit", "verify", *data, "--file", str(file), "--json")
    assert found.returncode == 1
    [report] = json.loads(found.stdout)
    assert [each["number"] for each in report["report"]["problems"]] == [7]
    assert report["report"]["problems"][0]["text"].endswith("is another in the database: principal_id")


def verify_by_rest(client: Client) -> AuditVerification:
    """What the service itself says of its log, in the end."""
    found = client.verify_audit()
    assert found.state == "running"
    for _ in range(1200):
        if (found := client.get_audit_verification()).state != "running":
            break
        time.sleep(0.1)
    return found


def refused(call: Callable[[], Any]) -> str:
    """The code that boto3 raises."""
    with pytest.raises(ClientError) as error:
        call()
    return str(error.value.response["Error"]["Code"])


@pytest.mark.sample("doors")
def test_every_face_counts_a_principals_invocations_together(make_service: MakeService) -> None:
    service = make_service(access_key_id=KEY, secret_access_key=SECRET, invocations_per_second=0.1)
    client = Account(service.url).client()
    shown = client.start_code_interpreter_session(codeInterpreterIdentifier=SYSTEM)["sessionId"]
    with Rest(service) as rest:
        [session] = rest.get("/v1/sessions")["items"]
        # Twice: the start may have taken so long that there is one more.
        asked = f"/v1/sessions/{session['id']}/executions", {"code": "1", "wait": False}
        answer = [rest.http.post(asked[0], json=asked[1]) for _ in range(2)][-1]
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
        assert refused(lambda: invoke(client, shown)) == "ThrottlingException"
        token = rest.post("/v1/tokens", principal="another")["token"]
        with Rest(service, token) as another, another.session() as theirs:
            assert theirs.id, "a principal of its own has a rate of its own"
    client.stop_code_interpreter_session(codeInterpreterIdentifier=SYSTEM, sessionId=shown)


@pytest.mark.sample("doors")
def test_every_face_counts_a_principals_sessions_together(make_service: MakeService) -> None:
    service = make_service(access_key_id=KEY, secret_access_key=SECRET, sessions_per_principal=1)
    client = Account(service.url).client()
    with Rest(service) as rest, rest.session():
        answer = rest.http.post("/v1/sessions", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "session_limit")
        start = client.start_code_interpreter_session
        assert refused(lambda: start(codeInterpreterIdentifier=SYSTEM)) == "ServiceQuotaExceededException"
        token = rest.post("/v1/tokens", principal="another")["token"]
        with Rest(service, token) as another, another.session() as theirs:
            theirs.works()


def invoke(client: Any, session: str) -> Any:
    return client.invoke_code_interpreter(
        codeInterpreterIdentifier=SYSTEM, sessionId=session, name="executeCode", arguments={"code": "1"}
    )
