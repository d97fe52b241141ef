"""What later cells made of the outputs of cells."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "revisions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("output", sa.Integer(), nullable=False),
        sa.Column("by_position", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("grown", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_revisions"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_revisions_session_id"),
        sa.UniqueConstraint(
            "session_id",
            "position",
            "output",
            "by_position",
            name="uq_revisions_session_id_position_output_by_position",
        ),
    )


def downgrade() -> None:
    op.drop_table("revisions")
