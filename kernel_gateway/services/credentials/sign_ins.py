"""People who are signed in to the console, each with a bearer token of theirs, and the links that sign in once.

A browser gets a secret in place of the token, and this remembers the secret's digest and which token it stands for. It
counts for as long as both do. All of it is in memory: a restart signs everybody out.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from kernel_gateway.errors import Unauthorized
from kernel_gateway.identity.principal import Caller, hash_token
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.credentials.authentication import Identity
from sandcell.models.credentials import ConsoleLink

SIGN_IN_SECONDS: Final = 8 * 3600
LINK_SECONDS: Final = 60
MOST_SIGN_INS: Final = 32
"""Of one token, links that nobody has used yet among them; the oldest go. So nobody's push out another's."""


@dataclass(frozen=True)
class SignedIn:
    """Somebody who has just signed in: what their browser keeps, and who they are."""

    secret: str
    caller: Caller


@dataclass(frozen=True)
class _Held:
    """What a secret stands for, until when.

    `link`: it is only good for signing in, once, for no longer than until `most`, when what its maker called with ends.
    """

    credential_id: str
    expires: float
    link: bool
    most: float | None


class SignIns:
    """Signs in and out, and knows who is."""

    def __init__(self, clock: Clock, identity: Identity) -> None:
        self._clock = clock
        self._identity = identity
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def create_link(self, caller: Caller) -> ConsoleLink:
        """A link that signs in as this caller, once and soon; the answer alone carries it."""
        held = self._hold(caller, LINK_SECONDS, link=True)
        return ConsoleLink(f"/#sign-in={held.secret}", rfc3339(held.caller.expires or 0.0))

    async def use_link(self, code: str) -> SignedIn:
        """Sign in by a link, which counts no longer; raises Unauthorized."""
        held = self._find_link(code)
        del self._held[hash_token(code)]
        return self._hold(await self._find_caller(held), SIGN_IN_SECONDS)

    async def look_at_link(self, code: str) -> Caller:
        """Whom a link signs in; raises Unauthorized."""
        return await self._find_caller(self._find_link(code))

    async def use_token(self, token: str) -> SignedIn:
        """Sign in with a bearer token; raises Unauthorized."""
        return self._hold(await self._identity.authenticate(token), SIGN_IN_SECONDS)

    async def authenticate(self, secret: str) -> Caller:
        """Who is signed in with this secret; raises Unauthorized."""
        held = self._held.get(hash_token(secret))
        if held is None or held.link or held.expires <= self._clock.now():
            raise Unauthorized("you are not signed in, or no longer")
        caller = await self._identity.find_token(held.credential_id)
        # No longer than the sign-in lasts: what is still open then ends.
        return replace(caller, expires=min(held.expires, caller.expires or held.expires))

    def sign_out(self, secret: str) -> None:
        """The secret counts no longer."""
        self._held.pop(hash_token(secret), None)

    def _find_link(self, code: str) -> _Held:
        held = self._held.get(hash_token(code))
        if held is None or not held.link or held.expires <= self._clock.now():
            raise Unauthorized("the link was used before or is too old: `sandcell console` makes another")
        return held

    async def _find_caller(self, link: _Held) -> Caller:
        caller = await self._identity.find_token(link.credential_id)
        ends = [each for each in (caller.expires, link.most) if each is not None]
        return replace(caller, expires=min(ends, default=None))

    def _hold(self, caller: Caller, seconds: float, *, link: bool = False) -> SignedIn:
        now, secret = self._clock.now(), secrets.token_urlsafe(32)
        expires = min(now + seconds, caller.expires or now + seconds)
        own = []
        for digest, held in list(self._held.items()):
            if held.expires <= now:
                del self._held[digest]
            elif held.credential_id == caller.credential_id:
                own.append(digest)
        for digest in own[: max(0, len(own) + 1 - MOST_SIGN_INS)]:
            del self._held[digest]
        self._held[hash_token(secret)] = _Held(caller.credential_id, expires, link, caller.expires)
        return SignedIn(secret, replace(caller, expires=expires))
