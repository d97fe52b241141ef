"""Bearer tokens and access keys, and what each is good for."""

from __future__ import annotations

from typing import Final, Literal

from sandcell.models.model import Model

Scope = Literal["read", "run", "admin", "metrics"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "run", "admin")
"""What a credential is good for: each includes those before it. `admin` makes an administrator of no one else.

`metrics` stands beside them: it reads `GET /metrics`, as administrators do, and nothing else.
"""


class Credential(Model):
    """What a principal proves itself by. Its secret shows in no `repr`.

    `scope` is `read` (look), `run` (and change and run what is the principal's own) or `admin` (all that the principal
    may), or `metrics` (`GET /metrics` alone). Without `expires_at` it counts until it is revoked.
    """

    id: str
    principal: str
    name: str
    created_at: str
    revoked_at: str | None = None
    scope: Scope = "admin"
    expires_at: str | None = None
    last_used_at: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, principal={self.principal!r}, name={self.name!r})"


class TokenInfo(Credential):
    """A bearer token without its secret; `token` is present only in the answer that created it."""

    token: str | None = None


class ConsoleLink(Model):
    """Signs a browser in to the console, once, as who made it. `link` goes behind the URL of the service."""

    link: str
    expires_at: str

    def __repr__(self) -> str:
        return f"ConsoleLink(expires_at={self.expires_at!r})"


class AccessKeyInfo(Credential):
    """An access key, which requests are signed with; `secret_access_key` is only in the answer that created it."""

    secret_access_key: str | None = None
