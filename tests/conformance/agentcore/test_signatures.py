"""Who may ask: signatures in the header and in the query, altered, late, of others, with session tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.conformance.agentcore.accounts import CONTROL, SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import Reply, Request, invocation, send, signed
from tests.running_service import RunningService

LIST = Request(
    "POST", f"/code-interpreters/{SYSTEM}/sessions/list", {"Content-Type": "application/json"}, b'{"maxResults": 1}'
)
INTERPRETERS = "/code-interpreters?type=SYSTEM&maxResults=5"


def refused(reply: Reply, code: str, status: int = 403) -> str:
    assert (reply.code, reply.status) == (code, status), reply
    return str(reply.json["message"])


def test_a_signed_request_is_taken(account: Account) -> None:
    assert send(account, signed(account, LIST)).status == 200


def test_the_region_is_the_callers(account: Account) -> None:
    assert send(account, signed(account, LIST, region="eu-north-1")).status == 200


def test_a_presigned_url_is_taken_until_it_expires(account: Account) -> None:
    get = Request("GET", f"/code-interpreters/{SYSTEM}")
    assert send(account, signed(account, get, presigned_for_seconds=60)).status == 200
    minutes_ago = datetime.now(UTC) - timedelta(minutes=2)
    assert send(account, signed(account, get, presigned_for_seconds=600, moment=minutes_ago)).status == 200
    late = send(account, signed(account, get, presigned_for_seconds=60, moment=minutes_ago))
    assert late.status == 403
    assert "expired" in late.json["message"]


def test_boto3_signs_urls_that_are_taken(account: Account) -> None:
    url = account.client(CONTROL).generate_presigned_url("get_code_interpreter", {"codeInterpreterId": SYSTEM})
    reply = send(account, Request("GET", url.removeprefix(account.url)))
    assert (reply.status, reply.json["codeInterpreterId"]) == (200, SYSTEM)


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda r: replace(r, body=b'{"maxResults": 2}'), id="body"),
        pytest.param(lambda r: replace(r, body=b""), id="no body"),
        pytest.param(lambda r: replace(r, path=r.path.replace(SYSTEM, "of-another-one")), id="path"),
        pytest.param(lambda r: replace(r, path=r.path + "?maxResults=1"), id="query"),
        pytest.param(lambda r: replace(r, headers={**r.headers, "Content-Type": "text/plain"}), id="signed header"),
        pytest.param(lambda r: replace(r, headers={**r.headers, "Host": "elsewhere:1"}), id="host"),
        pytest.param(
            lambda r: replace(r, headers={**r.headers, "Authorization": r.headers["Authorization"][:-1] + "0"}),
            id="signature",
        ),
        pytest.param(
            lambda r: replace(
                r, headers={**r.headers, "Authorization": r.headers["Authorization"].replace("us-west-2", "us-east-1")}
            ),
            id="scope",
        ),
    ],
)
def test_an_altered_request_is_refused(account: Account, alter: Callable[[Request], Request]) -> None:
    request = signed(account, LIST)
    if request.headers["Authorization"].endswith("0"):
        request = signed(account, replace(LIST, body=b'{"maxResults": 3}'))
    refused(send(account, alter(request)), "InvalidSignatureException")


def test_a_method_is_under_the_signature(account: Account) -> None:
    request = signed(account, Request("GET", "/code-interpreters/none-AAAAAAAAAA"))
    refused(send(account, replace(request, method="DELETE")), "InvalidSignatureException")


@pytest.mark.parametrize("minutes", [-20, -6, 6, 20])
def test_a_clock_that_is_wrong_by_more_than_five_minutes_is_refused(account: Account, minutes: int) -> None:
    moment = datetime.now(UTC) + timedelta(minutes=minutes)
    refused(send(account, signed(account, LIST, moment=moment)), "InvalidSignatureException")


@pytest.mark.parametrize("minutes", [-4, 4])
def test_a_clock_that_is_wrong_by_less_is_taken(account: Account, minutes: int) -> None:
    moment = datetime.now(UTC) + timedelta(minutes=minutes)
    assert send(account, signed(account, LIST, moment=moment)).status == 200


def test_a_replayed_invocation_runs_nothing_twice(account: Account, session: Session) -> None:
    """The same bytes again within the five minutes: what an SDK sends carries its id, and joins the first."""
    code = "replayed = globals().get('replayed', 0) + 1\nprint(replayed)"
    body = {"name": "executeCode", "arguments": {"code": code, "language": "python"}}
    request = signed(account, invocation(session.id, body, **{"amz-sdk-invocation-id": "one-and-the-same"}))
    first, again = send(account, request), send(account, request)
    assert (first.status, again.status) == (200, 200)
    assert first.body.endswith(again.body[-100:])
    assert session.code("print(replayed)") == "1"


def test_a_late_replay_is_refused(account: Account, session: Session) -> None:
    body = {"name": "executeCode", "arguments": {"code": "late = 1", "language": "python"}}
    request = signed(account, invocation(session.id, body), moment=datetime.now(UTC) - timedelta(minutes=6))
    refused(send(account, request), "InvalidSignatureException")
    assert session.code("print('late' in globals())") == "False"


def test_a_body_may_take_its_time_when_the_request_came_in_time(
    account: Account, agentcore_service: RunningService
) -> None:
    direct = replace(account, url=agentcore_service.url)
    request = signed(direct, LIST, moment=datetime.now(UTC) - timedelta(minutes=5, seconds=-4))
    assert send(direct, request, pause_seconds=6).status == 200
    refused(send(direct, request), "InvalidSignatureException")


@pytest.mark.parametrize("presigned_for_seconds", [None, 60])
def test_session_tokens_are_refused_and_the_reason_is_said(account: Account, presigned_for_seconds: int | None) -> None:
    get = Request("GET", f"/code-interpreters/{SYSTEM}")
    request = signed(account, get, session_token="a/token==", presigned_for_seconds=presigned_for_seconds)
    assert "session token" in refused(send(account, request), "UnrecognizedClientException")


def test_an_unknown_key_is_refused(account: Account) -> None:
    stranger = replace(account, key="SCAKAAAAAAAAAAAAAAAA")
    refused(send(account, signed(stranger, LIST)), "UnrecognizedClientException")


def test_a_wrong_secret_is_refused(account: Account) -> None:
    with pytest.raises(ClientError) as raised:
        replace(account, secret="guessed").client(CONTROL).list_code_interpreters()
    assert raised.value.response["Error"]["Code"] == "InvalidSignatureException"


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({}, "MissingAuthenticationTokenException", 403),
        ({"Authorization": "Bearer token-of-the-rest-face"}, "MissingAuthenticationTokenException", 403),
        ({"Authorization": "AWS4-HMAC-SHA256 Credential=x"}, "IncompleteSignatureException", 400),
        ({"Authorization": "AWS4-ECDSA-P256-SHA256 Credential=x/y"}, "IncompleteSignatureException", 400),
    ],
)
def test_requests_without_a_signature_are_refused(
    account: Account, headers: dict[str, str], code: str, status: int
) -> None:
    refused(send(account, replace(LIST, headers={**LIST.headers, **headers})), code, status)


def test_a_signature_for_another_service_is_refused(account: Account) -> None:
    refused(send(account, signed(account, LIST, service="s3")), "InvalidSignatureException")


@pytest.mark.parametrize(
    ("value", "status"), [("UNSIGNED-PAYLOAD", 200), ("0" * 64, 403), ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", 403)]
)
def test_a_hash_that_is_sent_must_be_the_bodys(account: Account, value: str, status: int) -> None:
    request = replace(LIST, headers={**LIST.headers, "X-Amz-Content-SHA256": value})
    reply = send(account, signed(account, request))
    assert reply.status == status, reply


def test_another_principals_sessions_are_not_found(
    account: Account, make_account: Callable[[str], Account], session: Session
) -> None:
    other = make_account("somebody-else")
    stranger = Session(other.client(), session.id)
    for attempt in (stranger.show, stranger.stop, lambda: stranger.call("listFiles")):
        with pytest.raises(other_errors(stranger)) as raised:
            attempt()
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    items = stranger.client.list_code_interpreter_sessions(codeInterpreterIdentifier=SYSTEM)["items"]
    assert session.id not in json.dumps(items, default=str)
    assert session.show()["status"] == "READY"


def other_errors(stranger: Session) -> Any:
    return stranger.client.exceptions.ResourceNotFoundException


def test_a_revoked_key_is_refused(agentcore_service: Any, account: Account) -> None:
    rest = httpx.Client(
        base_url=agentcore_service.url, headers={"Authorization": f"Bearer {agentcore_service.token}"}, trust_env=False
    )
    with rest:
        made = rest.post("/v1/keys", json={"principal": "leaving", "name": "short-lived"}).json()
        leaving = replace(account, key=made["id"], secret=made["secret_access_key"])
        assert send(account, signed(leaving, LIST)).status == 200
        assert rest.delete(f"/v1/keys/{leaving.key}").is_success
    refused(send(account, signed(leaving, LIST)), "UnrecognizedClientException")
