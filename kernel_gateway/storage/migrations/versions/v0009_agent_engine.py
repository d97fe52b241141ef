"""What Agent Engine's clients make: engines, sandboxes and templates, by the numbers that their names have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "agent_engine_resources",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("location", sa.String(), nullable=False),
        sa.Column("engine_id", sa.String(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("display_name", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_agent_engine_resources_principal_id"),
        sa.PrimaryKeyConstraint("number", name="pk_agent_engine_resources"),
        sa.UniqueConstraint("id", name="uq_agent_engine_resources_id"),
        sa.UniqueConstraint("session_id", name="uq_agent_engine_resources_session_id"),
    )
    op.create_index(
        "ix_agent_engine_resources_principal_id_kind_number",
        "agent_engine_resources",
        ["principal_id", "kind", "number"],
    )
    op.create_index("ix_agent_engine_resources_engine_id_number", "agent_engine_resources", ["engine_id", "number"])


def downgrade() -> None:
    op.drop_table("agent_engine_resources")
