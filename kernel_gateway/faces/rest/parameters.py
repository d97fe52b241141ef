"""Query strings and small bodies of the REST face; what services take and return is in `sandcell.models`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.credentials import Scope
from sandcell.models.environments import EnvironmentKind
from sandcell.models.sessions import SessionStatus

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000, description="most items in the answer")]
FilesLimit = Annotated[int, msgspec.Meta(ge=1, le=10_000, description="most entries in the answer")]
Cursor = Annotated[
    str, constraints.CURSOR, msgspec.Meta(max_length=1024, description="`next_cursor` of the page before; opaque")
]
FilesCursor = Annotated[
    str, constraints.CURSOR, msgspec.Meta(max_length=8192, description="`next_cursor` of the page before; opaque")
]
Directory = Annotated[
    str,
    constraints.DIRECTORY_PATH,
    msgspec.Meta(description="directory relative to the workspace; empty: the workspace"),
]
DryRun = Annotated[bool, msgspec.Meta(description="change nothing, and answer with what would be done")]
Recursive = Annotated[bool, msgspec.Meta(description="with everything below")]

LONGEST_TTL_SECONDS = 10 * 366 * 86_400
LONGEST_OVERLAP_SECONDS = 7 * 86_400
AuditWord = Annotated[str, msgspec.Meta(max_length=128)]
Moment = Annotated[datetime, msgspec.Meta(tz=True, description="a time with its zone, RFC 3339")]


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No query parameter is taken."""


class PageOf(msgspec.Struct, forbid_unknown_fields=True):
    """Which page of a list."""

    limit: Limit = 100
    cursor: Cursor | None = None


class PageOfExecutions(PageOf, forbid_unknown_fields=True):
    """Which page of a session's executions, and how much of each."""

    outcomes: Annotated[
        bool,
        msgspec.Meta(
            description="false: without outputs, errors and what else came of each; `status` says how it ended"
        ),
    ] = True
    newest_first: Annotated[bool, msgspec.Meta(description="from the end of the session to its beginning")] = False
    commands: Annotated[bool, msgspec.Meta(description="true: with shell commands, whose `kind` is `command`")] = False


class PageOfNotes(PageOf, forbid_unknown_fields=True):
    """Which page of a session's notes."""

    newest_first: Annotated[bool, msgspec.Meta(description="from the end of the session to its beginning")] = False


class Followed(msgspec.Struct, forbid_unknown_fields=True):
    """How long to follow an execution."""

    late: Annotated[bool, msgspec.Meta(description="go on after `ended`, with late output, while the kernel lives")] = (
        False
    )


class SessionsPage(PageOf):
    """Which page of the sessions: those that fit all that is given."""

    status: SessionStatus | None = None
    environment: Annotated[str | None, msgspec.Meta(description="id of a made one, or name of a host's")] = None


class OwnedSessionsPage(PageOf):
    """Which page of everybody's sessions: those that fit all that is given."""

    principal: AuditWord | None = None
    status: SessionStatus | None = None


class EnvironmentsPage(PageOf):
    """Which page of the environments: the host's, then those that you made, or one kind."""

    kind: EnvironmentKind | None = None


class PackagesPage(PageOf):
    """Which page of the packages of an environment's image."""

    name: (
        Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="only packages of this name")] | None
    ) = None


class Listing(msgspec.Struct, forbid_unknown_fields=True):
    """Which files."""

    path: Directory = ""
    recursive: Recursive = False
    limit: FilesLimit = 1000
    cursor: FilesCursor | None = None


class Removal(msgspec.Struct, forbid_unknown_fields=True):
    """How a file is removed; a directory that is not empty needs `recursive`. A dry run only says what would go."""

    recursive: Recursive = False
    dry_run: DryRun = False


class OnePath(msgspec.Struct, forbid_unknown_fields=True):
    """Which file, directory or link."""

    path: Annotated[
        str, constraints.FILE_PATH, msgspec.Meta(min_length=1, description="path relative to the workspace")
    ]


class NewUpload(OnePath, forbid_unknown_fields=True):
    """Where the file of an upload will be, and its size where that is known."""

    size_bytes: Annotated[int, msgspec.Meta(ge=0, description="bytes of the whole file; left out: unknown")] | None = (
        None
    )


class Below(msgspec.Struct, forbid_unknown_fields=True):
    """Which file, or everything below which directory."""

    path: Directory = ""


class DryRunOnly(msgspec.Struct, forbid_unknown_fields=True):
    """Whether it is done."""

    dry_run: DryRun = False


class NotebookForm(msgspec.Struct, forbid_unknown_fields=True):
    """How the notebook is read: as it is, as a page, or as a plain script."""

    format: Literal["ipynb", "html", "py"] = "ipynb"


class AuditPage(PageOf):
    """Which records of the audit log: those that fit all that is given. Others' records are an administrator's alone.

    A page looks through so many records: it may have fewer than `limit` and still name the next.
    """

    session_id: AuditWord | None = None
    principal: AuditWord | None = None
    kind: AuditWord | None = None
    event: AuditWord | None = None
    error_code: AuditWord | None = None
    allowed: bool | None = None
    since: Moment | None = None
    until: Moment | None = None


class NewCredential(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked for with a new token or access key; the principal is created when new.

    `scope` is by default all that the principal may. Without `ttl_seconds` it counts until it is revoked.
    """

    principal: Annotated[str, constraints.PRINCIPAL, msgspec.Meta(min_length=1, max_length=200)]
    name: Annotated[str, constraints.PRINTABLE, msgspec.Meta(max_length=200)] = ""
    scope: Scope | None = None
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_TTL_SECONDS)] | None = None


class CreateToken(NewCredential, forbid_unknown_fields=True):
    """Body of `POST /v1/tokens`."""


class CreateKey(NewCredential, forbid_unknown_fields=True):
    """Body of `POST /v1/keys`."""


class RotateToken(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /v1/tokens/{token_id}/rotate`: how long the old token counts along with the new one."""

    overlap_seconds: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_OVERLAP_SECONDS)] = 0


class Health(msgspec.Struct):
    """The process answers; `version` is the service's."""

    status: str
    version: str


class ErrorDetail(msgspec.Struct):
    """What every error carries; further fields say more, as `field`, `request_id` or `retry_after_seconds`."""

    code: str
    message: str
    retryable: bool = False


class ErrorBody(msgspec.Struct):
    """The one shape of errors."""

    error: ErrorDetail


AnyObject = dict[str, Any]
