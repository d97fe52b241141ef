"""What an endpoint of this face gets: one admitted request; no HTTP in it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_gateway.errors import Forbidden, NotFound, Unauthorized
from kernel_gateway.faces.jupyter.models import Title
from kernel_gateway.identity.principal import ANONYMOUS, Caller, Principal
from kernel_gateway.services.attach.attachments import AttachedPrincipal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

NOBODY = AttachedPrincipal(ANONYMOUS, "")
MOST_TITLES = 1_000
"""Titles that clients have given to sessions, kept in memory; the oldest go."""


@dataclass
class Face:
    """What all requests of this face share: the titles that clients have given to sessions."""

    services: Services
    titles: OrderedDict[str, Title] = field(default_factory=OrderedDict)

    def entitle(self, session_id: str, title: Title) -> None:
        """Remember what a client calls a session."""
        self.titles[session_id] = title
        self.titles.move_to_end(session_id)
        while len(self.titles) > MOST_TITLES:
            self.titles.popitem(last=False)


@dataclass
class Call:
    """One admitted request. `ids` are the address's parameters, `body` is typed."""

    face: Face
    visitor: AttachedPrincipal = NOBODY
    ids: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def services(self) -> Services:
        return self.face.services

    @property
    def principal(self) -> Principal:
        return self.visitor.principal

    @property
    def caller(self) -> Caller:
        """Who calls, and with which credential; raises Unauthorized when it is not known."""
        if self.visitor.caller is None:
            raise Unauthorized
        return self.visitor.caller

    @property
    def session_id(self) -> str:
        """The session that the address names; raises NotFound when it is out of the visitor's reach."""
        return within_reach(self.visitor, self.ids["session_id"])

    def require_owner(self, what: str) -> None:
        """Raises Forbidden for the holder of an attach token."""
        if self.visitor.attached:
            raise Forbidden(f"an attach token does not allow one to {what}; ask the session's owner")


def within_reach(visitor: AttachedPrincipal, session_id: str) -> str:
    """The id, when the visitor may know of that session; raises NotFound."""
    if visitor.session_id not in (None, session_id):
        raise NotFound("there is no such kernel")
    return session_id
