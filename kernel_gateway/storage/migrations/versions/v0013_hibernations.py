"""Snapshots of sessions that are hibernated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hibernations",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("session_id", sa.String(), sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("executions", sa.Integer(), nullable=False),
        sa.Column("left_seconds", sa.Float(), nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=False),
    )
    op.create_index("ix_hibernations_session_id", "hibernations", ["session_id"])
    op.create_index("ix_hibernations_state", "hibernations", ["state"])


def downgrade() -> None:
    op.drop_table("hibernations")
