"""What the next process of the service has to know of an execution that is under way, to go on with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("under_way", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("executions") as executions:
        executions.drop_column("under_way")
