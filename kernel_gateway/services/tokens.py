"""Bearer tokens, for administrators: create, list, revoke."""

from __future__ import annotations

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import Page, TokenInfo


class Tokens:
    """Raises Forbidden for everybody but administrators."""

    async def create(self, principal: Principal, principal_name: str, token_name: str = "") -> TokenInfo:
        """A new token of that principal, who is created when new; the answer alone carries the secret."""
        raise NotImplementedError

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[TokenInfo]:
        raise NotImplementedError

    async def revoke(self, principal: Principal, token_id: str) -> TokenInfo:
        """The token counts no longer, from now on."""
        raise NotImplementedError
