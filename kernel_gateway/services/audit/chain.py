"""The chain through the audit log: each record holds the hash of the one before it, and both ends are signed.

The head says which record is the last, the floor which was the last that retention removed. Both are rows that change
in the transaction of the records they speak of, so that no crash can part them. A digest is a record that signs for a
range of records, and for the digest before it: who has it from a sink can prove later what the range was.

A head that is not as this service left it (it is gone, went back, or is signed with another key) is never continued: a
record `chain_broken` says so and begins the next chain, so that the break stays to be seen. Everything here runs in a
transaction of the caller's; what `write` and `digest` return counts when that is committed, which `confirm` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from kernel_gateway.errors import StartRefused
from kernel_gateway.identity.audit_key import AuditKey, PublicKey
from kernel_gateway.services.audit.line import NO_HASH, Entry, entry, link_row
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage import audit, audit_chain
from kernel_gateway.storage.audit import AuditRow
from kernel_gateway.storage.audit_chain import FLOOR, HEAD, Signed
from kernel_gateway.storage.columns import micros, to_json

DIGEST: Final = "digest"
BROKEN: Final = "chain_broken"
KIND: Final = "audit"
DIGEST_SECONDS: Final = 3_600.0


class Head(msgspec.Struct, frozen=True):
    """The last record. Digests sign for all until `covered`; `digest` is the last one's signature, or empty."""

    number: int
    hash: str
    at: int
    covered: int
    digested_at: float
    digest: str = ""


class Floor(msgspec.Struct, frozen=True):
    """The record before the oldest one that is kept. `began` is the number of the chain's first record ever."""

    number: int
    hash: str
    began: int


class Digest(msgspec.Struct, frozen=True):
    """What a digest signs: the range, the hashes of its two ends, and the signature of the digest before it."""

    at: str
    first: int
    last: int
    first_hash: str
    last_hash: str
    previous: str
    key: str


class SignedDigest(msgspec.Struct, frozen=True):
    """The detail of a digest's record; the signature is of `digest` as it is written there."""

    digest: Digest
    signature: str


class Written(msgspec.Struct, frozen=True):
    """What became of records: their places, their lines, and the head after them."""

    entries: list[Entry]
    head: Head


class _End(msgspec.Struct, frozen=True):
    """Behind what the next record goes; the floor when it is the first; the record of a break that comes before it."""

    head: Head
    floor: Floor | None = None
    broken: Entry | None = None


