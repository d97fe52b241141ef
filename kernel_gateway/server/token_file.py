"""Where `sandcell serve` saves the first token for the user who started it: opened by root, written by the launcher."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from kernels.launcher.plan import TokenPlan
from sandcell import saved
from sandcell.settings import client_settings

_LONGEST_BYTES = 10_000
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_EXAMPLE = "the-token"


@dataclass(frozen=True)
class TokenFile:
    """The file, open; or why it could not be opened."""

    path: str
    descriptor: int = -1
    error: str = ""

    def plan(self, url: str) -> TokenPlan:
        """What the launcher has to know of it, to save a token for the service at this URL."""
        before, _, after = saved.content(url, _EXAMPLE).decode().partition(json.dumps(_EXAMPLE))
        return TokenPlan(self.descriptor, before, after, self.error)

    def holds_one(self) -> bool:
        """Whether a token was saved at an earlier start."""
        return self.descriptor >= 0 and saved.parse(os.pread(self.descriptor, _LONGEST_BYTES, 0)) is not None


def open_token_file() -> TokenFile:
    """Open the file of the user who runs this process, or of whose home this is (under sudo)."""
    path = saved.file(client_settings())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, _OPEN, 0o600)
        os.fchmod(descriptor, 0o600)
        saved.hand_over(path)
    except OSError as error:
        return TokenFile(str(path), error=str(error))
    return TokenFile(str(path), descriptor)
