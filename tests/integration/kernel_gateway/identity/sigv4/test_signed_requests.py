"""Signed requests over the wire, against a real service: who they count as, and every way not to count."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from unittest import mock
from urllib.parse import urlsplit

import boto3
import httpx
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from sandcell.models.credentials import AccessKeyInfo
from tests.running_service import RunningService

LIST = "/code-interpreters/aws.codeinterpreter.v1/sessions/list"
GET = "/code-interpreters/aws.codeinterpreter.v1/sessions/get"
GIVEN = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "SECRETEXAMPLE"}


@pytest.fixture(scope="module")
def key(service: RunningService) -> AccessKeyInfo:
    """An access key of a principal of this module's own."""
    with service.client() as client:
        return client.create_key(f"signer-{uuid.uuid4()}")


@pytest.fixture
def http(service: RunningService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as client:
        yield client


def credentials(key: AccessKeyInfo, token: str | None = None) -> Credentials:
    return Credentials(key.id, key.secret_access_key, token)


def signed(
    service: RunningService,
    key: AccessKeyInfo,
    path: str = LIST,
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    at: datetime | None = None,
    method: str = "POST",
) -> AWSRequest:
    """A request as botocore signs it, at this time or at another."""
    request = AWSRequest(method=method, url=service.url + path, data=body)
    request.headers["Host"] = urlsplit(service.url).netloc
    if body:
        request.headers["Content-Type"] = "application/json"
    for name, value in (headers or {}).items():
        request.headers[name] = value
    moment = (at or datetime.now(UTC)).replace(tzinfo=None)
    with mock.patch("botocore.auth.get_current_datetime", return_value=moment):
        SigV4Auth(credentials(key), "bedrock-agentcore", "eu-central-1").add_auth(request)
    return request


def send(http: httpx.Client, request: AWSRequest, *, body: bytes = b"{}", **changed: str) -> httpx.Response:
    headers = {**dict(request.headers.items()), **{name.replace("_", "-"): value for name, value in changed.items()}}
    return http.request(request.method, request.url, content=body, headers=headers)


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, whose shape is checked."""
    assert answer.json()["message"]
    assert answer.headers["x-amzn-RequestId"]
    return answer.status_code, answer.headers["x-amzn-ErrorType"]


def client(service: RunningService, key: AccessKeyInfo, token: str | None = None, prefix: str = "") -> boto3.Session:
    session = boto3.Session(key.id, key.secret_access_key, token, region_name="us-west-2")
    return session.client(
        "bedrock-agentcore", endpoint_url=service.url + prefix, config=Config(retries={"total_max_attempts": 1})
    )


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response
    return error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Code"]


def test_a_signed_request_counts_and_any_change_to_it_does_not(
    service: RunningService, key: AccessKeyInfo, http: httpx.Client
) -> None:
    request = signed(service, key)
    assert send(http, request).json() == {"items": []}
    assert send(http, request).status_code == 200, "the same request again: clients send it twice within a second"
    for answer in (
        send(http, request, body=b"{ }"),
        send(http, request, body=b""),
        send(http, request, Content_Type="application/json; charset=utf-8"),
        send(http, request, Host="127.0.0.1:1"),
        send(http, request, X_Amz_Date=(datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y%m%dT%H%M%SZ")),
        http.post(request.url + "?a=b", content=b"{}", headers=dict(request.headers.items())),
    ):
        assert problem(answer) == (403, "InvalidSignatureException")


@pytest.mark.parametrize("minutes", [-6, 6, -60 * 24, 60 * 24 * 365])
def test_another_time(service: RunningService, key: AccessKeyInfo, http: httpx.Client, minutes: int) -> None:
    request = signed(service, key, at=datetime.now(UTC) + timedelta(minutes=minutes))
    assert problem(send(http, request)) == (403, "InvalidSignatureException")


def test_nobody_and_anybody_with_another_proof(service: RunningService, key: AccessKeyInfo, http: httpx.Client) -> None:
    assert problem(http.post(LIST, json={})) == (403, "MissingAuthenticationTokenException")
    bearer = {"Authorization": f"Bearer {service.token}"}
    assert problem(http.post(LIST, json={}, headers=bearer)) == (403, "MissingAuthenticationTokenException")
    stranger = AccessKeyInfo("SCAKAAAAAAAAAAAAAAAA", "", "", "", secret_access_key=key.secret_access_key)
    assert problem(send(http, signed(service, stranger))) == (403, "UnrecognizedClientException")
    forger = AccessKeyInfo(key.id, "", "", "", secret_access_key="another secret altogether, of 40 letters")
    assert problem(send(http, signed(service, forger))) == (403, "InvalidSignatureException")
    answer = http.get("/v1/sessions", headers={"Authorization": signed(service, key).headers["Authorization"]})
    assert problem(answer) == (404, "UnknownOperationException"), "REST takes tokens, and no signatures"


def test_boto3_with_a_token_a_wrong_secret_and_a_path_prefix(service: RunningService, key: AccessKeyInfo) -> None:
    name = {"codeInterpreterIdentifier": "aws.codeinterpreter.v1"}
    found = client(service, key).list_code_interpreter_sessions(**name)
    assert found["items"] == []
    assert client(service, key, prefix="/a/prefix").list_code_interpreter_sessions(**name)["items"] == []
    with_token = client(service, key, "a session token")
    assert refused(lambda: with_token.list_code_interpreter_sessions(**name)) == (403, "UnrecognizedClientException")
    forger = client(service, AccessKeyInfo(key.id, "", "", "", secret_access_key="no such secret"))
    assert refused(lambda: forger.list_code_interpreter_sessions(**name)) == (403, "InvalidSignatureException")


def test_a_header_of_ours_counts_only_when_it_is_signed(service: RunningService, key: AccessKeyInfo) -> None:
    name = {"codeInterpreterIdentifier": "aws.codeinterpreter.v1"}
    ours = {"x-sandcell-idle-timeout-seconds": "60"}
    before, after = client(service, key), client(service, key)
    before.meta.events.register("before-call", lambda params, **_: params["headers"].update(ours))
    assert before.list_code_interpreter_sessions(**name)["items"] == []
    after.meta.events.register("before-send", lambda request, **_: request.headers.update(ours))
    assert refused(lambda: after.list_code_interpreter_sessions(**name)) == (400, "IncompleteSignatureException")


def test_a_presigned_address(service: RunningService, key: AccessKeyInfo, http: httpx.Client) -> None:
    def presigned(expires: int, at: datetime | None = None) -> str:
        request = AWSRequest(method="GET", url=f"{service.url}{GET}?sessionId=01K1PPWYE373Z99SS2A8ABW0TX")
        request.headers["Host"] = urlsplit(service.url).netloc
        moment = (at or datetime.now(UTC)).replace(tzinfo=None)
        with mock.patch("botocore.auth.get_current_datetime", return_value=moment):
            SigV4QueryAuth(credentials(key), "bedrock-agentcore", "us-east-1", expires=expires).add_auth(request)
        return request.url

    assert problem(http.get(presigned(60))) == (404, "ResourceNotFoundException")
    made = client(service, key).generate_presigned_url(
        "get_code_interpreter_session",
        Params={"codeInterpreterIdentifier": "aws.codeinterpreter.v1", "sessionId": "01K1PPWYE373Z99SS2A8ABW0TX"},
    )
    assert problem(http.get(made)) == (404, "ResourceNotFoundException")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert problem(http.get(presigned(7_200, an_hour_ago))) == (404, "ResourceNotFoundException")
    for address in (
        presigned(60, an_hour_ago),
        presigned(60).replace("01K1", "01K2"),
        presigned(60).replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        presigned(60) + "&sessionId=another",
    ):
        assert problem(http.get(address)) == (403, "InvalidSignatureException")
    assert problem(http.get(presigned(8 * 86_400))) == (400, "IncompleteSignatureException")


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("Authorization: Bearer x", "IncompleteSignatureException"),
        ("authorization: {authorization}", "IncompleteSignatureException"),
        ("Host: elsewhere", ""),
        ("X-Amz-Date: {date}", "IncompleteSignatureException"),
        ("x-amzn-code-interpreter-session-id: abc", "IncompleteSignatureException"),
        ("X-Amz-Content-Sha256: UNSIGNED-PAYLOAD", "IncompleteSignatureException"),
        ("X-Amz-Security-Token: t", "UnrecognizedClientException"),
        ("X-Amz-Security-Token:", "UnrecognizedClientException"),
    ],
)
def test_a_header_that_somebody_adds(service: RunningService, key: AccessKeyInfo, extra: str, code: str) -> None:
    request = signed(service, key)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items() if name != "Content-Length")
    added = extra.format(authorization=request.headers["Authorization"], date=request.headers["X-Amz-Date"])
    text = f"POST {LIST} HTTP/1.1\r\n{head}{added}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    answer = spoken(service, text.encode())
    assert answer.split()[1] in {b"400", b"403"}
    if code:
        assert f"x-amzn-errortype: {code}".lower().encode() in answer.lower()


def test_very_large_headers_and_garbage_end_in_a_refusal(service: RunningService, key: AccessKeyInfo) -> None:
    request = signed(service, key)
    authorization = request.headers["Authorization"]
    for value in (
        authorization + "x" * 40_000,
        authorization.replace("SignedHeaders=", "SignedHeaders=" + "x-a;" * 1_500),
        "AWS4-HMAC-SHA256 \xff\xfe\xfd",
        "AWS4-HMAC-SHA256 " + "Credential=," * 500,
    ):
        head = f"POST {LIST} HTTP/1.1\r\nHost: x\r\nAuthorization: {value}\r\n"
        text = f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n"
        answer = spoken(service, text.encode("latin-1"))
        assert answer.split()[1] == b"400"
        assert b"IncompleteSignatureException" in answer


def spoken(service: RunningService, text: bytes) -> bytes:
    """What the service answers to these bytes."""
    parts = urlsplit(service.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=120) as connection:
        connection.sendall(text)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def test_a_revoked_key_counts_no_longer(service: RunningService, http: httpx.Client) -> None:
    with service.client() as administrator:
        key = administrator.create_key(f"revoked-{uuid.uuid4()}")
        assert send(http, signed(service, key)).status_code == 200
        administrator.revoke_key(key.id)
    assert problem(send(http, signed(service, key))) == (403, "UnrecognizedClientException")


def test_curl_signs_the_same_way(service: RunningService, key: AccessKeyInfo) -> None:
    curl = shutil.which("curl")
    assert curl, "curl 7.75 or newer is needed"
    done = subprocess.run(
        [
            *(curl, "--silent", "--noproxy", "*", "--aws-sigv4", "aws:amz:us-east-1:bedrock-agentcore"),
            *("--user", f"{key.id}:{key.secret_access_key}", "--header", "Content-Type: application/json"),
            *("--data", '{"maxResults": 5}', service.url + LIST),
        ],
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout) == {"items": []}


def test_the_key_of_the_settings(make_service: Callable[..., RunningService]) -> None:
    service = make_service(**GIVEN)
    given = AccessKeyInfo(GIVEN["access_key_id"], "", "", "", secret_access_key=GIVEN["secret_access_key"])
    name = {"codeInterpreterIdentifier": "aws.codeinterpreter.v1"}
    assert client(service, given).list_code_interpreter_sessions(**name)["items"] == []
    assert GIVEN["secret_access_key"] not in "".join(service.output)
    with service.client() as administrator:
        (listed,) = administrator.list_keys().items
        assert (listed.id, listed.principal) == (given.id, "admin")
        administrator.revoke_key(given.id)
    assert service.stop() == 0
    with pytest.raises(AssertionError, match="access key was revoked"):
        service.start()
    service.start(access_key_id="", secret_access_key="")
    assert refused(lambda: client(service, given).list_code_interpreter_sessions(**name))[0] == 403
