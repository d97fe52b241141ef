"""Values as a person reads them in a table: how long ago, how much. Pure; the clock is passed in."""

from __future__ import annotations

import re
from datetime import datetime

from sandcell.models.network import EndpointInfo, Network
from sandcell.models.sync import Sync

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def format_value(value: object, now: datetime) -> str:
    """A time of the service as its distance from now; anything else as it is; nothing for None."""
    text = "" if value is None else str(value)
    return format_distance(datetime.fromisoformat(text), now) if TIME.fullmatch(text) else text


def format_distance(moment: datetime, now: datetime) -> str:
    """`in 15 min`, `3 h ago`; the largest unit of which there are two at least, that no figure is far off."""
    seconds = round((moment - now).total_seconds())
    size, unit = next((row for row in UNITS if abs(seconds) >= 2 * row[0]), UNITS[-1])
    amount = f"{round(abs(seconds) / size)} {unit}"
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def describe_network(policy: Network) -> str:
    """Mode, endpoints, role and package index on one line."""
    said = [str(policy.mode)]
    if policy.allow:
        said.append(", ".join(format_endpoint(each) for each in policy.allow))
    if policy.role is not None:
        said.append(f"s3://{policy.role.bucket}/{policy.role.prefix} ({policy.role.access})")
    if policy.index_url:
        said.append(f"packages from {policy.index_url}")
    return "; ".join(said)


def format_endpoint(one: EndpointInfo) -> str:
    """As the environments file has it; what narrows it in parentheses."""
    host = f"[{one.host}]" if ":" in one.host else one.host
    narrowed = " ".join(part for part in (" ".join(one.methods), one.path_prefix) if part)
    return f"{host}:{one.port}" + (f" ({narrowed})" if narrowed else "")


def format_megabytes(count: int) -> str:
    """Bytes as megabytes of 2^20, as the settings count memory and disk."""
    return f"{count / 2**20:,.0f} MB"


def describe_sync(sync: Sync) -> str:
    """How far the files of a session are in the store, on one line."""
    if sync.restoring is not None and sync.restoring.files_left is not None:
        left = f"{sync.restoring.files_left:,} files, {format_megabytes(sync.restoring.bytes_left or 0)}"
        return f"restoring: {left} to come" + (f" ({sync.restoring.error})" if sync.restoring.error else "")
    if not sync.pending:
        return sync.error or sync.last_flush_at or "nothing yet"
    waiting = "waiting"
    if sync.pending_files:
        waiting += f": {sync.pending_files:,} files, {format_megabytes(sync.pending_bytes)}"
    return f"{waiting} ({sync.error})" if sync.error else waiting
