"""Access keys, which requests are signed with: administrators create, list and revoke them; faces find them."""

from __future__ import annotations

from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock
from kernel_gateway.settings import Settings
from kernel_gateway.shapes import AccessKeyInfo, Page
from kernel_gateway.storage.database import Database


class AccessKeys:
    """`create`, `list` and `revoke` raise Forbidden for everybody but administrators."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock

    async def open(self) -> None:
        """Read or make the key that secrets are sealed with; take the given access key as the administrator's."""

    async def create(self, principal: Principal, principal_name: str, key_name: str = "") -> AccessKeyInfo:
        """A new key of that principal, who is created when new; the answer alone carries the secret."""
        raise NotImplementedError

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[AccessKeyInfo]:
        """Every principal's keys, oldest first, revoked ones too."""
        raise NotImplementedError

    async def revoke(self, principal: Principal, key_id: str) -> AccessKeyInfo:
        """The key counts no longer, from now on."""
        raise NotImplementedError

    async def find(self, access_key_id: str) -> tuple[Principal, str]:
        """Whose key this is, and its secret; raises SignatureProblem, the same for every key that does not count."""
        raise NotImplementedError
