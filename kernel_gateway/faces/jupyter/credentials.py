"""The token of a request, in each of the forms that Jupyter clients have, and the few query parameters there are. Pure.

`Authorization: token T`, `Authorization: Bearer T`, `?token=T`. A header without a token, which JupyterLab sends when
it was given none, is no header.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from kernel_gateway.errors import InvalidRequest

SCHEMES = ("token", "bearer")
MOST_PARAMETERS = 32
LONGEST_CLIENT_SESSION = 128


def parse_query(query: str) -> dict[str, str]:
    """A query string's parameters, the first of each name; raises InvalidRequest."""
    try:
        found = parse_qs(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise InvalidRequest(f"more than {MOST_PARAMETERS} query parameters") from None
    return {name: values[0] for name, values in found.items()}


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
