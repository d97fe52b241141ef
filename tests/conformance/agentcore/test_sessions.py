"""Sessions of the data plane: what start, get, list and stop take and refuse, and how sessions end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance.agentcore.accounts import SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import ask, invocation, send, signed

Start = Callable[..., Session]
CERTIFICATE = {
    "location": {"secretsManager": {"secretArn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:a-1"}}
}
FILE_SYSTEM = {
    "efsConfiguration": {
        "accessPointArn": "arn:aws:elasticfilesystem:eu-west-1:123456789012:access-point/fsap-0123456789abcdef0",
        "mountPath": "/mnt/data",
        "fileSystemArn": "arn:aws:elasticfilesystem:eu-west-1:123456789012:file-system/fs-0123456789abcdef0",
    }
}


def refusal(attempt: Callable[[], Any], code: str) -> dict[str, Any]:
    """The response of an attempt that is refused with this code."""
    with pytest.raises(ClientError) as raised:
        attempt()
    assert raised.value.response["Error"]["Code"] == code, raised.value.response
    return dict(raised.value.response)


def until(holds: Callable[[], bool], deadline_seconds: float = 120) -> None:
    give_up = time.monotonic() + deadline_seconds
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_a_session_lives_for_900_seconds_unless_asked_otherwise(data: Any, start: Start) -> None:
    session = start(data)
    assert session.show()["sessionTimeoutSeconds"] == 900
    session.stop()


def test_the_time_to_live_is_hard_and_counts_from_the_start(data: Any, start: Start) -> None:
    session = start(data, sessionTimeoutSeconds=3)
    until(lambda: session.show()["status"] == "TERMINATED")
    refusal(lambda: session.call("listFiles"), "ResourceNotFoundException")


def test_an_idle_timeout_is_there_for_who_asks(account: Account) -> None:
    path = f"/code-interpreters/{SYSTEM}/sessions/start"
    reply = ask(account, "PUT", path, {"name": "idle"}, x_sandcell_idle_timeout_seconds="1")
    assert reply.status == 200
    session = Session(account.client(), reply.json["sessionId"])
    until(lambda: session.show()["status"] == "TERMINATED")
    refused = ask(account, "PUT", path, {"name": "idle"}, x_sandcell_idle_timeout_seconds="soon")
    assert (refused.status, refused.code) == (400, "ValidationException")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", "n" * 101),
        ("name", ""),
        ("name", 5),
        ("sessionTimeoutSeconds", 0),
        ("sessionTimeoutSeconds", 28_801),
        ("sessionTimeoutSeconds", -1),
        ("sessionTimeoutSeconds", 1.5),
        ("sessionTimeoutSeconds", "900"),
        ("sessionTimeoutSeconds", True),
        ("clientToken", "short"),
        ("clientToken", "_" * 40),
        ("clientToken", "a" * 257),
        ("certificates", []),
        ("certificates", [CERTIFICATE]),
        ("certificates", [{"location": {}}]),
        ("filesystemConfigurations", [FILE_SYSTEM]),
        ("filesystemConfigurations", [{}]),
        ("filesystemConfigurations", [FILE_SYSTEM] * 11),
    ],
)
def test_a_member_that_start_cannot_take_is_named(account: Account, member: str, value: object) -> None:
    reply = ask(account, "PUT", f"/code-interpreters/{SYSTEM}/sessions/start", {member: value})
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
    assert reply.json["reason"] == "FieldValidationFailed"
    assert reply.json["fieldList"][0]["name"].startswith(member), reply.json


@pytest.mark.parametrize("name", ["n" * 100, "a b_c-d.e/f 日本語"])
def test_any_name_up_to_100_characters_is_kept(data: Any, start: Start, name: str) -> None:
    session = start(data, name=name)
    assert session.show()["name"] == name
    session.stop()


def test_nulls_and_members_that_nobody_knows_are_passed_over(account: Account) -> None:
    body = {"name": None, "sessionTimeoutSeconds": None, "newMember": {"a": 1}}
    reply = ask(account, "PUT", f"/code-interpreters/{SYSTEM}/sessions/start", body)
    assert reply.status == 200
    Session(account.client(), reply.json["sessionId"]).stop()


def test_a_client_token_gives_the_same_session_and_minds_other_parameters(data: Any, start: Start) -> None:
    token = str(uuid.uuid4())
    first = start(data, name="once", clientToken=token)
    assert start(data, name="once", clientToken=token).id == first.id
    response = refusal(lambda: start(data, name="twice", clientToken=token), "ValidationException")
    assert response["reason"] == "IdempotentParameterMismatchException"
    first.stop()


def test_a_client_token_is_its_principals_own(data: Any, start: Start, make_account: Callable[[str], Account]) -> None:
    token = str(uuid.uuid4())
    mine, theirs = start(data, clientToken=token), start(make_account("tokens").client(), clientToken=token)
    assert mine.id != theirs.id
    mine.stop()
    theirs.stop()


@pytest.mark.parametrize(
    "identifier",
    [
        "none-AAAAAAAAAA",
        "aws.codeinterpreter.v2",
        "../../v1/sessions",
        "arn:aws:bedrock-agentcore:us-west-2:999999999999:code-interpreter-custom/none-AAAAAAAAAA",
        "arn:aws:s3:::bucket",
        "x" * 3000,
        "é ü",
    ],
)
def test_a_code_interpreter_that_is_not_there_is_not_found(data: Any, start: Start, identifier: str) -> None:
    response = refusal(lambda: start(data, identifier), "ResourceNotFoundException")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 404
    listing = {"codeInterpreterIdentifier": identifier}
    refusal(lambda: data.list_code_interpreter_sessions(**listing), "ResourceNotFoundException")


def test_the_arn_of_the_system_interpreter_will_do_and_is_echoed(data: Any, start: Start) -> None:
    arn = "arn:aws:bedrock-agentcore:us-west-2:aws:code-interpreter/aws.codeinterpreter.v1"
    session = start(data, arn)
    assert session.show()["codeInterpreterIdentifier"] == arn
    assert session.code("print(1)") == "1"
    assert replace(session, identifier=SYSTEM).show()["status"] == "READY"
    assert session.stop()["codeInterpreterIdentifier"] == arn


@pytest.mark.parametrize("session_id", ["01K1PPWYE373Z99SS2A8ABW0TX", "f" * 32, "F" * 40])
def test_a_session_that_never_was_is_not_found(data: Any, session_id: str) -> None:
    never = Session(data, session_id)
    for attempt in (never.show, never.stop, lambda: never.call("listFiles")):
        refusal(attempt, "ResourceNotFoundException")


@pytest.mark.parametrize("session_id", ["bad-id", "a" * 41, "é", "a/b", " "])
def test_a_session_id_in_another_form_is_invalid(data: Any, session_id: str) -> None:
    bad = Session(data, session_id)
    for attempt in (bad.show, bad.stop):
        assert refusal(attempt, "ValidationException")["reason"] == "FieldValidationFailed"


def test_an_invocation_names_its_session(account: Account) -> None:
    request = invocation("x", {"name": "listFiles"})
    del request.headers["x-amzn-code-interpreter-session-id"]
    reply = send(account, signed(account, request))
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
    malformed = send(account, signed(account, invocation("bad-id", {"name": "listFiles"})))
    assert (malformed.status, malformed.code) == (400, "ValidationException"), malformed


def test_a_session_belongs_to_its_code_interpreter(data: Any, start: Start, interpreter: str) -> None:
    session = start(data)
    elsewhere = replace(session, identifier=interpreter)
    for attempt in (elsewhere.show, elsewhere.stop, lambda: elsewhere.call("listFiles")):
        refusal(attempt, "ResourceNotFoundException")
    session.stop()


def test_a_session_is_stopped_twice_and_takes_nothing_after_it(data: Any, start: Start) -> None:
    session = start(data)
    stopped = session.stop()
    again = session.stop()
    assert (again["sessionId"], again["lastUpdatedAt"]) == (session.id, stopped["lastUpdatedAt"])
    refusal(lambda: session.call("executeCode", code="1"), "ResourceNotFoundException")
    assert session.show()["status"] == "TERMINATED"


def listed(data: Any, identifier: str = SYSTEM, **members: Any) -> list[str]:
    found: list[str] = []
    while True:
        page = data.list_code_interpreter_sessions(codeInterpreterIdentifier=identifier, **members)
        found += [item["sessionId"] for item in page["items"]]
        if "nextToken" not in page:
            return found
        members["nextToken"] = page["nextToken"]


def test_sessions_are_listed_by_page_status_and_interpreter(
    start: Start, make_account: Callable[[str], Account]
) -> None:
    data = make_account("lister").client()
    sessions = [start(data, name=f"listed {number}") for number in range(3)]
    sessions[0].stop()
    ids = {session.id for session in sessions}
    assert set(listed(data, maxResults=1)) == ids
    assert set(listed(data, maxResults=2)) == ids
    assert set(listed(data, status="READY")) == {sessions[1].id, sessions[2].id}
    assert listed(data, status="TERMINATED") == [sessions[0].id]
    for session in sessions[1:]:
        session.stop()


@pytest.mark.parametrize(
    "body",
    [
        {"maxResults": 0},
        {"maxResults": 101},
        {"maxResults": "5"},
        {"status": "ACTIVE"},
        {"nextToken": ""},
        {"nextToken": "of nobody"},
        {"nextToken": "nobodys"},
        {"nextToken": "a" * 2049},
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(account: Account, body: dict[str, Any]) -> None:
    reply = ask(account, "POST", f"/code-interpreters/{SYSTEM}/sessions/list", body)
    assert (reply.status, reply.code) == (400, "ValidationException"), reply
    assert reply.json["fieldList"][0]["name"] == next(iter(body)), reply.json
