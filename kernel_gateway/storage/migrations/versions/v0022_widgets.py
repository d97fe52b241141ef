"""Widgets of the cells of a record; and an index by which a session's executions are counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "cell_widgets",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("models", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_cell_widgets_session_id"),
        sa.PrimaryKeyConstraint("number", name="pk_cell_widgets"),
        sa.UniqueConstraint("session_id", "position", name="uq_cell_widgets_session_id_position"),
    )
    op.create_index("ix_executions_session_id_kind_number", "executions", ["session_id", "kind", "number"])


def downgrade() -> None:
    op.drop_index("ix_executions_session_id_kind_number", "executions")
    op.drop_table("cell_widgets")
