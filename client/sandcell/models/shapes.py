"""The values that services return and faces send: sessions, executions, commands, files, workspaces.

Fields may be added, never renamed. Ids are UUIDs with dashes. Times are RFC 3339 strings in UTC with six fractional
digits and `Z` (see `timestamp`). Sizes are bytes, durations seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from sandcell.models import constraints
from sandcell.models.scopes import Scope
from sandcell.models.sync import ExecutionSync, Sync, SyncMode

SessionStatus = Literal["READY", "TERMINATED"]
ExecutionStatus = Literal["queued", "running", "ok", "error", "timeout", "interrupted", "died", "rejected"]
OnBusy = Literal["queue", "reject", "interrupt"]
Language = Literal["python", "javascript", "typescript"]
LanguageRuntime = Literal["python", "deno", "nodejs"]
T = TypeVar("T")


def timestamp(moment: datetime) -> str:
    """RFC 3339 with six fractional digits, also when the microsecond is zero; `moment` is in UTC."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class Shape(msgspec.Struct):
    """Root of every shape."""


class Page(Shape, Generic[T]):
    """One page of a list; `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


class Ended(Shape):
    """Why and when a session ended.

    `reason` is one of `stopped`, `idle_timeout`, `ttl`, `shutdown`, `start_failed`, `lost`.
    """

    reason: str
    detail: str
    at: str


class Usage(Shape):
    """What a session's sandbox has used; limits in the same units. `cpu_seconds` is of all its sandboxes in turn."""

    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    memory_limit_bytes: int = 0
    cpu_seconds: float = 0.0
    pids: int = 0
    storage_used_bytes: int = 0
    storage_limit_bytes: int = 0
    executions: int = 0


class EndpointInfo(Shape):
    """What may be reached: a host, `*.` and a domain, or an address; methods and path narrow plain HTTP."""

    host: str
    port: int
    methods: list[str] = msgspec.field(default_factory=list)
    path_prefix: str = ""


class RoleInfo(Shape):
    """The one S3 prefix that code may reach; the credentials stay with the service."""

    bucket: str
    prefix: str
    access: Literal["read", "read-write"]
    endpoint_url: str
    region: str


class NetworkLimits(Shape):
    """What one session may use of its way out: connections at once, everything else over the session's life."""

    connections: int = 0
    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class NetworkUse(Shape):
    """What a session has used of its way out; sent is what left the sandbox."""

    connections_open: int = 0
    requests: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class Network(Shape):
    """How far code reaches: the mode, the endpoints that `ALLOWLIST` allows, the execution role, and the limits."""

    mode: Literal["SANDBOX", "ALLOWLIST", "PUBLIC"] = "SANDBOX"
    allow: list[EndpointInfo] = msgspec.field(default_factory=list)
    role: RoleInfo | None = None
    limits: NetworkLimits = msgspec.field(default_factory=NetworkLimits)


class SessionNetwork(Network):
    """The policy in force for a session, or that was at its end, and what the session used."""

    used: NetworkUse = msgspec.field(default_factory=NetworkUse)


class Session(Shape):
    """One principal's live or ended sandbox. `runtime` is the OCI runtime that it runs on."""

    id: str
    name: str
    status: SessionStatus
    environment: str
    workspace_id: str
    generation: int
    created_at: str
    last_activity_at: str
    expires_at: str
    idle_expires_at: str
    timeout_seconds: int
    idle_timeout_seconds: int
    ended: Ended | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    sync: Sync = msgspec.field(default_factory=Sync)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    agent: str | None = None
    runtime: str = ""
    network: SessionNetwork = msgspec.field(default_factory=SessionNetwork)


