"""The pure part of access keys: what an id and a secret look like, and making new ones."""

from __future__ import annotations

import re
import secrets
import string
from typing import Final

KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{3,128}")
"""An id that may be given to us; the ones that we make are `SCAK` and 16 of A-Z and 2-7."""
SECRET: Final = re.compile(r"[!-~]{8,256}")
SEALING_KEY: Final = re.compile(r"[0-9A-Fa-f]{64}")
"""What secrets are sealed with, as text: 32 bytes in hexadecimal digits."""
_ID_LETTERS: Final = string.ascii_uppercase + "234567"
_SECRET_LETTERS: Final = string.ascii_letters + string.digits


def new_key_id() -> str:
    """A new access key id: 80 random bits, which are no secret."""
    return "SCAK" + "".join(secrets.choice(_ID_LETTERS) for _ in range(16))


def new_secret() -> str:
    """A secret access key: 40 letters and digits, 238 random bits, and nothing that a shell or a URL would quote."""
    return "".join(secrets.choice(_SECRET_LETTERS) for _ in range(40))
