"""Tokens that are good for one session alone, derived from the token that started it or connected to it.

None of them is stored: a token names the credential it was derived from and proves it with a MAC under the service's
key. It counts for as long as that credential does, and reaches what its principal owns. Addresses of files may be
signed with one and do not say whose they are: such a signature is tried against the tokens of live sessions that were
used lately, and then against those that were given out, of which the database knows for whom. Who asks for the latter
has shown nothing yet: few wait for it, not for long, and one that none has made is not tried again at once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from kernel_gateway.errors import LimitReached, Unauthorized, translated
from kernel_gateway.identity.principal import Caller
from kernel_gateway.identity.sealing import key_in
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.credentials.access_keys import KEY_FILE
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.states import sign_ins

TOKEN: Final = re.compile(r"([0-9a-f]{32})([0-9a-f]{64})")
MOST_KNOWN: Final = 4
"""Tokens of one live session by which signatures of addresses are checked; the oldest go.

So nobody's push out another's. A wrong signature costs a short hash of each.
"""
MOST_TRIED: Final = 10_000
"""Tokens of all live sessions that a signature is tried against which none that was used lately has made."""
TRY_SECONDS: Final = 2.0
MOST_TRYING: Final = 8
"""Signatures that are tried against all tokens, or wait for it."""
MOST_REFUSED: Final = 256
"""Signatures of which is remembered that no token has made them."""
REFUSED_SECONDS: Final = 5.0
SIGNATURE_LENGTH: Final = 46
LONGEST_EXPIRATION: Final = 15
"""Of a signature, in digits."""
NOT_SIGNED: Final = "the signature is not one of this service's, or its sandbox is gone"
Find = Callable[[Iterable[tuple[str, str, str]]], tuple[str, str, str] | None]
"""Which of these made a signature: session, credential and token."""
_PURPOSE: Final = b"sandcell sandbox tokens 1"


class SandboxTokens:
    """Gives them out and checks them."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        database: Database,
        identity: Identity,
        registry: Registry,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._identity = identity
        self._registry = registry
        self._turn = asyncio.Semaphore(1)
        self._trying = 0
        self._monotonic = monotonic
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._known: dict[str, OrderedDict[str, str]] = {}

    @cached_property
    def _key(self) -> bytes:
        secret = self._settings.secrets_key or key_in(Path(self._settings.state_path) / KEY_FILE)
        return hmac.digest(bytes.fromhex(secret), _PURPOSE, "sha256")

    async def give(self, credential_id: str, session_id: str) -> str:
        """The token of this credential for this session, whose signatures any gateway knows once this returns."""
        if credential_id not in self._known.get(session_id, ()):
            await self._database.run(lambda c: sign_ins.keep_derived(c, session_id, credential_id, MOST_KNOWN))
        return self.derive(credential_id, session_id)

    def derive(self, credential_id: str, session_id: str) -> str:
        """The token of this credential for this session."""
        token = self._make(session_id, credential_id)
        self._remember(session_id, credential_id, token)
        return token

    def _make(self, session_id: str, credential_id: str) -> str:
        return uuid.UUID(credential_id).hex + self._prove(session_id, credential_id)

    def _prove(self, session_id: str, credential_id: str) -> str:
        return hmac.new(self._key, f"{session_id} {credential_id}".encode(), "sha256").hexdigest()

    async def authenticate(self, token: str, session_id: str) -> Caller:
        """Who has this token for this session; raises Unauthorized."""
        match = TOKEN.fullmatch(token)
        if match is None:
            raise Unauthorized("a valid access token of this sandbox is required")
        credential_id = str(uuid.UUID(match[1]))
        if not hmac.compare_digest(match[2], self._prove(session_id, credential_id)):
            raise Unauthorized("a valid access token of this sandbox is required")
        caller = await self._identity.find_token(credential_id)
        self._remember(session_id, credential_id, token)
        return caller

    async def check_signature(
        self, signature: str, *, path: str, operation: str, user: str, expiration: str
    ) -> tuple[Caller, str]:
        """Who signed this address, and for which session; raises Unauthorized, LimitReached."""
        session_id, credential_id = await self.find_signer(
            signature, path=path, operation=operation, user=user, expiration=expiration
        )
        return await self._identity.find_token(credential_id), session_id

    async def find_signer(
        self, signature: str, *, path: str, operation: str, user: str, expiration: str
    ) -> tuple[str, str]:
        """For which session an address was signed, and by the token of which credential.

        Raises Unauthorized, LimitReached where too many ask for what none of the tokens that were used lately has made.
        """
        if len(expiration) > LONGEST_EXPIRATION or len(signature) != SIGNATURE_LENGTH:
            raise Unauthorized(NOT_SIGNED)
        if expiration and not (expiration.isdecimal() and int(expiration) > self._clock.now()):
            raise Unauthorized("signature is already expired")
        given, begun = signature.encode("utf-8", "surrogateescape"), _begin(path, operation, user)

        def find(tokens: Iterable[tuple[str, str, str]]) -> tuple[str, str, str] | None:
            fits = (each for each in tokens if hmac.compare_digest(given, _finish(begun, each[2], expiration).encode()))
            return next(fits, None)

        found = find(self._list_known())
        if found is None:
            with translated():
                found = await self._try_all(find, _summarize(begun, signature, expiration))
        if found is None:
            raise Unauthorized(NOT_SIGNED)
        self._remember(*found)
        return found[0], found[1]

    async def _try_all(self, find: Find, summary: bytes) -> tuple[str, str, str] | None:
        """One after the other: there may be many tokens, and who asks has shown nothing yet."""
        if self._is_refused(summary):
            return None
        if self._trying >= MOST_TRYING:
            raise _busy()
        self._trying += 1
        try:
            async with asyncio.timeout(TRY_SECONDS), self._turn:
                if self._is_refused(summary):
                    return None
                given_out = await self._database.run(lambda c: sign_ins.list_derived(c, MOST_TRIED))
                tokens = ((each, credential, self._make(each, credential)) for each, credential in given_out)
                found = await asyncio.to_thread(find, tokens)
        except TimeoutError:
            raise _busy() from None
        finally:
            self._trying -= 1
        if found is None:
            self._refuse(summary)
        return found

    def _is_refused(self, summary: bytes) -> bool:
        return self._monotonic() < self._refused.get(summary, 0.0)

    def _refuse(self, summary: bytes) -> None:
        self._refused[summary] = self._monotonic() + REFUSED_SECONDS
        self._refused.move_to_end(summary)
        if len(self._refused) > MOST_REFUSED:
            self._refused.popitem(last=False)

    def _remember(self, session_id: str, credential_id: str, token: str) -> None:
        if session_id not in self._registry:
            return
        if session_id not in self._known:
            self._known = {each: own for each, own in self._known.items() if each in self._registry}
        own = self._known.setdefault(session_id, OrderedDict())
        own[credential_id] = token
        own.move_to_end(credential_id)
        if len(own) > MOST_KNOWN:
            own.popitem(last=False)

    def _list_known(self) -> list[tuple[str, str, str]]:
        """Session, credential and token, of the sessions that live."""
        return [
            (session_id, credential_id, token)
            for session_id, own in self._known.items()
            if session_id in self._registry
            for credential_id, token in own.items()
        ]


def sign_path(token: str, path: str, operation: str, user: str, expiration: str) -> str:
    """The signature of an address of a file, as E2B's clients make it."""
    return _finish(_begin(path, operation, user), token, expiration)


def _busy() -> LimitReached:
    return LimitReached("too many signed addresses are being looked up", retry_after_seconds=TRY_SECONDS)


def _summarize(begun: hashlib._Hash, signature: str, expiration: str) -> bytes:
    """Stands for a signature and all that it signs."""
    digest = begun.copy()
    digest.update(f"{signature}:{expiration}".encode("utf-8", "surrogatepass"))
    return digest.digest()


def _begin(path: str, operation: str, user: str) -> hashlib._Hash:
    """What signatures by all tokens have in common, hashed."""
    return hashlib.sha256(f"{path}:{operation}:{user}:".encode("utf-8", "surrogatepass"))


def _finish(begun: hashlib._Hash, token: str, expiration: str) -> str:
    digest = begun.copy()
    digest.update((f"{token}:{expiration}" if expiration else token).encode("utf-8", "surrogatepass"))
    return "v1_" + base64.b64encode(digest.digest()).decode().rstrip("=")
