"""Checkpoints of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("execution_id", sa.String(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("executions", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("file_count", sa.BigInteger(), nullable=False),
        sa.Column("file_bytes", sa.BigInteger(), nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_checkpoints_session_id"),
        sa.PrimaryKeyConstraint("number", name="pk_checkpoints"),
        sa.UniqueConstraint("id", name="uq_checkpoints_id"),
    )
    op.create_index("ix_checkpoints_session_id_number", "checkpoints", ["session_id", "number"])
    op.create_index("ix_checkpoints_state", "checkpoints", ["state"])


def downgrade() -> None:
    op.drop_table("checkpoints")
