"""Secrets as they are stored: sealed (AES-256-GCM) with a key that is not in the database.

A sealed secret is bound to what it belongs to: in another row it cannot be opened. The key is a setting, or a file
that the first start makes. Neither the key nor what it opens shows in any `repr`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kernel_gateway.errors import StartRefused
from kernel_gateway.identity.access_key import SEALING_KEY

_KEY_LENGTH: Final = 32
_NONCE_LENGTH: Final = 12
_LONGEST_BYTES: Final = 1_024
_MADE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class CannotOpen(Exception):
    """It was sealed with another key or for something else, or it is damaged."""


class Sealing:
    """Seals and opens with one key, given as text."""

    def __init__(self, key: str) -> None:
        self._cipher = AESGCM(bytes.fromhex(key))

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


def key_in(
    file: Path, without_one: str = "remove it, and create the access keys again", *, given: str | None = None
) -> str:
    """The key in this file, which is made when it is not there, as it is `given` or at random; raises StartRefused.

    `without_one` is what to do when the file is damaged and there is no copy.
    """
    try:
        text = _read(file) if file.exists() else _make(file, given or secrets.token_hex(_KEY_LENGTH))
    except OSError as error:
        raise StartRefused(f"the key file {file} cannot be used: {error.strerror}") from error
    if not SEALING_KEY.fullmatch(text):
        raise StartRefused(f"the key file {file} is damaged: restore it from a backup; without one, {without_one}")
    return text


def _read(file: Path) -> str:
    descriptor = os.open(file, _READ)
    try:
        os.fchmod(descriptor, 0o600)
        return os.read(descriptor, _LONGEST_BYTES).decode("latin-1").strip()
    finally:
        os.close(descriptor)


def _make(file: Path, key: str) -> str:
    """On disk, whole, before anything is sealed with it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = file.with_suffix(".new")
    _write(beside, key)
    beside.replace(file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return key


def _write(file: Path, key: str) -> None:
    descriptor = os.open(file, _MADE, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, f"{key}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
