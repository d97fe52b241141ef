"""Access keys, environments made by principals, agents, answers given before, executions on a blank kernel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("executions") as executions:
        executions.add_column(sa.Column("clear_context", sa.Boolean(), nullable=False, server_default=sa.false()))
        executions.add_column(sa.Column("runtime", sa.String(), nullable=False, server_default="python"))
    op.create_index("ix_sessions_status_environment", "sessions", ["status", "environment"])
    _access_keys()
    _environments()
    _agents()
    _client_tokens()


def downgrade() -> None:
    for table in ("client_tokens", "agents", "environments", "access_keys"):
        op.drop_table(table)
    op.drop_index("ix_sessions_status_environment", "sessions")
    with op.batch_alter_table("executions") as executions:
        executions.drop_column("runtime")
        executions.drop_column("clear_context")


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False)


def _access_keys() -> None:
    op.create_table(
        "access_keys",
        _number(),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_access_keys"),
        sa.UniqueConstraint("id", name="uq_access_keys_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_access_keys_principal_id"),
    )


def _environments() -> None:
    op.create_table(
        "environments",
        _number(),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("image", sa.String(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("storage_mb", sa.Integer(), nullable=False),
        sa.Column("network", sa.String(), nullable=False),
        sa.Column("role_arn", sa.String(), nullable=False),
        sa.Column("tags", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_environments"),
        sa.UniqueConstraint("id", name="uq_environments_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_environments_principal_id"),
    )
    op.create_index("ix_environments_principal_id_number", "environments", ["principal_id", "number"])
    left = sa.text("deleted IS NULL")
    op.create_index(
        "uq_environments_name",
        "environments",
        ["principal_id", "name"],
        unique=True,
        sqlite_where=left,
        postgresql_where=left,
    )


def _agents() -> None:
    op.create_table(
        "agents",
        _number(),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=True),
        sa.Column("detached_from", sa.String(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_agents"),
        sa.UniqueConstraint("id", name="uq_agents_id"),
        sa.UniqueConstraint("principal_id", "name", name="uq_agents_principal_id_name"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_agents_principal_id"),
    )
    op.create_index("ix_agents_environment", "agents", ["environment"])
    op.create_index("ix_agents_detached_from", "agents", ["detached_from"])


def _client_tokens() -> None:
    op.create_table(
        "client_tokens",
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal_id", "operation", "token", name="pk_client_tokens"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_client_tokens_principal_id"),
    )
    op.create_index("ix_client_tokens_created", "client_tokens", ["created"])
