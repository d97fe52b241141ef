"""vCPUs that an environment declares, beside those that come with its memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("environments", sa.Column("vcpus", sa.Float(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("environments") as environments:
        environments.drop_column("vcpus")
