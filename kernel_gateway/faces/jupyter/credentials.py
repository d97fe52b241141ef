"""The token of a request, in each of the forms that Jupyter clients have. Pure.

`Authorization: token T`, `Authorization: Bearer T`, `?token=T`. A header without a token, which JupyterLab sends when
it was given none, is no header.
"""

from __future__ import annotations

from kernel_gateway.errors import InvalidRequest

SCHEMES = ("token", "bearer")
LONGEST_CLIENT_SESSION = 128


def find_token(authorization: str, query: dict[str, str]) -> str:
    """The token, or nothing."""
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() in SCHEMES and token.strip():
        return token.strip()
    return "" if token.strip() else query.get("token", "")


def find_client_session(query: dict[str, str], otherwise: str) -> str:
    """The name under which a client comes back, or another; raises InvalidRequest."""
    name = query.get("session_id") or otherwise
    if len(name) > LONGEST_CLIENT_SESSION or not (name.isascii() and name.isprintable()):
        raise InvalidRequest(
            f"session_id has at most {LONGEST_CLIENT_SESSION} printable ASCII characters", field="session_id"
        )
    return name
