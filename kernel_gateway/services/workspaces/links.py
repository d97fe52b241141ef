"""Links whose holders read one durable file straight from the store, for a while.

The audit log has who asked for which; the link itself is in no log. A link cannot be revoked.
"""

from __future__ import annotations

from kernel_gateway.errors import Conflict, InvalidRequest, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.settings import Settings
from sandcell.models.workspaces import CreateLink, Link


class WorkspaceLinks:
    """Only a store like S3 has them."""

    def __init__(self, settings: Settings, clock: Clock, mirrors: Mirrors, access: WorkspaceAccess) -> None:
        self._settings = settings
        self._clock = clock
        self._mirrors = mirrors
        self._access = access

    async def create(self, principal: Principal, workspace_id: str, body: CreateLink) -> Link:
        """A link to a file as it is in the store then. Raises NotFound, Conflict, InvalidRequest, StoreUnavailable."""
        durable = await self._access.open(principal, workspace_id)
        most, seconds = self._settings.link_lifetime_max_seconds, body.lifetime_seconds
        if not most:
            raise Conflict(
                "links are turned off here (link_lifetime_max_seconds): download the file", reason="no_links"
            )
        if not 1 <= seconds <= most:
            raise InvalidRequest(f"lifetime_seconds must be between 1 and {most:,}", field="lifetime_seconds")
        expires = self._clock.now() + seconds
        with translated():
            info, url = await self._mirrors.run_durable(principal.id, lambda: durable.presign(body.path, seconds))
        if url is None:
            raise Conflict(
                "workspaces are kept in a directory of this host, to which there are no links: download the file "
                f"with GET /v1/workspaces/{workspace_id}/files/{{path}}",
                reason="no_links",
            )
        return Link(url, info.path, info.size, rfc3339(expires))
