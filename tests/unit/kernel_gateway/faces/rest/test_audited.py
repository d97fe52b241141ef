"""Every route of the table has a name of its own in the audit log, and hides what it should."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import msgspec

from kernel_gateway.faces.rest.table import TABLE
from kernel_gateway.services.audit.parameters import COUNTED, HASHED, OPEN, SHOWN


def test_no_two_routes_share_a_name() -> None:
    events = Counter(route.event for route in TABLE if not route.public)
    assert [event for event, count in events.items() if count > 1] == []


def test_of_every_parameter_somebody_has_thought() -> None:
    """A text member of a body or a query is shown, hashed or open: a new one makes this fail."""
    known = SHOWN | HASHED | OPEN | COUNTED
    for route in TABLE:
        for of in (route.body, route.query):
            if of is not None and of is not dict:
                unknown = [
                    each.name for each in msgspec.structs.fields(of) if _text(each.type) and each.name not in known
                ]
                assert unknown == [], f"{route.method} {route.path}: decide about {unknown} in audit_parameters"


def _text(of: Any) -> bool:
    return of is str or any(_text(each) for each in get_args(of) if isinstance(each, type) or get_args(each))
