"""The pure part of attach tokens: what one looks like, and making new ones. Only their SHA-256 is stored."""

from __future__ import annotations

import secrets

ATTACH_PREFIX = "sandcell_attach_"


def new_attach_token() -> str:
    """A token that nobody can guess, and that no other interface takes: 256 random bits."""
    return ATTACH_PREFIX + secrets.token_urlsafe(32)


def is_attach_token(token: str) -> bool:
    """Whether a token says of itself that it is one."""
    return token.startswith(ATTACH_PREFIX)
