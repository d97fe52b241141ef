"""The record of a session, cell by cell; who ran an execution and what it used; tokens to attach with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("executions") as executions:
        executions.add_column(sa.Column("kind", sa.String(), nullable=False, server_default="code"))
        executions.add_column(sa.Column("author", sa.String(), nullable=False, server_default=""))
        executions.add_column(sa.Column("face", sa.String(), nullable=False, server_default=""))
        executions.add_column(sa.Column("provenance", sa.LargeBinary(), nullable=True))
    _cells()
    _attach_tokens()


def downgrade() -> None:
    for table in ("attach_tokens", "cells"):
        op.drop_table(table)
    with op.batch_alter_table("executions") as executions:
        for column in ("provenance", "face", "author", "kind"):
            executions.drop_column(column)


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False)


def _cells() -> None:
    op.create_table(
        "cells",
        _number(),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.String(), nullable=False),
        sa.Column("execution_id", sa.String(), nullable=True),
        sa.Column("note", sa.BigInteger(), nullable=True),
        sa.Column("cell", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_cells"),
        sa.UniqueConstraint("session_id", "position", name="uq_cells_session_id_position"),
        sa.UniqueConstraint("execution_id", name="uq_cells_execution_id"),
        sa.UniqueConstraint("note", name="uq_cells_note"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_cells_session_id"),
    )


def _attach_tokens() -> None:
    op.create_table(
        "attach_tokens",
        _number(),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("can", sa.String(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_attach_tokens"),
        sa.UniqueConstraint("id", name="uq_attach_tokens_id"),
        sa.UniqueConstraint("digest", name="uq_attach_tokens_digest"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_attach_tokens_principal_id"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_attach_tokens_session_id"),
    )
    op.create_index("ix_attach_tokens_session_id_number", "attach_tokens", ["session_id", "number"])
