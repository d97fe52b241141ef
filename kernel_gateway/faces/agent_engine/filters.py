"""The `filter` of lists, as far as there is one: comparisons of `state` and `display_name`, joined by AND. Pure.

Of Google's language (AIP-160) this is the part that a list of sandboxes has a use for; the rest is refused, by name.
"""

from __future__ import annotations

import re
from typing import Final

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.json_bodies import quote
from kernel_gateway.storage.agent_engine import EVERYTHING, Wanted

STATES: Final = {"STATE_RUNNING": "READY", "STATE_PAUSED": "HIBERNATED", "STATE_TERMINATED": "TERMINATED"}
"""States that sandboxes here are in, and what their sessions are then."""
OTHER_STATES: Final = frozenset(
    {
        *("STATE_UNSPECIFIED", "STATE_PROVISIONING", "STATE_DEPROVISIONING", "STATE_DELETED"),
        *("STATE_PAUSING", "STATE_RESUMING", "STATE_STOPPING"),
    }
)
"""States that Google has and no sandbox here is ever in."""
_AND: Final = re.compile(r'\s+AND\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', re.IGNORECASE)
_COMPARISON: Final = re.compile(r'(?P<field>\w+)\s*(?P<how>!=|=|:)\s*(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[\w.-]+))')


def parse_filter(text: str, *, states: bool) -> Wanted:
    """What a list is to have; `states`: its items have one. Raises InvalidRequest."""
    wanted = EVERYTHING
    for each in _AND.split(text.strip()) if text.strip() else ():
        found = _COMPARISON.fullmatch(each.strip())
        if found is None:
            raise _refuse(each)
        value, equal = found["plain"] if found["quoted"] is None else found["quoted"], found["how"] != "!="
        if found["field"] == "state" and states:
            wanted = _narrow_state(wanted, value, equal=equal)
        elif found["field"] in ("display_name", "displayName"):
            wanted = _narrow_name(wanted, value, equal=equal)
        else:
            raise _refuse(each)
    return wanted


def _narrow_state(wanted: Wanted, value: str, *, equal: bool) -> Wanted:
    if value not in STATES and value not in OTHER_STATES:
        raise InvalidRequest(f"filter: {quote(value)} is no state of a sandbox", field="filter")
    named = {STATES[value]} if value in STATES else set()
    chosen = named if equal else set(STATES.values()) - named
    before = STATES.values() if wanted.statuses is None else wanted.statuses
    return Wanted(frozenset(chosen & set(before)), wanted.names, wanted.other_names)


def _narrow_name(wanted: Wanted, value: str, *, equal: bool) -> Wanted:
    if not equal:
        return Wanted(wanted.statuses, wanted.names, wanted.other_names | {value})
    names = frozenset({value}) if wanted.names is None else wanted.names & {value}
    return Wanted(wanted.statuses, names, wanted.other_names)


def _refuse(part: str) -> InvalidRequest:
    return InvalidRequest(
        f'filter: {quote(part)} is not understood here: compare state or display_name, as in state="STATE_RUNNING",'
        " and join comparisons by AND",
        field="filter",
    )
