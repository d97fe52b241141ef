"""What a request is for where neither its address nor its body names it, but its caller's credentials tell.

Nobody is let in here: who cannot be told is answered by a face, which says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from tornado.httputil import HTTPServerRequest

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.e2b.identifiers import parse_key
from kernel_gateway.faces.librechat.identifiers import find_token
from kernel_gateway.faces.librechat.places import find_named_workspace
from kernel_gateway.storage import hibernations

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

SIGNED_PATH: Final = "/files"
"""Where addresses of E2B's clients lead that they have signed."""
LONGEST_QUERY: Final = 16_384


class Signs:
    """Asked by one gateway of several."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def find_signed(self, request: HTTPServerRequest) -> str:
        """The session of a signed address; empty: none that is known."""
        if len(request.query) > LONGEST_QUERY:
            return ""
        query = {name: values[-1] for name, values in parse_qs(request.query, keep_blank_values=True).items()}
        try:
            session_id, _ = await self._services.sandbox_tokens.find_signer(
                query.get("signature", ""),
                path=query.get("path", ""),
                operation="read" if request.method == "GET" else "write",
                user=query.get("username", ""),
                expiration=query.get("signature_expiration", ""),
            )
        except GatewayError:
            return ""
        return session_id

    async def find_conversation(self, request: HTTPServerRequest, hint: str) -> str:
        """The workspace of a conversation that LibreChat names; empty for a caller who is nobody."""
        try:
            caller = await self._services.identity.authenticate(find_token(request.headers))
        except GatewayError:
            return ""
        return await find_named_workspace(self._services, caller.principal, hint)

    async def find_snapshot(self, request: HTTPServerRequest, name: str) -> str:
        """The session of a snapshot of E2B's clients by its id or name; empty: the caller has none of it."""
        services = self._services
        try:
            caller = await services.identity.authenticate(parse_key(request.headers.get("X-Api-Key", "")))
            found = await services.database.run(lambda c: hibernations.find_snapshot(c, caller.principal.id, name))
        except GatewayError:
            return ""
        return found or ""
