"""Who takes a workspace and who removes it hold its row, so that on PostgreSQL too one of the two sees the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import ClauseElement, Connection, create_engine, event
from sqlalchemy.dialects import postgresql

from kernel_gateway.storage import sessions
from kernel_gateway.storage import workspace_usage as workspace_removal
from kernel_gateway.storage.tables import metadata, principals

PRINCIPAL, WORKSPACE = "ann", "one"


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(principals.insert().values(id=PRINCIPAL, name=PRINCIPAL, admin=False, created=0))
        sessions.add_workspace(connection, WORKSPACE, PRINCIPAL, 0.0)
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda c: sessions.claim_workspace(c, WORKSPACE, PRINCIPAL), id="start"),
        pytest.param(lambda c: workspace_removal.mark_deleted(c, WORKSPACE, 1.0), id="removal"),
    ],
)
def test_the_workspace_is_held_before_anything_is_looked_at(
    connection: Connection, take: Callable[[Connection], object]
) -> None:
    asked: list[str] = []

    def note(_connection: Connection, statement: ClauseElement, *_: object) -> None:
        asked.append(str(statement.compile(dialect=postgresql.dialect())))  # type: ignore[no-untyped-call]

    event.listen(connection, "before_execute", note)
    assert take(connection)
    assert "FROM workspaces" in asked[0]
    assert asked[0].endswith("FOR UPDATE")
    assert len(asked) > 1


def test_a_removed_workspace_cannot_be_claimed(connection: Connection) -> None:
    assert workspace_removal.mark_deleted(connection, WORKSPACE, 1.0)
    assert sessions.claim_workspace(connection, WORKSPACE, PRINCIPAL) is None


def test_anothers_workspace_cannot_be_claimed(connection: Connection) -> None:
    assert sessions.claim_workspace(connection, WORKSPACE, "bob") is None
