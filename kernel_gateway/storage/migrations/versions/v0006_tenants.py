"""Principals with a quota that can be disabled; scope, expiry and last use of credentials."""

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


def downgrade() -> None:
    for table in ("access_keys", "tokens"):
        with op.batch_alter_table(table) as credentials:
            for column in ("last_used", "expires", "scope"):
                credentials.drop_column(column)
    with op.batch_alter_table("principals") as principals:
        for column in ("cpu", "live_sessions", "disabled"):
            principals.drop_column(column)
