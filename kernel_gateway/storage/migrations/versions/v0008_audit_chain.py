"""The chain of hashes through the audit log, and how far its sinks have come.

Records that are there already stay without a hash: the chain begins after them, with the first that is written next.
However many there are, they are not touched.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("hash", sa.String(), nullable=True))
    op.create_table(
        "audit_chain",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("statement", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_audit_chain"),
    )
    op.create_table(
        "audit_sinks",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_audit_sinks"),
    )


def downgrade() -> None:
    op.drop_table("audit_sinks")
    op.drop_table("audit_chain")
    with op.batch_alter_table("audit") as audit:
        audit.drop_column("hash")
