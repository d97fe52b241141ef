"""A principal, and the pure part of bearer tokens: making and hashing them.

A token is `sandcell_` and 256 random bits. Only its SHA-256 is stored; with that much randomness a slow hash adds
nothing.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

TOKEN_PREFIX = "sandcell_"  # noqa: S105 - a mark that secret scanners can look for, not a secret


@dataclass(frozen=True)
class Principal:
    """Who calls. Owns sessions and workspaces; an administrator also manages tokens."""

    id: str
    name: str
    admin: bool


def new_token() -> str:
    """A bearer token that nobody can guess."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    """What is stored of a token: SHA-256, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
