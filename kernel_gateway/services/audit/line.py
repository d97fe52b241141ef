"""One audit record as a line of JSON, in CloudTrail's names, and its hash: what every place outside gets. Pure.

The line says everything that is stored of the record, its number and the hash of the record before it; its last member
is the SHA-256 of the line without that member. So a line can be checked by itself, two by each other, and all of them
against the database, from which the same line can be made again. What is written here must therefore never change for
a record that exists: a record in another form would need a mark by which the old form is known.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any, Final

import msgspec

from kernel_gateway.services.audit.api_call import API
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage.audit import AuditRow
from kernel_gateway.storage.columns import micros, to_json

NO_HASH: Final = "0" * 64
"""What stands for the record before the first one."""
_HASH: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')


class Link(msgspec.Struct, rename="camel"):
    """A record's place in the chain, and its columns as they are stored; `at` is in microseconds."""

    number: int
    previous: str
    at: int
    kind: str
    event: str
    allowed: bool
    reason: str
    target: str
    principal_id: str | None
    session_id: str | None


class Linked(msgspec.Struct):
    """A line, as far as it is read."""

    chain: Link


class Line(msgspec.Struct, frozen=True):
    """A line that was read: what it says of its place, and whether its hash is that of its text."""

    link: Link
    hash: str
    whole: bool
    body: bytes


class Entry(msgspec.Struct, frozen=True):
    """A record with its place in the chain, and the line that tells of it, with its end."""

    row: AuditRow
    line: bytes

    @property
    def number(self) -> int:
        return self.row.number


def link_row(row: AuditRow, number: int, previous: str) -> Entry:
    """Give a record its place in the chain."""
    placed = replace(row, number=number)
    text = body(placed, previous)
    return _entry(replace(placed, hash=hashlib.sha256(text).hexdigest()), text)


def entry(row: AuditRow, previous: str) -> Entry:
    """What `link_row` made once, again from what is stored."""
    return _entry(row, body(row, previous))


def hash_of(row: AuditRow, previous: str) -> str:
    """What the record's hash should be, after a record with this hash."""
    return hashlib.sha256(body(row, previous)).hexdigest()


def _entry(row: AuditRow, text: bytes) -> Entry:
    return Entry(row, b'%s,"hash":"%s"}\n' % (text[:-1], (row.hash or "").encode()))


def body(row: AuditRow, previous: str) -> bytes:
    """What the hash is of. Different columns never give the same: each is in `chain`, and the detail is before it."""
    link = Link(
        number=row.number,
        previous=previous,
        at=micros(row.at),
        kind=row.kind,
        event=row.event,
        allowed=row.allowed,
        reason=row.reason,
        target=row.target,
        principal_id=row.principal_id,
        session_id=row.session_id,
    )
    event = row.detail if row.kind == API else _event_of(row)
    if not event.endswith(b"}"):  # the detail was an object when it was written
        return event
    comma = b"" if event == b"{}" else b","
    return b'%s%s"chain":%s}' % (event[:-1], comma, to_json(link))


def read_line(text: bytes) -> Line | None:
    """A line without its end; None for one that has no place in a chain."""
    found = _HASH.search(text)
    if found is None:
        return None
    hashed = text[: found.start()] + b"}"
    try:
        link = msgspec.json.decode(hashed, type=Linked).chain
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    digest = found[1].decode()
    return Line(link, digest, hashlib.sha256(hashed).hexdigest() == digest, hashed)


def _event_of(row: AuditRow) -> bytes:
    """A record that is no call of an interface, in the names of those that are."""
    code, _, message = row.reason.partition(": ")
    event: dict[str, Any] = {
        "eventTime": rfc3339(row.at),
        "eventSource": f"{row.kind}.sandcell",
        "eventName": row.event,
        "userIdentity": {"type": "Principal" if row.principal_id else "Unknown", "principalId": row.principal_id},
        **({} if row.allowed else {"errorCode": code, "errorMessage": message}),
        "additionalEventData": {
            "address": row.target,
            "sessionId": row.session_id,
            "reason": row.reason,
            "detail": msgspec.Raw(row.detail),
        },
    }
    return to_json(event)
