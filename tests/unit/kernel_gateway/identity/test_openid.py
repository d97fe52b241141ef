"""What of an identity provider's answers counts: an ID token of this provider's, for this client and this attempt."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from kernel_gateway.identity.openid import (
    LEEWAY_SECONDS,
    Metadata,
    NotOpenId,
    is_safe_address,
    make_address,
    make_attempt,
    make_code_request,
    read_id_token,
    read_metadata,
)

ISSUER, CLIENT, NONCE, NOW = "https://id.example/team", "console", "n-1", 1_000_000.0
CLAIMS = {"iss": ISSUER, "sub": "7", "aud": CLIENT, "exp": NOW + 300, "iat": NOW, "nonce": NONCE}
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://id.example/auth?tenant=1",
    "token_endpoint": "https://id.example/token",
    "jwks_uri": "https://id.example/keys",
}


@cache
def make_key() -> RSAKey:
    """The provider's; made when a test wants it, and not in each process that collects tests."""
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)


def publish() -> bytes:
    return json.dumps({"keys": [{"kty": "new", "kid": "x"}, make_key().as_dict(private=False)]}).encode()


def sign(key: Any = None, algorithm: str = "RS256", **changed: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    key = make_key() if key is None else key
    return jwt.encode({"alg": algorithm, "kid": "one"}, claims, key, algorithms=[algorithm])


def read(token: str, keys: bytes | None = None) -> dict[str, Any]:
    published = publish() if keys is None else keys
    return read_id_token(token, published, issuer=ISSUER, client_id=CLIENT, nonce=NONCE, now=NOW)


def test_a_token_of_the_provider_for_this_attempt_counts() -> None:
    assert read(sign(groups=["a"]))["groups"] == ["a"]
    assert read(sign(aud=[CLIENT]))["sub"] == "7"
    assert read(sign(aud=[CLIENT, "another"], azp=CLIENT))["sub"] == "7"
    assert read(sign(exp=NOW - LEEWAY_SECONDS + 1))["sub"] == "7"
    curve = ECKey.generate_key("P-256", {"kid": "one"}, private=True)
    assert read(sign(curve, "ES256"), json.dumps({"keys": [curve.as_dict(private=False)]}).encode())["sub"] == "7"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://id.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"aud": None},
        {"exp": NOW - LEEWAY_SECONDS},
        {"exp": None},
        {"exp": "later"},
        {"iat": NOW + LEEWAY_SECONDS + 1},
        {"iat": None},
        {"nbf": NOW + LEEWAY_SECONDS + 1},
        {"nonce": "n-2"},
        {"nonce": [NONCE]},
        {"nonce": None},
        {"sub": None},
        {"sub": 7},
    ],
    ids=str,
)
def test_one_for_somebody_else_or_another_time_does_not(changed: dict[str, Any]) -> None:
    with pytest.raises(NotOpenId):
        read(sign(**changed))


def test_nor_one_that_the_provider_did_not_sign() -> None:
    head, body, signature = sign().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    changed = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "sub": "8"}).encode()).rstrip(b"=").decode()
    for token in (
        sign(RSAKey.generate_key(2048, {"kid": "one"}, private=True)),
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{head}.{changed}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        sign(OctKey.import_key("x" * 64, {"kid": "one"}), "HS256"),
        "",
        "x" * 100_000,
        "é.é.é",
    ):
        with pytest.raises(NotOpenId):
            read(token)
    for keys in (b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": [{"kty": "RSA"}]}'):
        with pytest.raises(NotOpenId):
            read(sign(), keys)


def test_the_browser_is_sent_with_a_challenge_and_only_the_code_is_exchanged_with_what_it_is_of() -> None:
    metadata = read_metadata(json.dumps({**METADATA, "more": 1}).encode(), ISSUER)
    attempt = make_attempt("https://console.example/", NOW)
    asked = {
        name: value
        for name, [value] in parse_qs(urlsplit(make_address(metadata, CLIENT, "openid x", attempt)).query).items()
    }
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    assert asked == {
        "tenant": "1",
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": "https://console.example/",
        "scope": "openid x",
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    assert len({attempt.state, attempt.nonce, attempt.verifier}) == 3
    form, headers = make_code_request(metadata, CLIENT, "a b:/", "the code", attempt)
    assert (form["code"], form["code_verifier"], form["redirect_uri"]) == (
        "the code",
        attempt.verifier,
        attempt.redirect_uri,
    )
    assert "client_secret" not in form
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"console:a%20b%3A%2F"
    post = Metadata(**METADATA, token_endpoint_auth_methods_supported=["client_secret_post"])
    assert make_code_request(post, CLIENT, "s", "c", attempt)[0]["client_secret"] == "s"
    assert make_code_request(post, CLIENT, "", "c", attempt)[1] == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": ISSUER + "/"},
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://id.example/token"},
        {"jwks_uri": 1},
    ],
    ids=str,
)
def test_what_another_provider_publishes_is_not_this_ones(changed: dict[str, Any]) -> None:
    with pytest.raises(NotOpenId):
        read_metadata(json.dumps({**METADATA, **changed}).encode(), ISSUER)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://id.example/x", True),
        ("http://127.0.0.1:9/x", True),
        ("http://[::1]/x", True),
        ("http://localhost/x", True),
        ("http://id.example/x", False),
        ("http://127.0.0.1.example/x", False),
        ("https:///x", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_secrets_go_over_https_alone(url: str, safe: bool) -> None:
    assert is_safe_address(url) is safe
