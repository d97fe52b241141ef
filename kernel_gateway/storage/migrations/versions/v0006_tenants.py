"""Principals with a quota that can be disabled; scope, expiry and last use of credentials; the audit log as a chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("principals") as principals:
        principals.add_column(sa.Column("disabled", sa.BigInteger(), nullable=True))
        principals.add_column(sa.Column("live_sessions", sa.Integer(), nullable=True))
        principals.add_column(sa.Column("cpu", sa.BigInteger(), nullable=False, server_default="0"))
    for table in ("tokens", "access_keys"):
        with op.batch_alter_table(table) as credentials:
            # What was given out before there were scopes may do all that its principal may.
            credentials.add_column(sa.Column("scope", sa.String(), nullable=False, server_default="admin"))
            credentials.add_column(sa.Column("expires", sa.BigInteger(), nullable=True))
            credentials.add_column(sa.Column("last_used", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("audit") as audit:
        audit.add_column(sa.Column("line_hash", sa.LargeBinary(), nullable=True))
        audit.add_column(sa.Column("hash", sa.LargeBinary(), nullable=True))
    op.create_table(
        "audit_chain",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_audit_chain"),
    )


def downgrade() -> None:
    op.drop_table("audit_chain")
    with op.batch_alter_table("audit") as audit:
        audit.drop_column("hash")
        audit.drop_column("line_hash")
    for table in ("access_keys", "tokens"):
        with op.batch_alter_table(table) as credentials:
            for column in ("last_used", "expires", "scope"):
                credentials.drop_column(column)
    with op.batch_alter_table("principals") as principals:
        for column in ("cpu", "live_sessions", "disabled"):
            principals.drop_column(column)
