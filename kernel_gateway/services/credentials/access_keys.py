"""Access keys, which requests are signed with: administrators create, list and revoke them; faces find them.

A signature is verified with the secret itself, so secrets are stored, sealed (`identity.sealing`), and shown once. The
settings may give the administrator's first key; that one follows the settings when its secret changes there, and
stays revoked once it is.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Callable
from pathlib import Path

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError, NotFound, SettingInvalid
from kernel_gateway.identity.access_key import KEY_ID, new_key_id, new_secret
from kernel_gateway.identity.principal import Caller, Principal
from kernel_gateway.identity.sealing import CannotOpen, Sealing, key_in
from kernel_gateway.identity.sigv4 import SignatureProblem
from kernel_gateway.identity.sigv4.problem import UNRECOGNIZED
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.credentials.authentication import ADMIN
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.credentials.remembered import Remembered
from kernel_gateway.services.credentials.tokens import (
    credential,
    expiry,
    require_administrator,
    require_names,
    whole_scope,
)
from kernel_gateway.settings import Settings
from kernel_gateway.storage import access_keys, principals
from kernel_gateway.storage.access_keys import AccessKeyRow, SealedKey
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.locks import hold
from sandcell.models.credentials import AccessKeyInfo, Scope
from sandcell.models.model import Page

log = structlog.get_logger(__name__)
GIVEN = "SANDCELL_ACCESS_KEY_ID"
"""The name of the key that the settings give."""
KEY_FILE = "secrets.key"
_NAMED_IN_LOG = 10


class AccessKeys:
    """`create`, `list` and `revoke` raise Forbidden for everybody but administrators."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock,
        last_use: LastUse,
        end_calls: Callable[[str], object] = lambda _credential_id: None,
    ) -> None:
        self._end_calls = end_calls
        self._database = database
        self._settings = settings
        self._clock = clock
        self._last_use = last_use
        self._remembered = Remembered[tuple[Caller, str]](shared=database.lease is not None)
        self._sealing: Sealing | None = None

    async def open(self) -> None:
        """Read or make the key that secrets are sealed with; take the given access key as the administrator's.

        Raises StartRefused (SettingInvalid when the given key was revoked, or is another's).
        """
        self._sealing = sealing = _sealing(self._settings)
        settings, now = self._settings, self._clock.now()

        def take(connection: Connection) -> list[str]:
            if settings.access_key_id:
                hold(connection, "administrator")
                _take_given(connection, sealing, settings.access_key_id, settings.secret_access_key, now)
            return [
                key_id for key_id, sealed in access_keys.all_live(connection) if not _opens(sealing, key_id, sealed)
            ]

        closed = await self._database.run(take)
        if closed:
            log.error(
                "access_keys_sealed_with_another_key",
                keys=closed[:_NAMED_IN_LOG],
                count=len(closed),
                remedy=f"give secrets_key, or restore {KEY_FILE}, as it was when they were created; or create new ones",
            )

    async def create(
        self,
        principal: Principal,
        principal_name: str,
        key_name: str = "",
        *,
        scope: Scope | None = None,
        ttl_seconds: int | None = None,
    ) -> AccessKeyInfo:
        """A new key of that principal, who is created when new; the answer alone carries the secret.

        Its scope is by default all that the principal may; without `ttl_seconds` it counts until it is revoked.
        """
        require_administrator(principal, "access keys")
        require_names(principal_name, "an access key", key_name)
        now, key_id, secret = self._clock.now(), new_key_id(), new_secret()
        sealed = self._seal.seal(secret, key_id)

        def add(connection: Connection) -> AccessKeyRow:
            owner = principals.find_or_add(connection, principal_name, now)
            granted, expires = scope or whole_scope(owner), expiry(now, ttl_seconds)
            access_keys.add(
                connection, owner, key_id=key_id, name=key_name, sealed=sealed, now=now, scope=granted, expires=expires
            )
            return AccessKeyRow(key_id, principal_name, key_name, now, scope=granted, expires=expires)

        info = _info(await self._database.run(add))
        info.secret_access_key = secret
        return info

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[AccessKeyInfo]:
        """Every principal's keys, oldest first, revoked ones too."""
        require_administrator(principal, "access keys")
        with contextlib.suppress(GatewayError):  # what is stored can still be read
            await self._last_use.flush()
        rows, following = await self._database.run(lambda c: access_keys.list_keys(c, limit, cursor))
        return Page([_info(row) for row in rows], following)

    async def revoke(self, principal: Principal, key_id: str) -> AccessKeyInfo:
        """The key counts no longer, from now on."""
        require_administrator(principal, "access keys")
        now = self._clock.now()
        try:
            row = await self._database.run(lambda c: access_keys.revoke(c, key_id, now))
        finally:  # also when nobody waits for the answer any more, since the change is made all the same
            self._remembered.forget()
            self._end_calls(key_id)
        if row is None:
            raise NotFound("there is no such key")
        return _info(row)

    async def find(self, access_key_id: str) -> tuple[Caller, str]:
        """Whose key this is, and its secret; raises SignatureProblem, the same for every key that does not count."""
        found, now = None, self._clock.now()
        if KEY_ID.fullmatch(access_key_id):
            found = await self._remembered.ask(access_key_id, lambda: self._look_up(access_key_id))
        if found is None or not found[0].counts_at(now):
            raise SignatureProblem(
                UNRECOGNIZED,
                "The security token included in the request is invalid: there is no such access key, or it was "
                "revoked; `sandcell keys create` makes one",
            )
        return found

    def note_use(self, caller: Caller) -> None:
        """A request that this key has signed was verified."""
        self._last_use.note_key(caller.credential_id, self._clock.now())

    def forget(self) -> None:
        """Ask the database again for every key: a principal was disabled."""
        self._remembered.forget()

    async def _look_up(self, key_id: str) -> tuple[Caller, str] | None:
        stored = await self._database.run(lambda connection: access_keys.find(connection, key_id))
        if stored is None or stored.revoked or stored.disabled:
            return None
        try:
            return stored.caller, self._seal.open(stored.sealed, key_id)
        except CannotOpen:
            log.error("access_key_sealed_with_another_key", key=key_id)
            return None

    @property
    def _seal(self) -> Sealing:
        if self._sealing is None:
            raise RuntimeError("the access keys are not open yet")
        return self._sealing


