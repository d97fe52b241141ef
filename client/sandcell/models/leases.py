"""Values of leases: what a caller asks for, and what is shown of one. Fields may be added, never renamed."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sandcell.models.model import Model

LONGEST_LEASE_SECONDS = 3_600


class TakeLease(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/lease`. `name` says who holds it; without, it is the principal."""

    seconds: Annotated[float, msgspec.Meta(ge=1, le=LONGEST_LEASE_SECONDS)] = 600
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Lease(Model):
    """While it lasts, cells of attached clients run, and executions that name its `id`; all others wait.

    `id` is present only in the answer to the caller who takes or renews it.
    """

    holder: str
    expires_at: str
    id: str | None = None