class AuditChain:
    """`write`, `digest` and `prune` in transactions of the caller's."""

    def __init__(self, directory: Path, secrets_key: str = "") -> None:
        self._directory = directory
        self._secrets_key = secrets_key
        self._confirmed: Head | None = None
        self._statement = b""

    @cached_property
    def key(self) -> AuditKey:
        """Raises StartRefused."""
        return AuditKey.in_directory(self._directory, self._secrets_key)

    def require_key(self, connection: Connection) -> None:
        """Raises StartRefused where others sign the chain with another key: each record would break it."""
        found = audit_chain.find_statement(connection, HEAD)
        if found is not None and verify_head(self.key.public, found) is None:
            raise StartRefused(
                "the audit log's chain is signed with another key than this gateway's: give it the file"
                " state/audit.key of the service that began the chain"
            )

    @property
    def last_number(self) -> int:
        """The newest record that this process has written; 0 before the first."""
        return self._confirmed.number if self._confirmed is not None else 0

    def confirm(self, head: Head) -> None:
        """This head is in the database."""
        self._confirmed, self._statement = head, to_json(head)

    def write(self, connection: Connection, rows: Sequence[AuditRow], now: float) -> Written:
        """Store records behind the last one."""
        end = self._end(connection, now)
        if end.floor is not None:
            self._put(connection, FLOOR, to_json(end.floor))
        entries = [] if end.broken is None else [end.broken]
        number, last = end.head.number, end.head.hash
        for row in rows:
            number += 1
            entries.append(link_row(row, number, last))
            last = entries[-1].row.hash or ""
        return self._store(connection, entries, end.head)

    def digest(self, connection: Connection, now: float) -> Written | None:
        """Store a digest when it is time for one and there are records that none covers."""
        end = self._end(connection, now)
        head = end.head
        new = head.number - head.covered - bool(head.digest)  # the last digest's own record needs no other
        if end.broken or end.floor or new <= 0 or now - head.digested_at < DIGEST_SECONDS:
            return None
        first = head.covered + 1
        digest = Digest(
            at=rfc3339(now),
            first=first,
            last=head.number,
            first_hash=audit_chain.hash_at(connection, first) or "",
            last_hash=head.hash,
            previous=head.digest,
            key=self.key.public.text,
        )
        signature = self.key.sign(DIGEST, to_json(digest)).hex()
        row = AuditRow(now, KIND, DIGEST, allowed=True, detail=to_json(SignedDigest(digest, signature)))
        last = link_row(row, head.number + 1, head.hash)
        covered = msgspec.structs.replace(head, covered=head.number, digested_at=now, digest=signature)
        return self._store(connection, [last], covered)

    def digest_due(self, now: float) -> bool:
        """Whether it is worth asking the database."""
        head = self._confirmed
        return head is None or (now - head.digested_at >= DIGEST_SECONDS and head.number > head.covered)

    def prune(self, connection: Connection, *, now: float, before: float, keep: int, at_once: int) -> int:
        """Remove records from the old end: those from before that time, and more than `keep`. Says how many.

        A record that is young keeps all behind it, whatever their times: only whole ends can be cut off. One that is
        dated in the future is as old as the next that is not: the clock was wrong, the order of numbers never is.
        """
        newest, limit, removed = audit_chain.newest(connection), micros(before), 0
        last: Any = None
        for row, at in _date(connection, audit_chain.oldest(connection, at_once), micros(now)):
            if at >= limit and row.number > newest - keep:
                break
            removed, last = removed + 1, row
        if last is None:
            return 0
        found = audit_chain.find_statement(connection, FLOOR)
        floor = None if found is None else decode_floor(found[0])
        if floor is not None and last.number > floor.number:
            self._put(connection, FLOOR, to_json(Floor(last.number, last.hash or NO_HASH, floor.began)))
        audit_chain.remove_until(connection, last.number)
        return removed

    def _store(self, connection: Connection, entries: list[Entry], head: Head) -> Written:
        last = entries[-1].row
        after = msgspec.structs.replace(head, number=last.number, hash=last.hash or "", at=micros(last.at))
        audit.add_all(connection, [each.row for each in entries])
        self._put(connection, HEAD, to_json(after))
        return Written(entries, after)

    def _put(self, connection: Connection, name: str, said: bytes) -> None:
        audit_chain.put_statement(connection, name, said, self.key.sign(name, said))

    def _end(self, connection: Connection, now: float) -> _End:
        """Where the next record goes."""
        found, newest = audit_chain.last_link(connection)
        head, why = self._examine(connection, found)
        if head is not None:
            if newest <= head.number:
                return _End(head)
            why = f"record {newest} is behind the chain's head, which is {head.number}"
        if not why:
            return _End(Head(newest, NO_HASH, micros(now), newest, now), floor=Floor(newest, NO_HASH, newest + 1))
        known = self._confirmed.number if self._confirmed else 0
        number = max(newest, known, audit_chain.furthest(connection)) + 1  # one that no sink has had
        row = AuditRow(now, KIND, BROKEN, allowed=False, reason=f"{BROKEN}: {why}")
        first = link_row(row, number, NO_HASH)
        return _End(Head(number, first.row.hash or "", micros(now), number - 1, now), broken=first)

    def _examine(self, connection: Connection, found: Signed | None) -> tuple[Head | None, str]:
        """The head that is stored, or why it cannot be continued; neither when there has never been one."""
        known = self._confirmed
        if found is None:
            ever = known is not None or audit_chain.has_links(connection)
            gone = ever or audit_chain.find_statement(connection, FLOOR) is not None
            return None, "the chain's head is gone" if gone else ""
        if known is not None and found[0] == self._statement:  # as this process left it
            return known, ""
        head = verify_head(self.key.public, found)
        if head is None:
            return None, "the chain's head is not signed with this service's key"
        if known is not None and head.number <= known.number:
            return None, f"the chain's head went back from record {known.number} to {head.number}"
        return head, ""


def _date(connection: Connection, rows: Sequence[Any], now: int) -> list[tuple[Any, float]]:
    """Rows that follow each other, and when each was written at the latest; infinity when nothing says that."""
    following: float = math.inf
    if rows and rows[-1].at > now:
        found = audit_chain.first_time_after(connection, rows[-1].number, until=now)
        following = math.inf if found is None else found
    dated = []
    for row in reversed(rows):
        following = row.at if row.at <= now else following
        dated.append((row, following))
    return dated[::-1]


def verify_head(key: PublicKey, found: Signed) -> Head | None:
    return decode_head(found[0]) if key.verifies(HEAD, *found) else None


def decode_head(said: bytes) -> Head | None:
    """What a head says, signed or not."""
    try:
        return msgspec.json.decode(said, type=Head)
    except msgspec.DecodeError:
        return None


def decode_floor(said: bytes) -> Floor | None:
    """What a floor says, signed or not."""
    try:
        return msgspec.json.decode(said, type=Floor)
    except msgspec.DecodeError:
        return None


def decode_digest(detail: bytes) -> SignedDigest | None:
    """A digest from the detail of its record."""
    try:
        return msgspec.json.decode(detail, type=SignedDigest)
    except (msgspec.DecodeError, TypeError):
        return None


def signs(key: PublicKey, signed: SignedDigest) -> bool:
    """Whether a digest's signature is this key's."""
    try:
        return key.verifies(DIGEST, to_json(signed.digest), bytes.fromhex(signed.signature))
    except ValueError:
        return False


def entries_after(connection: Connection, number: int, most: int) -> list[Entry]:
    """Records that come after this number, again as the entries they were written as."""
    rows = audit_chain.after(connection, number, most)
    previous = audit_chain.hash_at(connection, number) if rows else None
    if rows and previous is None:
        found = audit_chain.find_statement(connection, FLOOR)
        floor = None if found is None else decode_floor(found[0])
        previous = floor.hash if floor is not None and floor.number == rows[0].number - 1 else None
    entries = []
    for row in rows:
        if previous is None or (row.kind, row.event) == (KIND, BROKEN):
            previous = NO_HASH
        entries.append(entry(row, previous))
        previous = row.hash
    return entries
