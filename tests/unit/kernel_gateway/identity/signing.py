"""Requests signed by botocore's own signers, as they arrive: an oracle that shares no code with ours."""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote, urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kernel_gateway.identity.sigv4 import SERVICE, SignedRequest

KEY, SECRET = "AKIDEXAMPLE", "SECRETEXAMPLE"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOST = "127.0.0.1:8080"
TEXT = "aZ09-._~ /:=&+%?#é中\U0001f600!'()*,;@$[]\"<>\\^`{|}"


@dataclass(frozen=True)
class Made:
    """What was asked to be signed. `path` is percent-encoded already, `query` is not."""

    method: str = "POST"
    path: str = "/code-interpreters/aws.codeinterpreter.v1/tools/invoke"
    query: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    region: str = "us-west-2"

    @property
    def body_hash(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


def signed(made: Made, *, expires: int | None = None, at: datetime = NOW, token: str | None = None) -> SignedRequest:
    """The request as botocore signs it, in its headers, or in its query when it expires."""
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in made.query)
    url = f"http://{HOST}{made.path}{'?' + query if query else ''}"
    request = AWSRequest(method=made.method, url=url, data=made.body if expires is None else b"")
    request.headers["Host"] = HOST
    for name, value in made.headers:
        request.headers.add_header(name, value)
    credentials = Credentials(KEY, SECRET, token)
    signer = (
        SigV4Auth(credentials, SERVICE, made.region)
        if expires is None
        else SigV4QueryAuth(credentials, SERVICE, made.region, expires=expires)
    )
    with mock.patch("botocore.auth.get_current_datetime", return_value=at.replace(tzinfo=None)):
        signer.add_auth(request)
    parts = urlsplit(request.url)
    return SignedRequest(made.method, parts.path, parts.query, tuple(request.headers.items()))


def some_requests(seed: int, count: int) -> list[Made]:
    """Varied requests, the same ones for the same seed."""
    rng = random.Random(seed)
    return [_one(rng) for _ in range(count)]


def _one(rng: random.Random) -> Made:
    return Made(
        method=rng.choice(["GET", "PUT", "POST", "DELETE"]),
        path=_path(rng),
        query=[(_text(rng) or "k", _text(rng)) for _ in range(rng.randrange(5))],
        headers=_headers(rng),
        body=rng.randbytes(rng.randrange(200)),
        region=rng.choice(["us-east-1", "eu-central-1", "local"]),
    )


def _path(rng: random.Random) -> str:
    segments = [quote(_text(rng), safe="") for _ in range(rng.randrange(1, 6))]
    for extra in ("", ".", "..", "~", "%3A%2F"):
        if rng.random() < 0.15:
            segments.insert(rng.randrange(len(segments) + 1), extra)
    return "/" + "/".join(segments) + rng.choice(["", "/"])


def _text(rng: random.Random) -> str:
    return "".join(rng.choice(TEXT) for _ in range(rng.randrange(12)))


def _headers(rng: random.Random) -> list[tuple[str, str]]:
    found = [("Content-Type", "application/json")] if rng.random() < 0.5 else []
    if rng.random() < 0.5:
        found.append(("X-Amzn-Code-Interpreter-Session-Id", "".join(rng.choices(string.ascii_letters, k=26))))
    for number in range(rng.randrange(4)):
        value = f"  {_word(rng)}   {_word(rng)} \t {_word(rng)} "
        found += [(f"X-Note-{number}", value)] * rng.choice([1, 1, 2])
    return found


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + string.digits + ",;=\"'", k=rng.randrange(1, 9)))
