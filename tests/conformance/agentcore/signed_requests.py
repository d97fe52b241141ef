"""Requests signed by botocore's signer and sent as they are: for what no client would send.

A request can be signed for another time, and changed after it was signed; the connection carries exactly the bytes
asked for.
"""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.conformance.agentcore.accounts import DATA, REGION, Account

SESSION_HEADER = "x-amzn-code-interpreter-session-id"


@dataclass
class Request:
    """What is sent: `path` is the path and query as they stand in the request line."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return self.headers.get("x-amzn-errortype", "")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AtATime:
    """Signs for a moment of its own, where botocore signs for now."""

    moment: datetime

    def add_auth(self, request: AWSRequest) -> None:
        signer: Any = self
        request.context["timestamp"] = self.moment.strftime(SIGV4_TIMESTAMP)
        signer._modify_request_before_signing(request)
        canonical = signer.canonical_request(request)
        signature = signer.signature(signer.string_to_sign(request, canonical), request)
        signer._inject_signature_to_request(request, signature)


class HeaderSigner(AtATime, SigV4Auth):
    """Signature in the Authorization header."""


class QuerySigner(AtATime, SigV4QueryAuth):
    """Signature in the query: a presigned URL."""


def signed(
    account: Account,
    request: Request,
    *,
    moment: datetime | None = None,
    region: str = REGION,
    service: str = DATA,
    session_token: str | None = None,
    presigned_for_seconds: int | None = None,
) -> Request:
    """The request with a signature of the account's key."""
    credentials = Credentials(account.key, account.secret, session_token)
    signer: HeaderSigner | QuerySigner
    if presigned_for_seconds is None:
        signer = HeaderSigner(credentials, service, region)
    else:
        signer = QuerySigner(credentials, service, region, expires=presigned_for_seconds)
    signer.moment = moment or datetime.now(UTC)
    made = AWSRequest(request.method, account.url + request.path, dict(request.headers), request.body)
    signer.add_auth(made)
    address = urlsplit(made.prepare().url)
    path = address.path + (f"?{address.query}" if address.query else "")
    return Request(request.method, path, {"Host": address.netloc, **dict(made.headers.items())}, request.body)


def send(account: Account, request: Request, *, timeout_seconds: float = 60, pause_seconds: float = 0) -> Reply:
    """Send exactly this, the body so long after the headers, and read the whole answer."""
    connection = http.client.HTTPConnection(urlsplit(account.url).netloc, timeout=timeout_seconds)
    try:
        connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        headers = {"Host": urlsplit(account.url).netloc, **request.headers}
        if request.body or request.method in ("POST", "PUT"):
            headers.setdefault("Content-Length", str(len(request.body)))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        time.sleep(pause_seconds)
        connection.send(request.body)
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def ask(account: Account, method: str, path: str, body: Any = b"", **headers: str) -> Reply:
    """Sign and send; a body that is not bytes goes as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if content:
        named.setdefault("Content-Type", "application/json")
    return send(account, signed(account, Request(method, path, named, content)))


def invocation(session_id: str, body: Any, identifier: str = "aws.codeinterpreter.v1", **headers: str) -> Request:
    """An InvokeCodeInterpreter, unsigned."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    always = {"Content-Type": "application/json", SESSION_HEADER: session_id}
    return Request("POST", f"/code-interpreters/{identifier}/tools/invoke", {**always, **headers}, content)
