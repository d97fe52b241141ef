"""Gateways that share a database, and which of them each workspace is at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gateways",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gateways"),
    )
    op.add_column("workspaces", sa.Column("gateway", sa.String(), nullable=True))
    somewhere = sa.text("gateway IS NOT NULL")
    op.create_index(
        "ix_workspaces_gateway", "workspaces", ["gateway"], sqlite_where=somewhere, postgresql_where=somewhere
    )


def downgrade() -> None:
    op.drop_index("ix_workspaces_gateway", "workspaces")
    op.drop_column("workspaces", "gateway")
    op.drop_table("gateways")
