"""The values of principals: who there is, who is disabled, what each may have."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sandcell.models.model import Model
from sandcell.models.sessions import Session

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class PrincipalInfo(Model):
    """A principal as administrators see it; it may have `live_sessions_most` sessions at once."""

    name: str
    admin: bool
    created_at: str
    disabled_at: str | None
    live_sessions: int
    live_sessions_most: int


class DisablePrincipal(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/principals/{principal}/disable`: what becomes of its live sessions.

    They are stopped, or with `hand_over` become those of the principal `to`, with their workspaces.
    """

    sessions: Literal["stop", "hand_over"] = "stop"
    to: Name | None = None


class Disabled(Model):
    """A principal that was disabled: open calls that were hung up on, sessions that end or were handed over."""

    name: str
    disabled_at: str
    calls: int
    sessions: list[str]
    handed_to: str | None = None


class SetQuota(Model, forbid_unknown_fields=True):
    """Body of `PUT /v1/principals/{principal}/quota`; null: what the settings say."""

    live_sessions: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None


class OwnedSession(Session, kw_only=True):
    """A session as administrators see it: with whose it is."""

    principal: str
