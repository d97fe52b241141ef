"""People who are signed in to the console, by a token of theirs or an identity provider, and links that sign in once.

A browser gets a secret, and the database has its digest and what it stands for: a token, and it counts for no longer
than that; or a person whom the provider vouched for, and it counts while their principal does and the settings of the
provider and of roles are the same. They have the role that the provider gave them then, and may look at what is of
some others instead of their own. So it counts at any gateway, and after a restart.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar, cast

import msgspec
from sqlalchemy import Connection

from kernel_gateway.errors import Forbidden, Unauthorized
from kernel_gateway.identity.principal import Caller, hash_token
from kernel_gateway.identity.roles import SCOPES_OF_ROLES, Rights, Role
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.remembered import Remembered
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.states import sign_ins as stored
from kernel_gateway.storage.states.sign_ins import Person, SignInRow
from sandcell.models.credentials import ConsoleLink

T = TypeVar("T")
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


class SignIns:
    """Signs in and out, and knows who is."""

    def __init__(self, settings: Settings, database: Database, clock: Clock, identity: Identity) -> None:
        self._rules = digest_rules(settings)
        self._database = database
        self._clock = clock
        self._identity = identity
        self._remembered = Remembered[SignInRow](shared=database.lease is not None)

    async def create_link(self, caller: Caller) -> ConsoleLink:
        """A link that signs in as this caller, once and soon; the answer alone carries it. Raises Forbidden."""
        if is_person(caller.credential_id):
            raise Forbidden("a link is made with a token: open the console where you want to sign in")
        held = await self._hold(caller, LINK_SECONDS, link=True)
        return ConsoleLink(f"/#sign-in={held.secret}", rfc3339(held.caller.expires or 0.0))

    async def use_link(self, code: str) -> SignedIn:
        """Sign in by a link, which counts no longer; raises Unauthorized."""
        caller = await self.look_at_link(code)
        if not await self._change(lambda c: stored.remove(c, hash_token(code))):
            raise _used()
        return await self._hold(caller, SIGN_IN_SECONDS)

    async def look_at_link(self, code: str) -> Caller:
        """Whom a link signs in; raises Unauthorized."""
        held = await self._find(code)
        if held is None or not held.link or held.expires <= self._clock.now():
            raise _used()
        caller = await self._identity.find_token(held.credential_id)
        ends = [each for each in (caller.expires, held.most) if each is not None]
        return replace(caller, expires=min(ends, default=None))

    async def use_token(self, token: str) -> SignedIn:
        """Sign in with a bearer token; raises Unauthorized."""
        return await self._hold(await self._identity.authenticate(token), SIGN_IN_SECONDS)

    async def use_rights(self, name: str, rights: Rights) -> SignedIn:
        """Sign in somebody whom an identity provider vouches for; raises Forbidden, Unauthorized."""
        administrator = rights.role == "administrator"
        principal = await self._identity.add_person(name, administrator=administrator)
        person = Person(principal.id, name, rights.role, rights.looks_at, self._rules)
        caller = Caller(
            replace(principal, admin=administrator),
            SCOPES_OF_ROLES[rights.role],
            name_person(principal.id),
            expires=None,
        )
        return await self._hold(caller, SIGN_IN_SECONDS, person=person)

    async def authenticate(self, secret: str) -> Caller:
        """Who is signed in with this secret; raises Unauthorized."""
        held = await self._find_sign_in(secret)
        if held.person is not None:
            return await self._find_person(held, held.person)
        caller = await self._identity.find_token(held.credential_id)
        # No longer than the sign-in lasts: what is still open then ends.
        return replace(caller, expires=min(held.expires, caller.expires or held.expires))

    async def look_at(self, secret: str, name: str) -> Caller:
        """Look at what is of another principal from now on, of one's own where it is empty.

        Raises Unauthorized, Forbidden, NotFound.
        """
        held = await self._find_sign_in(secret)
        if name and (held.person is None or name not in held.person.looks_at):
            raise Forbidden("your sign-in does not let you look at that principal")
        if name:
            await self._identity.find_looked_at(name)
        await self._change(lambda c: stored.look_at(c, hash_token(secret), name))
        return await self.authenticate(secret)

    async def list_looked_at(self, secret: str) -> tuple[str, ...]:
        """The principals that who is signed in may look at besides their own."""
        held = await self._find(secret)
        return held.person.looks_at if held is not None and held.person is not None else ()

    async def sign_out(self, secret: str) -> None:
        """The secret counts no longer."""
        if secret:
            await self._change(lambda c: stored.remove(c, hash_token(secret)))

    async def _find(self, secret: str) -> SignInRow | None:
        digest = hash_token(secret)
        return await self._remembered.ask(digest, lambda: self._database.run(lambda c: stored.find(c, digest)))

    async def _change(self, query: Callable[[Connection], T]) -> T:
        try:
            return await self._database.run(query)
        finally:
            self._remembered.forget()

    async def _find_sign_in(self, secret: str) -> SignInRow:
        held = await self._find(secret)
        if held is None or held.link or held.expires <= self._clock.now():
            raise Unauthorized("you are not signed in, or no longer")
        if held.person is not None and held.person.rules != self._rules:
            raise Unauthorized("who may sign in was changed since you did: sign in again")
        return held

    async def _find_person(self, held: SignInRow, person: Person) -> Caller:
        """The person as themselves, or looking at another principal, who can then only be looked at."""
        own, role = await self._identity.find_principal(person.principal_id), cast("Role", person.role)
        if held.looks_at:
            other = await self._identity.find_looked_at(held.looks_at)
            looked_at = replace(other, admin=False, looked_at_by=person.name)
            return Caller(looked_at, "read", held.credential_id, held.expires)
        acting = replace(own, admin=role == "administrator")
        return Caller(acting, SCOPES_OF_ROLES[role], held.credential_id, held.expires)

    async def _hold(
        self, caller: Caller, seconds: float, *, link: bool = False, person: Person | None = None
    ) -> SignedIn:
        now, secret = self._clock.now(), secrets.token_urlsafe(32)
        expires = min(now + seconds, caller.expires or now + seconds)
        row = SignInRow(caller.credential_id, expires, link, caller.expires, person)
        await self._change(lambda c: stored.add(c, hash_token(secret), row, now, MOST_SIGN_INS))
        looks_at = person.looks_at if person is not None else ()
        return SignedIn(secret, replace(caller, expires=expires), looks_at)


def digest_rules(settings: Settings) -> str:
    """Stands for the settings that say which provider vouches for people, and what that makes of them."""
    client, claim = settings.oidc_client_id, settings.oidc_principal_claim
    return hash_token(msgspec.json.encode([settings.oidc_issuer, client, claim, settings.oidc_roles]).decode())


def _used() -> Unauthorized:
    return Unauthorized("the link was used before or is too old: `sandcell console` makes another")


def name_person(principal_id: str) -> str:
    """What stands for the credential in calls of somebody whom an identity provider vouched for."""
    return f"{_PERSON}{principal_id}"


def is_person(credential_id: str) -> bool:
    return credential_id.startswith(_PERSON)


def find_person(credential_id: str) -> str:
    """The principal's id of one that `is_person`."""
    return credential_id.removeprefix(_PERSON)
