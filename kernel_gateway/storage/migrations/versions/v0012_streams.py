"""How much of what its kernel said was durable when an execution ended: after a restart the rest is asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("stream", sa.String(), nullable=True))
    op.add_column("executions", sa.Column("heard", sa.BigInteger(), nullable=True))
    op.add_column("executions", sa.Column("said", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("executions") as executions:
        executions.drop_column("said")
        executions.drop_column("heard")
        executions.drop_column("stream")
