"""The tables. Columns that hold JSON or code are bytes: any character may be in them, whatever the database."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _number() -> Column[int]:
    """The order of rows, which lists page by; SQLite counts only plain INTEGER keys up by itself."""
    return Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


principals = Table(
    "principals",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("admin", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

workspaces = Table(
    "workspaces",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("created", BigInteger, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("environment", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("last_activity", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("timeout_seconds", Integer, nullable=False),
    Column("idle_timeout_seconds", Integer, nullable=False),
    Column("agent", String),
    Column("labels", LargeBinary, nullable=False),
    Column("executions", Integer, nullable=False),
    Column("ended_reason", String),
    Column("ended_detail", String),
    Column("ended", BigInteger),
    Column("record", LargeBinary),
    Index("ix_sessions_principal_id_number", "principal_id", "number"),
    Index("ix_sessions_workspace_id_number", "workspace_id", "number"),
    Index(
        "uq_sessions_live_workspace",
        "workspace_id",
        unique=True,
        sqlite_where=text("status = 'READY'"),
        postgresql_where=text("status = 'READY'"),
    ),
)
"""`record` is JSON: usage, sync, runtime and network as they were at the end, or when last written down."""

executions = Table(
    "executions",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("status", String, nullable=False),
    Column("language", String, nullable=False),
    Column("code", LargeBinary, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("execution_count", Integer),
    Column("timeout_seconds", Float, nullable=False),
    Column("expect_generation", Integer),
    Column("idempotency_key", String),
    Column("request_digest", String),
    Column("last_sequence", Integer),
    Column("outcome", LargeBinary),
    Column("queued", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    UniqueConstraint("session_id", "idempotency_key"),
    Index("ix_executions_session_id_number", "session_id", "number"),
    Index(
        "ix_executions_open",
        "session_id",
        sqlite_where=text("ended IS NULL"),
        postgresql_where=text("ended IS NULL"),
    ),
)
"""`outcome` is JSON: stdout, stderr, outputs, error, death, truncated. It is null until the execution has ended."""

notes = Table(
    "notes",
    metadata,
    _number(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("body", String, nullable=False),
    Index("ix_notes_session_id_number", "session_id", "number"),
)
"""What happened to a session besides executions; each becomes a Markdown cell of its notebook."""

audit = Table(
    "audit",
    metadata,
    _number(),
    Column("at", BigInteger, nullable=False),
    Column("principal_id", String),
    Column("session_id", String),
    Column("kind", String, nullable=False),
    Column("event", String, nullable=False),
    Column("allowed", Boolean, nullable=False),
    Column("reason", String, nullable=False),
    Column("target", String, nullable=False),
    Column("detail", LargeBinary, nullable=False),
    Index("ix_audit_at", "at"),
    Index("ix_audit_principal_id_number", "principal_id", "number"),
    Index("ix_audit_session_id_number", "session_id", "number"),
)
"""Who asked for what and what the answer was; `detail` is a JSON object. Its rows refer to no other table: they outlive
what they speak of, and a caller who is nobody has no principal."""