def _sealing(settings: Settings) -> Sealing:
    return Sealing(settings.secrets_key or key_in(Path(settings.state_path) / KEY_FILE))


def _take_given(connection: Connection, sealing: Sealing, key_id: str, secret: str, now: float) -> None:
    admin = principals.find_by_name(connection, ADMIN)
    if admin is None:
        raise RuntimeError("the administrator is made before the access keys are opened")
    stored = access_keys.find(connection, key_id)
    if stored is None:
        access_keys.add(connection, admin, key_id=key_id, name=GIVEN, sealed=sealing.seal(secret, key_id), now=now)
        return
    if stored.revoked:
        raise SettingInvalid("the given access key was revoked: give another access_key_id, or none")
    if stored.caller.principal.id != admin.id:
        raise SettingInvalid("access_key_id is another principal's key: give another one, or none")
    if not _holds(sealing, key_id, stored, secret):
        access_keys.replace_secret(connection, key_id, sealing.seal(secret, key_id))


def _holds(sealing: Sealing, key_id: str, stored: SealedKey, secret: str) -> bool:
    """Whether this is the stored secret."""
    try:
        return hmac.compare_digest(sealing.open(stored.sealed, key_id).encode(), secret.encode())
    except CannotOpen:
        return False


def _opens(sealing: Sealing, key_id: str, sealed: bytes) -> bool:
    try:
        sealing.open(sealed, key_id)
    except CannotOpen:
        return False
    return True


def _info(row: AccessKeyRow) -> AccessKeyInfo:
    return AccessKeyInfo(**credential(row))
