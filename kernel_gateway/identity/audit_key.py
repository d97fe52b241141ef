"""The key that the audit log's chain is signed with (Ed25519): the private half signs, the public half verifies.

The private half is a file of the service's own directory, made by the first start. The public half may go anywhere.
Each kind of statement is signed under a name of its own, so that none can stand for another.
"""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kernel_gateway.identity.sealing import key_in

KEY_FILE: Final = "audit.key"
PUBLIC_KEY: Final = re.compile(r"[0-9a-f]{64}")
_PURPOSE: Final = "sandcell audit"
_SHARED: Final = b"sandcell audit key 1"


class PublicKey:
    """Says whether a signature is this key's."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    @classmethod
    def of_text(cls, text: str) -> PublicKey:
        """Raises ValueError."""
        if not PUBLIC_KEY.fullmatch(text):
            raise ValueError("a public key has 64 hexadecimal digits")
        return cls(Ed25519PublicKey.from_public_bytes(bytes.fromhex(text)))

    @property
    def text(self) -> str:
        return self._key.public_bytes_raw().hex()

    def verifies(self, name: str, statement: bytes, signature: bytes) -> bool:
        try:
            self._key.verify(signature, _join_signed(name, statement))
        except InvalidSignature:
            return False
        return True


class AuditKey:
    """Signs statements."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    @classmethod
    def in_directory(cls, directory: Path, secrets_key: str = "") -> AuditKey:
        """The key of this directory, made when there is none; raises StartRefused.

        With a secret that several gateways have in common they make the same one.
        """
        given = hmac.digest(bytes.fromhex(secrets_key), _SHARED, "sha256").hex() if secrets_key else None
        without_one = "remove it: a new one is made, and the audit log's chain begins again"
        seed = key_in(directory / KEY_FILE, without_one, given=given)
        return cls(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)))

    def sign(self, name: str, statement: bytes) -> bytes:
        return self._key.sign(_join_signed(name, statement))


def read_public_key(directory: Path) -> PublicKey | None:
    """The public half of the key of this directory, if there is one; raises OSError, ValueError."""
    file = directory / KEY_FILE
    if not file.exists():
        return None
    return AuditKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(file.read_text().strip()))).public


def _join_signed(name: str, statement: bytes) -> bytes:
    return f"{_PURPOSE} {name}\n".encode() + statement
