"""The identity provider that people sign in by, if the settings name one: what it is asked, and what it says of them.

Nothing is kept of an attempt: the browser keeps it, sealed with a key that this process alone has. What the provider
publishes of itself is remembered for minutes; its keys are asked for at each sign-in, so one that it withdrew counts
no longer. `identity.openid` judges what it sends, `identity.roles` what that makes of somebody.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import ssl
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog

from kernel_gateway.errors import Forbidden, NotFound, ProviderUnavailable, Unauthorized
from kernel_gateway.identity import openid
from kernel_gateway.identity.openid import Attempt, Granted, Metadata, NotOpenId, Refusal
from kernel_gateway.identity.principal import PRINCIPAL_NAME
from kernel_gateway.identity.roles import Rights, find_claim, find_rights, parse_roles
from kernel_gateway.identity.sealing import CannotOpen, Sealing
from kernel_gateway.services.clock import Clock
from kernel_gateway.settings import Settings

T = TypeVar("T")
MOST_AT_ONCE: Final = 8
"""Sign-ins that ask the provider at once."""
MOST_ANSWER_BYTES: Final = 1_000_000
_SECONDS: Final = 20.0
"""Time that the provider has, for all that it is asked at one sign-in."""
_REMEMBERED_SECONDS: Final = 300.0
_KEPT_FOR: Final = "console sign-in"
log = structlog.get_logger(__name__)


class Begun(msgspec.Struct, frozen=True):
    """Where the browser goes, and what it keeps until it is back."""

    url: str
    kept: str


class Vouched(msgspec.Struct, frozen=True):
    """Who has signed in at the provider: the principal that they are, and their rights."""

    name: str
    rights: Rights


class OpenIdProvider:
    """`begin` sends a browser there, `finish` takes what it comes back with."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._rules = parse_roles(settings.oidc_roles)
        self._sealing = Sealing(secrets.token_hex(32))
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._remembered: tuple[float, Metadata] | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        """The host of the provider, by which people know it; empty where there is none."""
        return urlsplit(self._settings.oidc_issuer).netloc

    async def begin(self, origin: str) -> Begun:
        """`origin` is the console's, to which the browser comes back; raises NotFound, ProviderUnavailable."""
        self._require_one()
        metadata = await self._within_time(self._find_metadata())
        attempt = openid.make_attempt(f"{origin}/", self._clock.now())
        kept = base64.urlsafe_b64encode(self._sealing.seal(msgspec.json.encode(attempt).decode(), _KEPT_FOR)).decode()
        settings = self._settings
        return Begun(openid.make_address(metadata, settings.oidc_client_id, settings.oidc_scopes, attempt), kept)

    async def finish(self, kept: str, state: str, code: str) -> Vouched:
        """Who it is; raises Unauthorized, Forbidden for somebody without a role, NotFound, ProviderUnavailable."""
        self._require_one()
        attempt = self._open(kept)
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode("utf-8", "replace")):
            raise Unauthorized("this browser did not begin to sign in, or too long ago: try again")
        try:
            claims = await self._within_time(self._ask_for_claims(attempt, code))
        except NotOpenId as error:
            log.warning("sign_in_refused", reason=str(error))
            raise Unauthorized(f"{self.name} did not say who you are: {error}") from None
        return self._judge(claims)

    def _require_one(self) -> None:
        if not self._settings.oidc_issuer:
            raise NotFound("no identity provider is set up here: see the setting oidc_issuer")

    def _open(self, kept: str) -> Attempt | None:
        try:
            opened = self._sealing.open(base64.urlsafe_b64decode(kept), _KEPT_FOR)
        except (CannotOpen, binascii.Error, ValueError):
            return None
        attempt = msgspec.json.decode(opened, type=Attempt)
        return attempt if attempt.expires > self._clock.now() else None

    def _judge(self, claims: Mapping[str, Any]) -> Vouched:
        claim = self._settings.oidc_principal_claim
        name = find_claim(claims, claim)
        if not isinstance(name, str) or not PRINCIPAL_NAME.fullmatch(name):
            raise Forbidden(f"{self.name} gives you no {claim} that could be the name of a principal")
        if claim == "email" and claims.get("email_verified") is not True:
            raise Forbidden(f"{self.name} does not say that your email address is verified")
        rights = find_rights(self._rules, claims)
        if rights is None:
            raise Forbidden(f"{self.name} knows you as {name}, and oidc_roles gives you no role here")
        return Vouched(name, rights)

    async def _within_time(self, asking: Coroutine[Any, Any, T]) -> T:
        """One turn of asking; what keeps the provider from answering is one error, its cause in the log."""
        import httpx  # noqa: PLC0415 - 3 % of a start

        try:
            async with asyncio.timeout(_SECONDS), self._turns:
                return await asking
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            log.warning("provider_unavailable", error=f"{type(error).__name__}: {error}")
            raise ProviderUnavailable(f"{self.name} does not answer; the service's log has the particulars") from error
        finally:
            asking.close()  # also when its turn did not come

    async def _find_metadata(self) -> Metadata:
        now, issuer = self._clock.now(), self._settings.oidc_issuer
        if self._remembered is not None and self._remembered[0] > now:
            return self._remembered[1]
        status, content = await self._ask("GET", issuer.rstrip("/") + openid.DISCOVERY)
        try:
            metadata = openid.read_metadata(_require_success(status, content), issuer)
        except NotOpenId as error:
            raise OSError(str(error)) from None
        self._remembered = now + _REMEMBERED_SECONDS, metadata
        return metadata

    async def _ask_for_claims(self, attempt: Attempt, code: str) -> dict[str, Any]:
        settings, metadata = self._settings, await self._find_metadata()
        client_id = settings.oidc_client_id
        form, headers = openid.make_code_request(metadata, client_id, settings.oidc_client_secret, code, attempt)
        status, content = await self._ask("POST", metadata.token_endpoint, headers, form)
        if 400 <= status < 500:
            raise NotOpenId(f"it refused the code: {_read_refusal(content)}")
        try:
            granted = msgspec.json.decode(_require_success(status, content), type=Granted)
        except msgspec.DecodeError:
            raise NotOpenId("it gave no ID token for the code") from None
        keys = _require_success(*await self._ask("GET", metadata.jwks_uri))
        claims = openid.read_id_token(
            granted.id_token,
            keys,
            issuer=settings.oidc_issuer,
            client_id=client_id,
            nonce=attempt.nonce,
            now=self._clock.now(),
        )
        return {**await self._ask_for_more(metadata, granted, claims), **claims}

    async def _ask_for_more(self, metadata: Metadata, granted: Granted, claims: dict[str, Any]) -> dict[str, Any]:
        """Claims that are not in the ID token, where the settings name any: many providers have them apart."""
        wanted = {self._settings.oidc_principal_claim, *(each.claim for each in self._rules)}
        if self._settings.oidc_principal_claim == "email":
            wanted.add("email_verified")
        if not metadata.userinfo_endpoint or all(find_claim(claims, name) is not None for name in wanted):
            return {}
        bearer = {"Authorization": f"Bearer {granted.access_token}"}
        try:
            content = _require_success(*await self._ask("GET", metadata.userinfo_endpoint, bearer))
            more = msgspec.json.decode(content, type=dict[str, Any])
        except msgspec.DecodeError:
            return {}  # a signed answer, which nobody asked for
        if more.get("sub") != claims["sub"]:
            raise NotOpenId("it tells of somebody else than its ID token names")
        return more

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of an answer; raises OSError for one without end."""
        import httpx  # noqa: PLC0415

        if self._tls is None:
            self._tls = ssl.create_default_context()
        asked = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "sandcell",
            **(headers or {}),
        }
        async with (
            httpx.AsyncClient(verify=self._tls, timeout=_SECONDS, trust_env=False) as client,
            client.stream(method, url, headers=asked, data=form) as answer,
        ):
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > MOST_ANSWER_BYTES:
                    raise OSError(f"an answer has more than {MOST_ANSWER_BYTES:,} bytes")
            return answer.status_code, bytes(content)


def _require_success(status: int, content: bytes) -> bytes:
    if status != 200:
        raise OSError(f"it answered with {status}")
    return content


def _read_refusal(content: bytes) -> str:
    """The word for why, and nothing else that the provider may say."""
    try:
        return ascii(msgspec.json.decode(content, type=Refusal).error[:100])[1:-1] or "it does not say why"
    except msgspec.DecodeError:
        return "it does not say why"
