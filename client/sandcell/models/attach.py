"""Values of attach tokens: what a caller asks for, and what is shown of one. Fields may be added, never renamed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model

Right = Literal["restart"]
"""What an attach token may allow in addition to seeing, running and interrupting."""
ATTACH_PREFIX = "sandcell_attach_"
"""What every attach token begins with."""
SHORTEST_SECONDS = 60
LONGEST_SECONDS = 604_800
"""How long an attach token may count: a week."""


class CreateAttachToken(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/attach-tokens`. `name` is the author of the cells that are run with it."""

    name: Annotated[str, constraints.PRINTABLE, msgspec.Meta(max_length=200)] = ""
    ttl_seconds: Annotated[int, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)] = 3_600
    can: Annotated[list[Right], msgspec.Meta(max_length=1)] = msgspec.field(default_factory=list)


class AttachToken(Model):
    """Lets Jupyter clients attach to one session; `token` is present only in the answer that created it.

    It ends at `expires_at`, when it is revoked, and with the session.
    """

    id: str
    session_id: str
    name: str
    can: list[Right]
    created_at: str
    expires_at: str
    revoked_at: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"AttachToken(id={self.id!r}, session_id={self.session_id!r}, name={self.name!r}, can={self.can!r})"
