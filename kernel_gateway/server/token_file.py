"""Where `sandcell serve` saves the first token for the user who started it: opened by root, written by the launcher."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from pathlib import Path

import msgspec

from kernel_gateway.settings import Settings, process_environment
from kernels.launcher.plan import TokenPlan
from sandcell import saved
from sandcell.files import hand_over, make_private_directory
from sandcell.settings import ClientSettings, read_settings

_LONGEST_BYTES = 10_000
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_EXAMPLE = "the-token"


class TokenFile(msgspec.Struct, frozen=True):
    """The file, open; or why it could not be opened."""

    path: str
    descriptor: int = -1
    error: str = ""

    def plan(self, url: str) -> TokenPlan:
        """What the launcher has to know of it, to save a token for the service at this URL."""
        before, _, after = saved.format_content(url, _EXAMPLE).decode().partition(json.dumps(_EXAMPLE))
        return TokenPlan(self.descriptor, before, after, self.error)

    def holds_one(self) -> bool:
        """Whether a token was saved at an earlier start."""
        return self.descriptor >= 0 and saved.parse(os.pread(self.descriptor, _LONGEST_BYTES, 0)) is not None


def open_token_file() -> TokenFile:
    """Open the file of the user who runs this process, or of whose home this is (under sudo)."""
    path = saved.file(_find_settings())
    try:
        make_private_directory(path.parent)
        hand_over(path.parent)  # root may have made it before, and kept it
        descriptor = os.open(path, _OPEN, 0o600)
        os.fchmod(descriptor, 0o600)
        hand_over(path)
    except OSError as error:
        return TokenFile(str(path), error=str(error))
    return TokenFile(str(path), descriptor)


def make_local_url(settings: Settings, port: int) -> str:
    """Where the commands of the user who starts the service find it."""
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104  (a comparison)
    return f"{settings.scheme}://{host}:{port}"


def _find_settings() -> ClientSettings:
    """Where the user's own directories are: under sudo its caller's, whose commands need the token."""
    environ = process_environment()
    caller = environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdecimal() and not environ.get("XDG_CONFIG_HOME"):
        with contextlib.suppress(KeyError, OverflowError):  # no such user
            environ["XDG_CONFIG_HOME"] = str(Path(pwd.getpwuid(int(caller)).pw_dir, ".config"))
    return read_settings(environ)
