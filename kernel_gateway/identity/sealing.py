"""Secrets as they are stored: sealed (AES-256-GCM) with the key of a file that is not in the database.

A sealed secret is bound to what it is a secret of: in another row it cannot be opened. The key is made at the first
start. Pure but for `key_of_file`; the key and what it opens show in no `repr`.
"""

from __future__ import annotations

import os
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_LENGTH: Final = 32
_NONCE_LENGTH: Final = 12
_MADE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class CannotOpen(Exception):
    """It was sealed with another key, for something else, or is damaged."""


class Sealing:
    """Seals and opens with one key."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, secret: str, of: str) -> bytes:
        """The secret as it may be stored; `of` names what it belongs to."""
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), of.encode())

    def open(self, sealed: bytes, of: str) -> str:
        """The secret again; raises CannotOpen."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_LENGTH], sealed[_NONCE_LENGTH:], of.encode()).decode()
        except (InvalidTag, ValueError):
            raise CannotOpen from None
