"""The tables. Columns that hold JSON or code are bytes: any character may be in them, whatever the database.

PostgreSQL's are made by the migrations alone, which state the conditions of unique indexes for it too: stated here,
they would load its dialect at each start, a tenth of what a start imports.
"""

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
    false,
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
    Column("disabled", BigInteger),
    Column("live_sessions", Integer),
    Column("cpu", BigInteger, nullable=False, server_default="0"),
    Column("heir", String),
)
"""`disabled` is since when none of its credentials counts, `heir` whose its sessions become then; null: they end.
`live_sessions` is its own quota; null: the setting's. `cpu` is the processor time of its sessions that have
ended, in microseconds."""

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
    Column("scope", String, nullable=False, server_default="admin"),
    Column("expires", BigInteger),
    Column("last_used", BigInteger),
)

access_keys = Table(
    "access_keys",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("scope", String, nullable=False, server_default="admin"),
    Column("expires", BigInteger),
    Column("last_used", BigInteger),
)
"""Keys that requests are signed with. `secret` is encrypted: a signature is verified with the secret itself."""

environments = Table(
    "environments",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("description", String, nullable=False),
    Column("image", String, nullable=False),
    Column("memory_mb", Integer, nullable=False),
    Column("storage_mb", Integer, nullable=False),
    Column("network", String, nullable=False),
    Column("role_arn", String, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    Column("vcpus", Float),
    Column("added", LargeBinary),
    Column("build", String),
    Column("build_failure", String),
    Column("build_attempts", Integer),
    Column("build_log", LargeBinary),
    Column("layer", String),
    Index("ix_environments_principal_id_number", "principal_id", "number"),
    Index(
        "uq_environments_name",
        "principal_id",
        "name",
        unique=True,
        sqlite_where=text("deleted IS NULL"),
    ),
)
"""Environments that principals have made; those of the host and of the environments file are in no table. `tags` is a
JSON object. `vcpus` is null where they come with the memory. `added` are the packages of one that has any added to its
image, as JSON: then `build` is the state of that, and `layer` the digest of the image. A deleted one stays: sessions
that ended long ago name it."""

agents = Table(
    "agents",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("description", String, nullable=False),
    Column("environment", String),
    Column("detached_from", String),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    UniqueConstraint("principal_id", "name"),
    Index("ix_agents_environment", "environment"),
    Index("ix_agents_detached_from", "detached_from"),
)
"""Named users of an environment. `environment` is the id of a made environment or the name of another; null when the
agent has none, and `detached_from` then says which one it had."""

client_tokens = Table(
    "client_tokens",
    metadata,
    Column("principal_id", ForeignKey("principals.id"), primary_key=True),
    Column("operation", String, primary_key=True),
    Column("token", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Index("ix_client_tokens_created", "created"),
)
"""Answers given before, so that a retry gets the same: `digest` is of the request, `answer` is JSON."""

agent_engine_resources = Table(
    "agent_engine_resources",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("project", String, nullable=False),
    Column("location", String, nullable=False),
    Column("engine_id", String),
    Column("session_id", String, unique=True),
    Column("display_name", String, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    Index("ix_agent_engine_resources_principal_id_kind_number", "principal_id", "kind", "number"),
    Index("ix_agent_engine_resources_engine_id_number", "engine_id", "number"),
)
"""What clients of Agent Engine make: `kind` is engine, sandbox, snapshot or template, `id` the digits in its name.
`engine_id` is whose child it is; `session_id` is the session that a sandbox or a snapshot is, written before that is
there. `content` is JSON: what the client said of it. A deleted one stays: its operations can still be asked for."""

workspaces = Table(
    "workspaces",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("touched", BigInteger),
    Column("file_count", BigInteger),
    Column("size_bytes", BigInteger),
    Column("deleted", BigInteger),
    Column("gateway", String),
    Index("ix_workspaces_principal_id_number", "principal_id", "number"),
    Index("ix_workspaces_gateway", "gateway", sqlite_where=text("gateway IS NOT NULL")),
)
"""`touched` is when its files last changed or were read; `file_count` and `size_bytes` are what it then held. Null: not
known. The row of a `deleted` one stays, since sessions refer to it. `gateway` is which of several gateways it is at,
with its sessions; null: none has had it, or there is one service."""

gateways = Table(
    "gateways",
    metadata,
    Column("id", String, primary_key=True),
    Column("address", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
)
"""Services that share the database: where the others reach each, the number of its present life, and when that is over
unless it is heard of before, by the database's clock."""

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
    Column("sync", String, nullable=False, server_default="async"),
    Index("ix_sessions_principal_id_number", "principal_id", "number"),
    Index("ix_sessions_workspace_id_number", "workspace_id", "number"),
    Index("ix_sessions_status_environment", "status", "environment"),
    Index(
        "uq_sessions_live_workspace",
        "workspace_id",
        unique=True,
        sqlite_where=text("status = 'READY'"),
    ),
)
"""`record` is JSON: usage, sync, runtime and network as they were at the end, or when last written down. `sync` is
async or before_return, and holds for executions that do not say."""

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
    Column("clear_context", Boolean, nullable=False, server_default=false()),
    Column("runtime", String, nullable=False, server_default="python"),
    Column("kind", String, nullable=False, server_default="code"),
    Column("author", String, nullable=False, server_default=""),
    Column("face", String, nullable=False, server_default=""),
    Column("provenance", LargeBinary),
    Column("sync", String, nullable=False, server_default="async"),
    Column("ended_number", Integer),
    Column("stream", String),
    Column("heard", BigInteger),
    Column("said", LargeBinary),
    Column("under_way", LargeBinary),
    Column("queued", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    UniqueConstraint("session_id", "idempotency_key"),
    Index("ix_executions_session_id_number", "session_id", "number"),
    Index("ix_executions_session_id_kind_number", "session_id", "kind", "number"),
    Index(
        "ix_executions_open",
        "session_id",
        sqlite_where=text("ended IS NULL"),
    ),
)
"""`outcome` is JSON: stdout, stderr, outputs, error, death, truncated. It is null until the execution has ended.
`clear_context`: a blank kernel runs it. `runtime` is what runs its language: python, deno or nodejs. `kind` is code or
command, `author` who ran it and `face` the protocol it came through. `provenance` is JSON: what it used and changed.
`sync` is async, or before_return: its answer waits until the files are durable. `ended_number` counts what of the
session had ended with it, commands too; null for what never ran. `heard` is the place in its kernel's `stream` up to
which all was durable with it, and `said` is JSON: how its kernel names it, and how much of what it said is in it.
`under_way` is JSON: what the next process of the service needs to go on with it; null once it has ended, and the task
that it has started in the background."""

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

cells = Table(
    "cells",
    metadata,
    _number(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("cell_id", String, nullable=False),
    Column("execution_id", String, unique=True),
    Column("note", BigInteger, unique=True),
    Column("cell", LargeBinary, nullable=False),
    Column("hash", String, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    UniqueConstraint("session_id", "position"),
)
"""The record of a session as it is written: one row for each cell of its notebook, in order, never changed. `cell` is
the cell's JSON, `hash` its link in the chain; it tells of an execution (`execution_id`), of a note, or of neither.
`total_bytes` is what it and all cells before it have."""

cell_widgets = Table(
    "cell_widgets",
    metadata,
    _number(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("models", LargeBinary, nullable=False),
    UniqueConstraint("session_id", "position"),
)
"""The widgets that the cell at `position` shows or has changed, as they were at its end: JSON, by their ids. A notebook
has those of all cells in one place."""

revisions = Table(
    "revisions",
    metadata,
    _number(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("output", Integer, nullable=False),
    Column("by_position", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("grown", BigInteger, nullable=False),
    UniqueConstraint("session_id", "position", "output", "by_position"),
)
"""What later cells made of outputs of cells, never changed either: the cell at `by_position` updated an output of the
one at `position`. `content` is the output's data and metadata since, as JSON; `grown` is by how many bytes the cell is
larger then than it was before."""

datasets = Table(
    "datasets",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("path", String, nullable=False),
    Column("format", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("profile", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    UniqueConstraint("workspace_id", "name"),
)
"""Files of a workspace under a name. `profile` is JSON: schema, rows, sample and statistics of the bytes that `sha256`
tells."""

hibernations = Table(
    "hibernations",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("state", String, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("executions", Integer, nullable=False),
    Column("left_seconds", Float, nullable=False),
    Column("report", LargeBinary, nullable=False),
    Index("ix_hibernations_session_id", "session_id"),
    Index("ix_hibernations_state", "state"),
)
"""What the store may have of sessions' variables, each under its id.

`state` is `begun` until all of it is there, `kept` until a kernel has them, then `spent`: to be removed. `left_seconds`
is what was left of the session's time-to-live, `report` JSON.
"""

checkpoints = Table(
    "checkpoints",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("state", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("execution_id", String),
    Column("generation", Integer, nullable=False),
    Column("executions", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("file_count", BigInteger, nullable=False),
    Column("file_bytes", BigInteger, nullable=False),
    Column("report", LargeBinary, nullable=False),
    Index("ix_checkpoints_session_id_number", "session_id", "number"),
    Index("ix_checkpoints_state", "state"),
)
"""What the store may have of sessions as they were, variables and files, each under its id.

`state` is `begun` until all of it is there, then `kept`, and `spent` when it is to be removed. `kind` is `asked`,
`automatic`, or `passing` for one that is used once. `execution_id` is what had ended last. `report` is JSON.
"""

attach_tokens = Table(
    "attach_tokens",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("principal_id", ForeignKey("principals.id"), nullable=False),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),
    Column("can", String, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Index("ix_attach_tokens_session_id_number", "session_id", "number"),
)
"""Tokens that let a Jupyter client attach to one session. `can` is what else they allow: words with spaces between."""

sign_ins = Table(
    "sign_ins",
    metadata,
    _number(),
    Column("digest", String, nullable=False, unique=True),
    Column("credential_id", String, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("link", Boolean, nullable=False),
    Column("most", BigInteger),
    Column("person", LargeBinary),
    Column("looks_at", String, nullable=False),
    Index("ix_sign_ins_credential_id_number", "credential_id", "number"),
)
"""Browsers that are signed in to the console, and links that sign in, by the digests of their secrets."""

sandbox_tokens = Table(
    "sandbox_tokens",
    metadata,
    _number(),
    Column("session_id", ForeignKey("sessions.id"), nullable=False),
    Column("credential_id", String, nullable=False),
    UniqueConstraint("session_id", "credential_id", name="uq_sandbox_tokens_session_id_credential_id"),
)
"""Which tokens were derived for live sessions, for addresses that are signed with one and do not say whose they are."""

uses = Table(
    "uses",
    metadata,
    Column("gateway_id", String, primary_key=True),
    Column("what", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("taken", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_uses_at", "at"),
)
"""What each of several gateways has counted lately against limits of how often, since it counts. By its life: a gateway
that begins again counts from 0."""

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
    Column("hash", String),
    Index("ix_audit_at", "at"),
    Index("ix_audit_principal_id_number", "principal_id", "number"),
    Index("ix_audit_session_id_number", "session_id", "number"),
)
"""Who asked for what and what the answer was; `detail` is a JSON object. Its rows refer to no other table: they outlive
what they speak of, and an unknown caller has no principal. `hash` is the record's link in the chain of all; null:
it is older than the chain."""

audit_chain = Table(
    "audit_chain",
    metadata,
    Column("name", String, primary_key=True),
    Column("statement", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)
"""Where the chain of audit records begins (`floor`) and ends (`head`): JSON, and the signature of just these bytes."""

audit_sinks = Table(
    "audit_sinks",
    metadata,
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""Up to which record each place has them that the audit log is sent to."""
