"""Workspaces that are measured, kept for a time and removed; datasets; how durable an execution is when it returns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workspaces") as workspaces:
        workspaces.add_column(sa.Column("touched", sa.BigInteger(), nullable=True))
        workspaces.add_column(sa.Column("file_count", sa.BigInteger(), nullable=True))
        workspaces.add_column(sa.Column("size_bytes", sa.BigInteger(), nullable=True))
        workspaces.add_column(sa.Column("deleted", sa.BigInteger(), nullable=True))
    op.create_index("ix_workspaces_principal_id_number", "workspaces", ["principal_id", "number"])
    with op.batch_alter_table("sessions") as sessions:
        sessions.add_column(sa.Column("sync", sa.String(), nullable=False, server_default="async"))
    with op.batch_alter_table("executions") as executions:
        executions.add_column(sa.Column("sync", sa.String(), nullable=False, server_default="async"))
        executions.add_column(sa.Column("ended_number", sa.Integer(), nullable=True))
    op.create_table(
        "datasets",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("workspace_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("profile", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_datasets"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_datasets_workspace_id"),
        sa.UniqueConstraint("id", name="uq_datasets_id"),
        sa.UniqueConstraint("workspace_id", "name", name="uq_datasets_workspace_id_name"),
    )


def downgrade() -> None:
    op.drop_table("datasets")
    with op.batch_alter_table("executions") as executions:
        executions.drop_column("ended_number")
        executions.drop_column("sync")
    with op.batch_alter_table("sessions") as sessions:
        sessions.drop_column("sync")
    op.drop_index("ix_workspaces_principal_id_number", "workspaces")
    with op.batch_alter_table("workspaces") as workspaces:
        for column in ("deleted", "size_bytes", "file_count", "touched"):
            workspaces.drop_column(column)
