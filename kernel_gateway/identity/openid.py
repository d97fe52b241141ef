"""OpenID Connect as its relying party speaks it: the authorization code flow with PKCE (S256). Pure.

What a provider publishes is read here, the address that a browser is sent to is made, and what comes back is judged:
an ID token counts when a key of the provider's signed it for this client, in answer to this attempt, and not too long
ago (OpenID Connect Core, 3.1.3.7). Signatures and times are joserfc's to judge.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

ATTEMPT_SECONDS: Final = 600.0
"""Time that somebody has to sign in at the provider."""
DISCOVERY: Final = "/.well-known/openid-configuration"
LEEWAY_SECONDS: Final = 60
"""By which the provider's clock may differ from ours."""
# No HMAC, whose key is the client's own secret, and not `none`.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")


class NotOpenId(ValueError):
    """What the provider sent is not what OpenID Connect says, or does not count."""


class Metadata(msgspec.Struct):
    """What a provider publishes of itself, as far as it is needed."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: list[str] = msgspec.field(default_factory=lambda: ["client_secret_basic"])


class Granted(msgspec.Struct):
    """What a provider gives for a code, as far as it is needed."""

    id_token: str
    access_token: str = ""


class Refusal(msgspec.Struct):
    """Why a provider gives nothing."""

    error: str = ""


class Attempt(msgspec.Struct):
    """One attempt to sign in: what the browser keeps, sealed, until it comes back."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    expires: float


def make_attempt(redirect_uri: str, now: float) -> Attempt:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Attempt(state, nonce, verifier, redirect_uri, now + ATTEMPT_SECONDS)


def is_safe_address(url: str) -> bool:
    """Whether a secret may go there: HTTPS, or HTTP that does not leave the machine."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return parts.scheme == "https" and bool(parts.hostname)
    try:
        return parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def read_metadata(content: bytes, issuer: str) -> Metadata:
    """What is published under the issuer's name; raises NotOpenId."""
    try:
        found = msgspec.json.decode(content, type=Metadata)
    except msgspec.DecodeError as error:
        raise NotOpenId(f"what it publishes cannot be read: {error}") from None
    if found.issuer != issuer:
        raise NotOpenId(f"it calls itself {found.issuer[:200]!r}, and oidc_issuer {issuer!r}")
    for url in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri, found.userinfo_endpoint):
        if url and not is_safe_address(url):
            raise NotOpenId("an address that it publishes is not HTTPS")
    return found


def make_address(metadata: Metadata, client_id: str, scopes: str, attempt: Attempt) -> str:
    """Where the browser goes to sign in."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": scopes,
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": _encode(hashlib.sha256(attempt.verifier.encode()).digest()),
        "code_challenge_method": "S256",
    }
    separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
    return f"{metadata.authorization_endpoint}{separator}{urlencode(asked)}"


def make_code_request(
    metadata: Metadata, client_id: str, client_secret: str, code: str, attempt: Attempt
) -> tuple[dict[str, str], dict[str, str]]:
    """The form, and the headers, in which a code is handed in."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
        "client_id": client_id,
    }
    if not client_secret:
        return form, {}
    if "client_secret_basic" not in metadata.token_endpoint_auth_methods_supported:
        return {**form, "client_secret": client_secret}, {}
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"  # RFC 6749, 2.3.1
    return form, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def read_id_token(text: str, keys: bytes, *, issuer: str, client_id: str, nonce: str, now: float) -> dict[str, Any]:
    """The claims of an ID token that counts; raises NotOpenId."""
    from joserfc import jwt  # noqa: PLC0415 - only where people sign in by a provider
    from joserfc.errors import JoseError  # noqa: PLC0415
    from joserfc.jwk import KeySet  # noqa: PLC0415

    wanted = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        sub={"essential": True},
        aud={"essential": True, "value": client_id},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        claims = jwt.decode(text, KeySet.import_key_set(msgspec.json.decode(keys)), algorithms=list(_ALGORITHMS)).claims
        wanted.validate(claims)
    except (JoseError, msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise NotOpenId(f"its ID token does not count: {error}") from None
    if claims["nonce"] != nonce:  # a list in which it is, is not it
        raise NotOpenId("its ID token does not count: it answers another attempt")
    audience, party = claims["aud"], claims.get("azp")
    if (isinstance(audience, list) and len(audience) > 1 and party is None) or party not in (None, client_id):
        raise NotOpenId("its ID token does not count: it was made for another client")
    return claims


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
