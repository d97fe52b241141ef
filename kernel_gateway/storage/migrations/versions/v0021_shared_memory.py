"""What gateways had in memory alone: sign-ins, derived tokens, limits of how often, and heirs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("credential_id", sa.String(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("link", sa.Boolean(), nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=True),
        sa.Column("person", sa.LargeBinary(), nullable=True),
        sa.Column("looks_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_sign_ins"),
        sa.UniqueConstraint("digest", name="uq_sign_ins_digest"),
    )
    op.create_index("ix_sign_ins_credential_id_number", "sign_ins", ["credential_id", "number"])
    op.create_table(
        "sandbox_tokens",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("credential_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_sandbox_tokens_session_id"),
        sa.PrimaryKeyConstraint("number", name="pk_sandbox_tokens"),
        sa.UniqueConstraint("session_id", "credential_id", name="uq_sandbox_tokens_session_id_credential_id"),
    )
    op.create_table(
        "uses",
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", "what", "key", name="pk_uses"),
    )
    op.create_index("ix_uses_at", "uses", ["at"])
    if op.get_bind().dialect.name == "postgresql":  # it counts seconds: a crash of the server may empty it
        op.execute("ALTER TABLE uses SET UNLOGGED")
    op.add_column("principals", sa.Column("heir", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("principals", "heir")
    for each in ("uses", "sandbox_tokens", "sign_ins"):
        op.drop_table(each)
