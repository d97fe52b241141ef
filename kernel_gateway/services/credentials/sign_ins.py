"""People who are signed in to the console, by a token of theirs or an identity provider, and links that sign in once.

A browser gets a secret, and this remembers the secret's digest and what it stands for: a token, and it counts for no
longer than that; or a person whom the provider vouched for, and it counts while their principal does. They have the
role that the provider gave them then, and may look at what is of some others instead of their own. All of it is in
memory: a restart signs everybody out.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from kernel_gateway.errors import Forbidden, Unauthorized
from kernel_gateway.identity.principal import Caller, hash_token
from kernel_gateway.identity.roles import SCOPES_OF_ROLES, Rights
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.credentials.authentication import Identity
from sandcell.models.credentials import ConsoleLink

SIGN_IN_SECONDS: Final = 8 * 3600
LINK_SECONDS: Final = 60
MOST_SIGN_INS: Final = 32
"""Of one token or person, links that nobody has used yet among them; the oldest go. So nobody's push out another's."""
_PERSON: Final = "person "


class SignedIn(msgspec.Struct, frozen=True):
    """Somebody who has just signed in: what their browser keeps, and who they are."""

    secret: str
    caller: Caller
    looks_at: tuple[str, ...] = ()


class Person(msgspec.Struct, frozen=True):
    """Somebody whom an identity provider vouched for."""

    principal_id: str
    name: str
    rights: Rights

    @property
    def credential_id(self) -> str:
        return name_person(self.principal_id)


@dataclass(frozen=True)
class _Held:
    """What a secret stands for, until when.

    `link`: it is only good for signing in, once, for no longer than until `most`, when what its maker called with ends.
    `person` is there in place of a token, `looks_at` the principal that they look at, empty for their own.
    """

    credential_id: str
    expires: float
    link: bool
    most: float | None
    person: Person | None = None
    looks_at: str = ""


class SignIns:
    """Signs in and out, and knows who is."""

    def __init__(self, clock: Clock, identity: Identity) -> None:
        self._clock = clock
        self._identity = identity
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def create_link(self, caller: Caller) -> ConsoleLink:
        """A link that signs in as this caller, once and soon; the answer alone carries it. Raises Forbidden."""
        if is_person(caller.credential_id):
            raise Forbidden("a link is made with a token: open the console where you want to sign in")
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

    async def use_rights(self, name: str, rights: Rights) -> SignedIn:
        """Sign in somebody whom an identity provider vouches for; raises Forbidden, Unauthorized."""
        administrator = rights.role == "administrator"
        principal = await self._identity.add_person(name, administrator=administrator)
        person = Person(principal.id, name, rights)
        caller = Caller(
            replace(principal, admin=administrator), SCOPES_OF_ROLES[rights.role], person.credential_id, expires=None
        )
        return self._hold(caller, SIGN_IN_SECONDS, person=person)

    async def authenticate(self, secret: str) -> Caller:
        """Who is signed in with this secret; raises Unauthorized."""
        held = self._find_sign_in(secret)
        if held.person is not None:
            return await self._find_person(held, held.person)
        caller = await self._identity.find_token(held.credential_id)
        # No longer than the sign-in lasts: what is still open then ends.
        return replace(caller, expires=min(held.expires, caller.expires or held.expires))

    async def look_at(self, secret: str, name: str) -> Caller:
        """Look at what is of another principal from now on, of one's own where it is empty.

        Raises Unauthorized, Forbidden, NotFound.
        """
        held = self._find_sign_in(secret)
        if name and name not in self.list_looked_at(secret):
            raise Forbidden("your sign-in does not let you look at that principal")
        if name:
            await self._identity.find_looked_at(name)
        self._held[hash_token(secret)] = replace(held, looks_at=name)
        return await self.authenticate(secret)

    def list_looked_at(self, secret: str) -> tuple[str, ...]:
        """The principals that who is signed in may look at besides their own."""
        held = self._held.get(hash_token(secret))
        return held.person.rights.looks_at if held is not None and held.person is not None else ()

    def sign_out(self, secret: str) -> None:
        """The secret counts no longer."""
        self._held.pop(hash_token(secret), None)

    def _find_sign_in(self, secret: str) -> _Held:
        held = self._held.get(hash_token(secret))
        if held is None or held.link or held.expires <= self._clock.now():
            raise Unauthorized("you are not signed in, or no longer")
        return held

    async def _find_person(self, held: _Held, person: Person) -> Caller:
        """The person as themselves, or looking at another principal, who can then only be looked at."""
        own, role = await self._identity.find_principal(person.principal_id), person.rights.role
        if held.looks_at:
            other = await self._identity.find_looked_at(held.looks_at)
            looked_at = replace(other, admin=False, looked_at_by=person.name)
            return Caller(looked_at, "read", held.credential_id, held.expires)
        acting = replace(own, admin=role == "administrator")
        return Caller(acting, SCOPES_OF_ROLES[role], held.credential_id, held.expires)

    def _find_link(self, code: str) -> _Held:
        held = self._held.get(hash_token(code))
        if held is None or not held.link or held.expires <= self._clock.now():
            raise Unauthorized("the link was used before or is too old: `sandcell console` makes another")
        return held

    async def _find_caller(self, link: _Held) -> Caller:
        caller = await self._identity.find_token(link.credential_id)
        ends = [each for each in (caller.expires, link.most) if each is not None]
        return replace(caller, expires=min(ends, default=None))

    def _hold(self, caller: Caller, seconds: float, *, link: bool = False, person: Person | None = None) -> SignedIn:
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
        self._held[hash_token(secret)] = _Held(caller.credential_id, expires, link, caller.expires, person)
        looks_at = person.rights.looks_at if person is not None else ()
        return SignedIn(secret, replace(caller, expires=expires), looks_at)


def name_person(principal_id: str) -> str:
    """What stands for the credential in calls of somebody whom an identity provider vouched for."""
    return f"{_PERSON}{principal_id}"


def is_person(credential_id: str) -> bool:
    return credential_id.startswith(_PERSON)


def find_person(credential_id: str) -> str:
    """The principal's id of one that `is_person`."""
    return credential_id.removeprefix(_PERSON)
