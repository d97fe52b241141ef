"""A principal, what a credential of theirs lets a caller do, and the pure part of bearer tokens.

A token is `sandcell_` and 256 random bits. Only its SHA-256 is stored; with that much randomness a slow hash adds
nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, replace
from typing import Final

from sandcell.models.credentials import SCOPES, Scope

TOKEN_PREFIX = "sandcell_"  # noqa: S105 - a mark that secret scanners can look for, not a secret
PRINCIPAL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
"""What principals are called."""


@dataclass(frozen=True)
class Principal:
    """Who calls. Owns sessions and workspaces; an administrator also manages tokens.

    `looked_at_by` names somebody else who looks at what is this principal's, for the audit log.
    """

    id: str
    name: str
    admin: bool
    looked_at_by: str = ""

    @property
    def is_known(self) -> bool:
        """False only for `ANONYMOUS`."""
        return bool(self.id)


ANONYMOUS = Principal(id="", name="", admin=False)
"""Stands for a caller who is not authenticated, or not yet."""


@dataclass(frozen=True)
class Caller:
    """Who calls, and with which credential. `principal.admin` holds only where the credential's scope is `admin`."""

    principal: Principal
    scope: Scope
    credential_id: str
    expires: float | None = None

    def may(self, needed: Scope) -> bool:
        """Whether the credential's scope includes that one."""
        if needed == "metrics" or self.scope == "metrics":  # figures of all principals: administrators' alone
            return self.scope == needed or (needed == "metrics" and self.principal.admin)
        return SCOPES.index(self.scope) >= SCOPES.index(needed)

    def counts_at(self, now: float) -> bool:
        """Whether the credential has not expired."""
        return self.expires is None or self.expires > now


def caller_of(principal: Principal, scope: Scope, credential_id: str, expires: float | None) -> Caller:
    """A caller with no more rights than principal and credential both have."""
    acting = principal if scope == "admin" else replace(principal, admin=False)
    return Caller(acting, scope, credential_id, expires)


def new_token() -> str:
    """A bearer token that cannot be guessed."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """What is stored of a token: SHA-256, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
