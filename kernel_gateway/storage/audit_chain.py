"""Queries on the chain of the audit log: its two ends, its records in order, and how far each sink has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from kernel_gateway.storage.audit import AuditRow, row_of
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import audit, audit_chain, audit_sinks

READ_AT_ONCE = 1_000
HEAD: Final = "head"
FLOOR: Final = "floor"
Signed = tuple[bytes, bytes]
"""A statement and its signature."""
# Made once: each batch of records runs these.
_STATEMENT = select(audit_chain.c.statement, audit_chain.c.signature).where(audit_chain.c.name == bindparam("of"))
_LAST_LINK = (
    select(
        audit_chain.c.statement,
        audit_chain.c.signature,
        select(func.max(audit.c.number)).scalar_subquery().label("newest"),
    )
    .where(audit_chain.c.name == HEAD)
    .with_for_update(of=audit_chain)
)
_PUT = (
    update(audit_chain)
    .where(audit_chain.c.name == bindparam("of"))
    .values(statement=bindparam("said"), signature=bindparam("signed"))
)


def find_statement(connection: Connection, name: str) -> Signed | None:
    """What is said of one end, and its signature."""
    found = connection.execute(_STATEMENT, {"of": name}).one_or_none()
    return None if found is None else (found.statement, found.signature)


def last_link(connection: Connection) -> tuple[Signed | None, int]:
    """The statement named head, and the newest record's number; no other transaction writes until it is over."""
    found = connection.execute(_LAST_LINK).one_or_none()
    if found is None:  # nobody else begins a chain at the same time
        hold(connection, "audit chain")
        found = connection.execute(_LAST_LINK).one_or_none()
    if found is None:
        return None, newest(connection)
    return (found.statement, found.signature), found.newest or 0


def put_statement(connection: Connection, name: str, said: bytes, signature: bytes) -> None:
    values = {"said": said, "signed": signature}
    if not connection.execute(_PUT, {"of": name, **values}).rowcount:
        connection.execute(insert(audit_chain).values(name=name, statement=said, signature=signature))


def newest(connection: Connection) -> int:
    """The number of the newest record; 0 when there is none."""
    return connection.execute(select(func.max(audit.c.number))).scalar() or 0


def has_links(connection: Connection) -> bool:
    """Whether any record belongs to a chain."""
    return connection.execute(select(audit.c.number).where(audit.c.hash.is_not(None)).limit(1)).first() is not None


def oldest(connection: Connection, most: int) -> Sequence[Any]:
    """Number, time in microseconds and hash of the oldest records, oldest first."""
    columns = select(audit.c.number, audit.c.at, audit.c.hash)
    return connection.execute(columns.order_by(audit.c.number).limit(most)).all()


def first_time_after(connection: Connection, number: int, *, until: int) -> int | None:
    """The time in microseconds of the first record behind this number that is not dated later than `until`."""
    query = select(audit.c.at).where(audit.c.number > number, audit.c.at <= until)
    found: int | None = connection.execute(query.order_by(audit.c.number).limit(1)).scalar()
    return found


def remove_until(connection: Connection, number: int) -> None:
    connection.execute(delete(audit).where(audit.c.number <= number))


def after(connection: Connection, number: int, most: int) -> list[AuditRow]:
    """Records in order, those that come after this number."""
    query = select(audit).where(audit.c.number > number).order_by(audit.c.number).limit(most)
    return [row_of(each) for each in connection.execute(query)]


def hash_at(connection: Connection, number: int) -> str | None:
    found: str | None = connection.execute(select(audit.c.hash).where(audit.c.number == number)).scalar()
    return found


def raw_at(connection: Connection, number: int) -> Any:
    """The row of this number as it is; None when there is none."""
    return connection.execute(select(audit).where(audit.c.number == number)).one_or_none()


class Slice(msgspec.Struct, frozen=True):
    """Rows in order, as they are, and the one after them: `audit.row_of` may fail on one that was tampered with.

    `head` and `floor` are the chain's ends in the same transaction. `empty`: there is no chain.
    """

    rows: Sequence[Any]
    following: Any
    head: Signed | None
    floor: Signed | None
    empty: bool


def read_slice(connection: Connection, number: int | None, most: int, *, beside_writers: bool = False) -> Slice:
    """The rows behind this number, at most so many; None: from the first on.

    `beside_writers`: in a transaction that sees what others commit meanwhile, as one of PostgreSQL's does. Both ends
    are locked then, which each of them changes before it changes records.
    """
    if beside_writers:
        connection.execute(select(audit_chain.c.name).with_for_update(read=True)).all()
    query = select(audit).order_by(audit.c.number).limit(most + 1)
    rows = connection.execute(query if number is None else query.where(audit.c.number > number)).all()
    head, floor = find_statement(connection, HEAD), find_statement(connection, FLOOR)
    empty = head is None and floor is None and not has_links(connection)
    return Slice(rows[:most], rows[most] if len(rows) > most else None, head, floor, empty)


def position(connection: Connection, sink: str) -> int | None:
    """Up to which record the sink has them; None for one that is new."""
    return connection.execute(select(audit_sinks.c.number).where(audit_sinks.c.name == sink)).scalar()


def take_positions(connection: Connection, sink: str) -> int | None:
    """Remove where each of several gateways was that had a sink of this name of its own; the lowest, None for none."""
    of_each = audit_sinks.c.name.startswith(f"{sink} of ", autoescape=True)
    lowest: int | None = connection.execute(select(func.min(audit_sinks.c.number)).where(of_each)).scalar()
    if lowest is not None:
        connection.execute(delete(audit_sinks).where(of_each))
    return lowest


def furthest(connection: Connection) -> int:
    """Up to which record any sink has them."""
    return connection.execute(select(func.max(audit_sinks.c.number))).scalar() or 0


def put_position(connection: Connection, sink: str, number: int) -> None:
    changed = connection.execute(update(audit_sinks).where(audit_sinks.c.name == sink).values(number=number))
    if not changed.rowcount:
        connection.execute(insert(audit_sinks).values(name=sink, number=number))