class StartSession(Shape, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions`; what is left out takes the environment's or the service's default.

    `environment` is an id or a name; left out it is that of the `agent`, if it is registered, else `python`.
    `replay_of` is a session, ended or live: the new one has its environment, a copy of its files, and ran its cells.
    `sync` before_return: answers of executions and commands wait until their files are in the store.
    """

    environment: str | None = None
    name: Annotated[str, constraints.NAME] = ""
    workspace_id: str | None = None
    timeout_seconds: Annotated[int | None, constraints.SECONDS_OF_SESSION] = None
    idle_timeout_seconds: Annotated[int | None, constraints.SECONDS_OF_SESSION] = None
    agent: Annotated[str | None, constraints.NAME] = None
    labels: constraints.Labels = msgspec.field(default_factory=dict)
    replay_of: str | None = None
    sync: SyncMode | None = None


class ExecutionError(Shape):
    """A user's exception: an outcome. `traceback` lines carry no terminal colours."""

    name: str
    value: str
    traceback: list[str]


class Death(Shape):
    """Why a kernel is gone.

    `cause` is one of `exit`, `signal`, `oom`, `deadline`, `sandbox`, `gateway_restart`, `restart`.
    """

    cause: str
    detail: str
    exit_code: int | None = None
    signal: str | None = None
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None


class Truncated(Shape):
    """Bytes cut from each part of an execution's output; 0 when whole."""

    stdout: int = 0
    stderr: int = 0
    outputs: int = 0
    late: int = 0


class Execution(Shape):
    """One run of code; becomes a notebook cell. `outputs` are nbformat 4.5 outputs, streams included.

    `why` says what else there is to say of how it ended, or of why it has not: it was interrupted before it began; the
    interrupt has no effect; the kernel said that it was idle too early. `late` are outputs that came after its end.
    """

    id: str
    session_id: str
    status: ExecutionStatus
    language: str
    code: str
    generation: int
    queued_at: str
    runtime: str = "python"
    execution_count: int | None = None
    stdout: str = ""
    stderr: str = ""
    outputs: list[dict[str, Any]] = msgspec.field(default_factory=list)
    error: ExecutionError | None = None
    death: Death | None = None
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    started_at: str | None = None
    ended_at: str | None = None
    clear_context: bool = False
    sync: ExecutionSync = msgspec.field(default_factory=ExecutionSync)
    why: str | None = None
    late: list[dict[str, Any]] = msgspec.field(default_factory=list)


class Submission(Shape, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/executions`.

    `wait` answers with the outcome (200), else with 202 and the row. `expect_generation` refuses to run on a kernel
    other than the caller's own. `clear_context` (Python only): a blank kernel, of the next generation, runs the code.
    `runtime` of JavaScript and TypeScript is `deno` (the default, which keeps state) or `nodejs` (a process each).
    `sync` before_return: the answer waits until the files are in the store; left out it is the session's.
    """

    code: str
    language: Language = "python"
    runtime: LanguageRuntime | None = None
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_EXECUTION] = None
    wait: bool = True
    on_busy: OnBusy = "queue"
    expect_generation: int | None = None
    clear_context: bool = False
    sync: SyncMode | None = None


class Event(Shape):
    """One entry of an execution's log; `sequence` starts at 1 and is the SSE id.

    `event` is one of started, stream, display, update, result, error, clear, generation, interrupt, truncated, ended,
    and late for output that comes after that.
    """

    sequence: int
    event: str
    data: dict[str, Any]


class CommandRequest(Shape, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/commands`; runs by `/bin/bash -c` (or `sh`) in /workspace.

    With `merge_output` what it writes to stderr is in stdout, where it was written. `sync` is as of a submission; a
    background task has none, since its answer comes when it begins.
    """

    command: Annotated[str, constraints.COMMAND]
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_COMMAND] = None
    background: bool = False
    merge_output: bool = False
    sync: SyncMode | None = None


class Command(Shape):
    """A command or background task. `status` is one of running, done, timeout, stopped, lost."""

    id: str
    status: Literal["running", "done", "timeout", "stopped", "lost"]
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    duration_seconds: float = 0.0
    truncated: Truncated = msgspec.field(default_factory=Truncated)
    sync: ExecutionSync = msgspec.field(default_factory=ExecutionSync)


class FileEntry(Shape):
    """A file of a workspace, path relative to /workspace. `kind` is file, directory, link or other."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int
    modified_at: str


class Workspace(Shape):
    """The durable files of one or more sessions, one after another.

    The counts are of what was durable when it last changed; null in lists, when nobody has counted yet. `touched_at` is
    when a file was last written, or read without a session.
    """

    id: str
    created_at: str
    session_id: str | None = None
    file_count: int | None = None
    size_bytes: int | None = None
    touched_at: str | None = None


class EnvironmentInfo(Shape):
    """An environment as callers see it: the host's, which are everybody's, or one that you made.

    Sessions and agents name it by `id`; a host's is its name. `image` is what it is made from. `status` UNAVAILABLE:
    no session can start from it now, and `failure` says why. The host's have no times and no tags.
    """

    name: str
    description: str
    digest: str
    memory_mb: int
    vcpus: float
    storage_mb: int
    network: Network
    image: str = ""
    runtime: str = ""
    pids: int = 0
    id: str = ""
    kind: Literal["host", "made"] = "host"
    status: Literal["READY", "UNAVAILABLE", "DELETED"] = "READY"
    failure: str = ""
    role_arn: str = ""
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    created_at: str | None = None
    updated_at: str | None = None


class AuditRecord(Shape):
    """One entry of the audit log. `reason` is a stable word, a colon and a sentence; `detail` depends on the kind.

    Kinds: `api` (a call of an interface; detail has CloudTrail's members, as eventName, userIdentity, errorCode),
    `egress` (events `http`, `connect`, `s3`; detail has method, address, and bytes once it is over), `retention` (event
    `ExpireWorkspace`; detail has when it was last used) and `audit` (event `dropped`: records came faster than they are
    kept; detail has how many, and whether they were allowed; `digest`: a signature for a range of records;
    `chain_broken`: the end of the chain was not as the service had left it).

    `hash` is the record's place in the chain of all; none: it is older than the chain.
    """

    number: int
    at: str
    kind: str
    event: str
    allowed: bool
    reason: str
    target: str
    principal: str | None = None
    session_id: str | None = None
    hash: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


class Credential(Shape):
    """What a principal proves itself by. Its secret shows in no `repr`.

    `scope` is `read` (look), `run` (and change and run what is the principal's own) or `admin` (all that the principal
    may). Without `expires_at` it counts until it is revoked.
    """

    id: str
    principal: str
    name: str
    created_at: str
    revoked_at: str | None = None
    scope: Scope = "admin"
    expires_at: str | None = None
    last_used_at: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, principal={self.principal!r}, name={self.name!r})"


class TokenInfo(Credential):
    """A bearer token without its secret; `token` is present only in the answer that created it."""

    token: str | None = None


class AccessKeyInfo(Credential):
    """An access key, which requests are signed with; `secret_access_key` is only in the answer that created it."""

    secret_access_key: str | None = None
