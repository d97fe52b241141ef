"""Packages that principals add to the images of their environments, and how the build of each went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("environments", sa.Column("added", sa.LargeBinary(), nullable=True))
    op.add_column("environments", sa.Column("build", sa.String(), nullable=True))
    op.add_column("environments", sa.Column("build_failure", sa.String(), nullable=True))
    op.add_column("environments", sa.Column("build_attempts", sa.Integer(), nullable=True))
    op.add_column("environments", sa.Column("build_log", sa.LargeBinary(), nullable=True))
    op.add_column("environments", sa.Column("layer", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("environments") as environments:
        for name in ("layer", "build_log", "build_attempts", "build_failure", "build", "added"):
            environments.drop_column(name)
