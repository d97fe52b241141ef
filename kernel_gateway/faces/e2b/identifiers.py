"""How E2B's clients name things, and what those names are here: sandboxes, keys, templates, paths. Pure.

A sandbox's id is its session's without dashes. A key is a token of this service, as it is, or in hexadecimal digits
behind `e2b_` for clients that refuse any other form.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from kernel_gateway.errors import InvalidRequest, NotFound, Unauthorized

SANDBOX_HEADER: Final = "E2b-Sandbox-Id"
KEY_PREFIX: Final = "e2b_"
LONGEST_KEY: Final = 2_004
HOME: Final = "/home/user"
TEMPLATES: Final = (
    "base",
    "code-interpreter",
    "code-interpreter-v1",
    "code-interpreter-beta",
    "code-interpreter-stateful",
)
"""E2B's own, which stand for the environment of the setting `e2b_environment`."""
LONGEST_PATH: Final = 4_096
USER: Final = "user"
_SANDBOX: Final = re.compile(r"([0-9a-f]{32})(?:-[a-z0-9]{1,32})?")


def format_sandbox_id(session_id: str) -> str:
    return session_id.replace("-", "")


def parse_sandbox_id(text: str) -> str:
    """The session of a sandbox's id, behind which old clients put their own; raises NotFound."""
    match = _SANDBOX.fullmatch(text)
    if match is not None:
        return str(uuid.UUID(match[1]))
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise NotFound("The sandbox was not found") from None


def parse_key(text: str) -> str:
    """The token that a key is; raises Unauthorized."""
    if len(text) > LONGEST_KEY:
        raise Unauthorized
    digits = text.removeprefix(KEY_PREFIX)
    if digits == text:
        return text
    try:
        return bytes.fromhex(digits).decode("ascii")
    except ValueError:
        raise Unauthorized from None


def format_key(token: str) -> str:
    """A token as a key that every client takes."""
    return KEY_PREFIX + token.encode().hex()


def parse_snapshot(text: str) -> str:
    """The session of a snapshot's id, or the name that it is; a tag of either does not count."""
    name = text.partition(":")[0]
    match = _SANDBOX.fullmatch(name)
    return name if match is None else str(uuid.UUID(match[1]))


def choose_environment(template: str, own: str) -> str:
    """The environment that a template names; `own` is that of E2B's templates."""
    name = template.partition(":")[0]
    return own if name in TEMPLATES else name


def resolve_path(path: str, user: str = "") -> str:
    """An absolute path without dots: relative ones begin in the home; raises InvalidRequest."""
    require_user(user)
    require_path(path)
    if path == "~" or path.startswith("~/"):
        path = HOME + path[1:]
    elif not path.startswith("/"):
        path = f"{HOME}/{path}"
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def require_path(path: str) -> None:
    """Raises InvalidRequest for what is too long for a path, or has what none has."""
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
        raise InvalidRequest(f"a path has no NUL and at most {LONGEST_PATH:,} bytes")


def require_user(user: str) -> None:
    """Raises InvalidRequest for a user that sandboxes do not have."""
    if user not in ("", USER):
        raise InvalidRequest(f"there is no user {user[:40]!r}: all code, commands and files are of the user `{USER}`")
