"""What somebody may do whom an identity provider vouches for: lines of a setting, over what the provider says. Pure.

A line is `ROLE CLAIM=VALUE [PRINCIPAL ...]`, quoted as in a shell: who has the claim has the role, and may look at the
sessions of these principals too. Of several lines that fit, the highest role counts and all principals do. `*` is any
value. Who fits no line has no role, and is not let in.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from kernel_gateway.identity.principal import PRINCIPAL_NAME
from sandcell.models.credentials import Scope

Role = Literal["viewer", "user", "administrator"]
SCOPES_OF_ROLES: Final[Mapping[Role, Scope]] = {"viewer": "read", "user": "run", "administrator": "admin"}
"""In order, the lowest first. A role is what a credential of that scope is."""
ANY: Final = "*"


class RoleRule(msgspec.Struct, frozen=True):
    """One line."""

    role: Role
    claim: str
    value: str
    principals: tuple[str, ...]

    def fits(self, claims: Mapping[str, Any]) -> bool:
        found = find_claim(claims, self.claim)
        values = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str) and each]
        return self.value in values or (self.value == ANY and bool(values))


class Rights(msgspec.Struct, frozen=True):
    """What somebody may do, and whose sessions they may look at besides their own."""

    role: Role
    looks_at: tuple[str, ...] = ()


def parse_roles(text: str) -> tuple[RoleRule, ...]:
    """The lines of a setting; raises ValueError."""
    return tuple(_parse(line) for line in text.splitlines() if line.strip())


def find_rights(rules: tuple[RoleRule, ...], claims: Mapping[str, Any]) -> Rights | None:
    """What the rules give somebody with these claims; None: no role."""
    fitting = [each for each in rules if each.fits(claims)]
    roles = [role for role in SCOPES_OF_ROLES if role in {each.role for each in fitting}]
    if not roles:
        return None
    return Rights(roles[-1], tuple(dict.fromkeys(name for each in fitting for name in each.principals)))


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, which may be a path into objects, as `realm_access.roles`; None where there is none."""
    if name in claims:  # names of claims may be URLs, with dots in them
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _parse(line: str) -> RoleRule:
    try:
        role, condition, *principals = shlex.split(line)
    except ValueError:
        raise ValueError(f"{line!r} is not `ROLE CLAIM=VALUE [PRINCIPAL ...]`") from None
    claim, equals, value = condition.partition("=")
    if role not in SCOPES_OF_ROLES:
        raise ValueError(f"{role!r} is no role: viewer, user or administrator")
    if not (claim and equals and value):
        raise ValueError(f"{condition!r} is not CLAIM=VALUE")
    for name in principals:
        if not PRINCIPAL_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no principal's name")
    return RoleRule(cast("Role", role), claim, value, tuple(principals))
