"""Whether the audit log is as it was written: the database by its chain, and files of its lines by theirs.

The first record that is changed, missing or too many is named; what comes after it is not looked at, since nothing
vouches for it any more. Nothing is changed, and nothing is believed that the chain or a signature does not hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Connection

from kernel_gateway.identity.audit_key import PublicKey
from kernel_gateway.services.audit import chain
from kernel_gateway.services.audit.line import NO_HASH, Line, Link, Linked, body, hash_of, read_line
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage import audit_chain as stored
from kernel_gateway.storage.audit import AuditRow, row_of
from kernel_gateway.storage.columns import seconds

_REMEMBERED: Final = 100_000
"""Lines before the current one of which one may come again: a service that was killed delivers its last ones twice."""
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "at": int,
    "principal_id": (str, type(None)),
    "session_id": (str, type(None)),
    "kind": str,
    "event": str,
    "reason": str,
    "target": str,
    "detail": bytes,
}


class Problem(msgspec.Struct):
    """What is wrong, and with which record; none: with the chain's ends."""

    text: str
    number: int | None = None


class Report(msgspec.Struct):
    """What was looked at and found. `signed` is whether signatures were verified: that takes the public key."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    digests: int = 0
    outside: int = 0
    signed: bool = False
    problems: list[Problem] = msgspec.field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not self.problems

    def count(self, number: int) -> None:
        self.records += 1
        self.first, self.last = self.first or number, number


def verify_database(connection: Connection, key: PublicKey | None) -> Report:
    """The chain of the database. `outside` are records that are older than it."""
    walk = DatabaseWalk(key)
    while not walk.take(stored.read_slice(connection, walk.place, stored.READ_AT_ONCE)):
        pass
    return walk.report


def verify_lines(lines: Iterable[bytes], key: PublicKey | None, connection: Connection | None = None) -> Report:
    """Lines of files, oldest first; with a connection against the database too. `outside` are lines of no chain."""
    walk = _LineWalk(key, connection)
    for text in lines:
        problem = walk.take(text)
        if problem is not None:
            walk.report.problems.append(problem)
            break
    if not walk.report.records and not walk.report.problems:
        walk.report.problems.append(Problem("there is no line in it that belongs to the chain"))
    return walk.report


class DatabaseWalk:
    """From the floor to the head, slice by slice: `take` them in order, each from `place` on, until it says the end.

    What is written meanwhile is looked at too. What retention removes meanwhile is not missed: the floor says so.
    """

    def __init__(self, key: PublicKey | None) -> None:
        self.report = Report(signed=key is not None)
        self.place: int | None = None
        self.newest = 0
        self._key = key
        self._head: chain.Head | None = None
        self._floor_found: stored.Signed | None = None
        self._floor = chain.Floor(0, NO_HASH, 1)
        self._number = -1
        self._previous, self._before = NO_HASH, ""
        self._digests = _Digests(key)

    def take(self, taken: stored.Slice) -> bool:
        """Look at the next records; says whether it is over, at the end or at the first that is not as it was."""
        if taken.empty:
            text = "there is no chain: nothing has been recorded yet, or all of it was removed"
            self.report.problems.append(Problem(text))
            return True
        self._head = chain.decode_head(taken.head[0]) if taken.head else None
        self.newest = self._head.number if self._head is not None else self.newest
        problem = self._take_floor(taken.floor)
        following = [*taken.rows[1:], taken.following]
        for raw, behind in zip(taken.rows, following, strict=False):
            problem = problem or self._look_at(raw, behind)
            self.place = raw.number
        self.report.digests = self._digests.count
        if problem is None and taken.following is not None:
            return False
        problem = problem or self._beyond(self._number, self._previous, self._before)
        ends = [
            self._end(stored.FLOOR, taken.floor, chain.decode_floor(taken.floor[0]) if taken.floor else None),
            self._end(stored.HEAD, taken.head, self._head),
        ]
        self.report.problems += [each for each in (problem, *ends) if each is not None]
        return True

    def _take_floor(self, found: stored.Signed | None) -> Problem | None:
        """Where the chain begins now: at the start, and when retention has cut off more of it."""
        if found == self._floor_found and self._number >= 0:
            return None
        begins, self._floor_found = self._number < 0, found
        self._floor = (chain.decode_floor(found[0]) if found else None) or chain.Floor(0, NO_HASH, 1)
        if begins or self._floor.number > self._number:
            self._number, self._previous, self._before = self._floor.number, self._floor.hash, ""
        return None if begins else self._end(stored.FLOOR, found, self._floor)

    def _look_at(self, raw: Any, following: Any) -> Problem | None:
        """One record."""
        floor = self._floor
        if raw.number <= floor.number:
            if raw.number < floor.began:
                self.report.outside += 1
                return None
            return Problem(f"record {raw.number} is there again: retention had removed it", raw.number)
        row = _row(raw)
        if raw.number != self._number + 1:
            return _missing(self._number + 1, raw.number - 1, self._before, _time(row))
        if row is not None and (row.kind, row.event) == (chain.KIND, chain.BROKEN):
            return _describe_break(row)
        found = None if row is None else hash_of(row, self._previous)
        if row is None or found != raw.hash:
            return self._describe_change(raw, row, found, following)
        problem = self._digests.take(row, self._previous)
        if problem is None:
            self._number, self._previous, self._before = raw.number, raw.hash, _time(row)
            self.report.count(raw.number)
        return problem

    def _beyond(self, number: int, last: str, before: str) -> Problem | None:
        head = self._head
        if head is None:
            return None
        if head.number > number:
            return _missing(number + 1, head.number, before, "")
        if head.number < number:
            return Problem(f"record {head.number + 1} is behind the chain's head: it was added", head.number + 1)
        if head.hash != last:
            return Problem(f"the chain's head has another hash than record {number}, the last one", number)
        return None

    def _describe_change(self, raw: Any, row: AuditRow | None, found: str | None, following: Any) -> Problem:
        """What follows says which is as it was: the record or its hash."""
        what = "it, or its hash, was changed"
        behind = None if following is None else _row(following)
        if behind is not None:
            if raw.hash and hash_of(behind, raw.hash) == following.hash:
                what = "its columns were changed, its hash was not"
            elif found is not None and hash_of(behind, found) == following.hash:
                what = "its hash was changed, its columns were not"
        elif self._head is not None and self._head.number == raw.number:
            if raw.hash == self._head.hash:
                what = "its columns were changed, its hash was not"
            elif found == self._head.hash:
                what = "its hash was changed, its columns were not"
        if not raw.hash:
            what = "it has no hash: it was added, or its hash was removed"
        which = "" if row is None else f", {row.event} of {_time(row)},"
        return Problem(f"record {raw.number}{which} is not as it was written: {what}", raw.number)

    def _end(self, name: str, found: stored.Signed | None, read: object) -> Problem | None:
        if found is None:
            return Problem(f"the chain's {name} is gone")
        if self._key is not None and not self._key.verifies(name, *found):
            return Problem(f"the chain's {name} is not signed with this key: it was forged, or the key is another")
        if read is None:
            return Problem(f"the chain's {name} cannot be read")
        return None


@dataclass
class _Digests:
    """Digests, in order, each against what it signs for."""

    key: PublicKey | None
    count: int = 0
    signature: str = ""
    hashes: dict[int, str] = field(default_factory=dict)

    def take(self, row: AuditRow, previous: str) -> Problem | None:
        if (row.kind, row.event) != (chain.KIND, chain.DIGEST):
            return None
        return self.check(row.number, row.detail, previous)

    def check(self, number: int, detail: bytes, previous: str) -> Problem | None:
        """`previous` is the hash of the record before it, the last that it signs for."""
        self.count += 1
        signed = chain.decode_digest(detail)
        if signed is None:
            return Problem(f"record {number}, a digest, cannot be read", number)
        before, self.signature = self.signature, signed.signature
        if signed.digest.last_hash != previous or (before and signed.digest.previous not in {"", before}):
            return Problem(f"record {number}, a digest, signs for other records than those before it", number)
        if self.key is not None and not chain.signs(self.key, signed):
            return Problem(f"record {number}, a digest, is not signed with this key", number)
        return None


class _EventData(msgspec.Struct):
    detail: msgspec.Raw


class _Detailed(msgspec.Struct, rename="camel"):
    additional_event_data: _EventData


class _LineWalk:
    """Line after line."""

    def __init__(self, key: PublicKey | None, connection: Connection | None) -> None:
        self.report = Report(signed=key is not None)
        self._key = key
        self._connection = connection
        self._digests = _Digests(key)
        self._last: Line | None = None
        self._seen: OrderedDict[int, str] = OrderedDict()

    def take(self, text: bytes) -> Problem | None:
        line = read_line(text)
        if line is None:
            self.report.outside += bool(text.strip())
            return None
        number, last = line.link.number, self._last
        if not line.whole:
            return Problem(
                f"record {number}, {_describe(line)}, is not as it was written: its hash is of another line", number
            )
        if number in self._seen:
            return None if self._seen[number] == line.hash else Problem(f"there are two records {number}", number)
        problem = self._follows(line, last) or self._digest(line) or self._in_database(line)
        if problem is not None:
            return problem
        self._last, self._seen[number] = line, line.hash
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        self.report.count(number)
        return None

    def _follows(self, line: Line, last: Line | None) -> Problem | None:
        link = line.link
        if (link.kind, link.event) == (chain.KIND, chain.BROKEN):
            return Problem(f"record {link.number}, {_describe(line)}: {link.reason}", link.number)
        if last is None:
            return None
        if link.number <= last.link.number:
            return Problem(
                f"record {link.number}, {_describe(line)}, comes after record {last.link.number}", link.number
            )
        if link.number != last.link.number + 1:
            return _missing(last.link.number + 1, link.number - 1, _micros(last.link.at), _micros(link.at))
        if link.previous != last.hash:
            return Problem(
                f"record {link.number}, {_describe(line)}, follows another record {last.link.number}", link.number
            )
        return None

    def _digest(self, line: Line) -> Problem | None:
        if (line.link.kind, line.link.event) != (chain.KIND, chain.DIGEST):
            return None
        try:
            detail = bytes(msgspec.json.decode(line.body, type=_Detailed).additional_event_data.detail)
        except msgspec.DecodeError:
            detail = b""
        problem = self._digests.check(line.link.number, detail, line.link.previous)
        self.report.digests = self._digests.count
        return problem

    def _in_database(self, line: Line) -> Problem | None:
        """The database has the same record, or retention has removed it."""
        if self._connection is None:
            return None
        found = stored.find_statement(self._connection, stored.FLOOR)
        floor = chain.decode_floor(found[0]) if found else None
        number = line.link.number
        raw = stored.raw_at(self._connection, number)
        if raw is None:
            if floor is not None and number <= floor.number:
                return None
            return Problem(f"record {number}, {_describe(line)}, is not in the database", number)
        row = _row(raw)
        differing = ["types of columns"] if row is None else _differing(row, line)
        if not differing:
            return None
        return Problem(
            f"record {number}, {_describe(line)}, is another in the database: {', '.join(differing)}", number
        )


def _differing(row: AuditRow, line: Line) -> list[str]:
    """What the database has otherwise than the line."""
    text = body(row, line.link.previous)
    if text == line.body:
        return []
    try:
        here = msgspec.json.decode(text, type=Linked).chain
    except msgspec.DecodeError:
        return ["detail"]
    return [name for name in Link.__struct_fields__ if getattr(here, name) != getattr(line.link, name)] or ["detail"]


def _row(raw: Any) -> AuditRow | None:
    """A row, unless something has put values into it that the service never writes."""
    if any(not isinstance(getattr(raw, name), kind) for name, kind in _TYPES.items()):
        return None
    row = row_of(raw)
    try:
        body(row, NO_HASH)
    except (ValueError, OverflowError):
        return None
    return row


def _missing(first: int, last: int, before: str, after: str) -> Problem:
    what = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
    between = f", made after {before}" if before else ""
    between += f"{' and' if before else ', made'} before {after}" if after else ""
    if not after:
        what, between = f"{what} at the end", f"{between}: the chain's head says that they were there"
    return Problem(what + between, first)


def _describe_break(row: AuditRow) -> Problem:
    return Problem(
        f"record {row.number} of {_time(row)}: the service found the chain broken before it ({row.reason})", row.number
    )


def _time(row: AuditRow | None) -> str:
    return "" if row is None else rfc3339(row.at)


def _micros(at: int) -> str:
    try:
        return rfc3339(seconds(at))
    except (ValueError, OverflowError):
        return f"{at} us"


def _describe(line: Line) -> str:
    return f"{line.link.event} of {_micros(line.link.at)}"


def lines_in_order(files: Iterable[Path]) -> Iterator[bytes]:
    """The lines that files have at this call, those of the oldest first; raises OSError.

    What a running service appends later is left out: a database that is looked at after the call has all of them.
    """
    begun = sorted((_first_number(file), str(file), file, file.stat().st_size) for file in files)
    return _lines([(file, size) for _, _, file, size in begun])


def _lines(files: Sequence[tuple[Path, int]]) -> Iterator[bytes]:
    for file, size in files:
        left = size
        with file.open("rb") as stream:
            for text in stream:
                left -= len(text)
                if left < 0:
                    break
                yield text.rstrip(b"\n")


def _first_number(file: Path) -> int:
    with file.open("rb") as stream:
        found = next(filter(None, (read_line(text.rstrip(b"\n")) for text in stream)), None)
    return 0 if found is None else found.link.number
