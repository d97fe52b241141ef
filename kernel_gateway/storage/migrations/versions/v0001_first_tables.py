"""The first tables: principals and tokens, workspaces, sessions, executions, notes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    make_principals()
    make_tokens()
    make_workspaces()
    make_sessions()
    make_executions()
    make_notes()


def make_principals() -> None:
    op.create_table(
        "principals",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_principals"),
        sa.UniqueConstraint("name", name="uq_principals_name"),
    )


def make_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_tokens_principal_id"),
        sa.PrimaryKeyConstraint("number", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sa.UniqueConstraint("id", name="uq_tokens_id"),
    )


def make_workspaces() -> None:
    op.create_table(
        "workspaces",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_workspaces_principal_id"),
        sa.PrimaryKeyConstraint("number", name="pk_workspaces"),
        sa.UniqueConstraint("id", name="uq_workspaces_id"),
    )


def make_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("workspace_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("last_activity", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("idle_timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("labels", sa.LargeBinary(), nullable=False),
        sa.Column("executions", sa.Integer(), nullable=False),
        sa.Column("ended_reason", sa.String(), nullable=True),
        sa.Column("ended_detail", sa.String(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("record", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_sessions_principal_id"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_sessions_workspace_id"),
        sa.PrimaryKeyConstraint("number", name="pk_sessions"),
        sa.UniqueConstraint("id", name="uq_sessions_id"),
    )
    op.create_index("ix_sessions_principal_id_number", "sessions", ["principal_id", "number"])
    op.create_index("ix_sessions_workspace_id_number", "sessions", ["workspace_id", "number"])
    op.create_index(
        "uq_sessions_live_workspace",
        "sessions",
        ["workspace_id"],
        unique=True,
        sqlite_where=sa.text("status = 'READY'"),
        postgresql_where=sa.text("status = 'READY'"),
    )


def make_executions() -> None:
    op.create_table(
        "executions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("language", sa.String(), nullable=False),
        sa.Column("code", sa.LargeBinary(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("execution_count", sa.Integer(), nullable=True),
        sa.Column("timeout_seconds", sa.Float(), nullable=False),
        sa.Column("expect_generation", sa.Integer(), nullable=True),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_digest", sa.String(), nullable=True),
        sa.Column("last_sequence", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("queued", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_executions_session_id"),
        sa.PrimaryKeyConstraint("number", name="pk_executions"),
        sa.UniqueConstraint("id", name="uq_executions_id"),
        sa.UniqueConstraint("session_id", "idempotency_key", name="uq_executions_session_id_idempotency_key"),
    )
    op.create_index(
        "ix_executions_open",
        "executions",
        ["session_id"],
        sqlite_where=sa.text("ended IS NULL"),
        postgresql_where=sa.text("ended IS NULL"),
    )
    op.create_index("ix_executions_session_id_number", "executions", ["session_id", "number"])


def make_notes() -> None:
    op.create_table(
        "notes",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_notes_session_id"),
        sa.PrimaryKeyConstraint("number", name="pk_notes"),
    )
    op.create_index("ix_notes_session_id_number", "notes", ["session_id", "number"])


def downgrade() -> None:
    for table in ("notes", "executions", "sessions", "workspaces", "tokens", "principals"):
        op.drop_table(table)
