"""Errors of the service, and how the errors of the packages below become ours.

Tree (code, status):

    GatewayError
    ├── InvalidRequest          invalid_request        400   the request makes no sense; change it
    ├── Unauthorized            unauthorized           401   no token, a wrong one or a revoked one: one shape
    ├── Forbidden               forbidden              403   administrators only
    │   └── ScopeMissing        scope_missing          403   the credential is not good for this: `needed` says what is
    ├── NotFound                not_found              404   absent, or another principal's
    │   └── UnknownEnvironment  unknown_environment    404   no such environment, or not built
    ├── Conflict                conflict               409   not in this state
    │   ├── FileChanged         file_changed           409   the file changed while it was read
    │   ├── SessionTerminated   session_terminated     409   the session has ended; start another
    │   ├── SessionBusy         session_busy           409   on_busy=reject and something runs
    │   ├── GenerationMismatch  generation_mismatch    409   the kernel is not the one the caller expects
    │   ├── IdempotencyConflict idempotency_conflict   409   the key was used with another request
    │   ├── EnvironmentUnavailable environment_unavailable 409 the host or its settings have it no more as it was made
    │   ├── HasDependents       has_dependents         409   agents or live sessions need it; `dependents` names them
    │   ├── AgentDetached       agent_detached         409   the agent has no environment: attach it to one
    │   ├── QuotaReached        quota_reached          409   as many as one principal may have: delete one
    │   ├── WorkspaceInUse      workspace_in_use       409   a live session holds the workspace
    │   └── WrongOffset         wrong_offset           409   the next part begins elsewhere: `offset_bytes` says where
    ├── PreconditionFailed      precondition_failed    412   the file is not the one that the caller expects
    ├── PayloadTooLarge         payload_too_large      413   more bytes than the service takes
    ├── ChecksumMismatch        checksum_mismatch      422   an upload is not what its checksum says: begin again
    ├── UnreadableFile          unreadable_file        422   a file is not the data it is to be; `reason` says how
    ├── LimitReached            limit_reached          429   later; `retry_after_seconds` says when
    │   ├── RateLimited         rate_limited           429   too many invocations a second
    │   ├── SessionLimit        session_limit          429   too many live sessions
    │   └── QueueFull           queue_full             429   too many executions wait in this session
    ├── InternalError           internal               500   a defect of the service
    ├── SandboxUnavailable      sandbox_unavailable    503   the sandbox could not be started or reached
    │   └── NoMemory            no_memory              503   the host's memory is full; later, or stop a session
    ├── StoreUnavailable        store_unavailable      503   the workspaces' store does not answer
    ├── WorkspaceRestoring      workspace_restoring    503   the session's files are not all there yet
    ├── DatabaseUnavailable     database_unavailable   503   the database does not answer
    ├── ProviderUnavailable     provider_unavailable   503   the identity provider does not answer
    ├── SessionElsewhere        session_elsewhere      503   another gateway has it, or is about to; try again
    ├── ShuttingDown            shutting_down          503   the service is draining
    ├── DeadlinePassed          deadline_passed        504   a wait of the service ran out
    ├── NoSpace                 no_space               507   the workspace or the host's disk is full
    └── StartRefused            start_refused          500   the service does not start; the message says what to do
        ├── SettingInvalid      setting_invalid        500   an unknown setting, or a value out of range
        └── DatabaseTooNew      database_too_new       500   the database was written by a newer version

`retryable` says whether the same request may succeed when sent again unchanged. On the wire an error is
`{"error": {"code", "message", "retryable", ...details}}` (`GatewayError.body`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from kernels import errors as below
from workspace_sync import errors as sync


class GatewayError(Exception):
    """Root of the service's errors; `details` are further JSON fields of the answer."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def body(self) -> dict[str, Any]:
        """The error as it goes over the wire."""
        return {"error": {"code": self.code, "message": self.message, "retryable": self.retryable, **self.details}}


class InvalidRequest(GatewayError):
    """The request makes no sense; the message says which part."""

    code, status = "invalid_request", 400


class Unauthorized(GatewayError):
    """No token, a wrong one or a revoked one; which of them is not said."""

    code, status = "unauthorized", 401

    def __init__(self, message: str = "a valid bearer token is required") -> None:
        super().__init__(message)


class Forbidden(GatewayError):
    """Only an administrator may do this."""

    code, status = "forbidden", 403


class ScopeMissing(Forbidden):
    """The credential's scope does not include what the call needs."""

    code = "scope_missing"


class NotFound(GatewayError):
    """Absent, or another principal's."""

    code, status = "not_found", 404


class UnknownEnvironment(NotFound):
    """No such environment, or its image has not been built."""

    code = "unknown_environment"


class Conflict(GatewayError):
    """The thing is not in a state that allows this."""

    code, status = "conflict", 409


class FileChanged(Conflict):
    """The file changed while it was read; told when nothing of it has been sent yet."""

    code, retryable = "file_changed", True


class SessionTerminated(Conflict):
    """The session has ended; details carry why and when."""

    code = "session_terminated"


class SessionBusy(Conflict):
    """Something runs in the session and the caller asked not to wait."""

    code, retryable = "session_busy", True


class GenerationMismatch(Conflict):
    """The kernel is not the one the caller expects; details carry both generations."""

    code = "generation_mismatch"


class IdempotencyConflict(Conflict):
    """The idempotency key was used with another request."""

    code = "idempotency_conflict"


class EnvironmentUnavailable(Conflict):
    """What the environment was made from, or what it was made with, is not to be had on this host any more."""

    code = "environment_unavailable"


class HasDependents(Conflict):
    """Agents are attached to the environment, or sessions of it live; `dependents` names them."""

    code = "has_dependents"


class AgentDetached(Conflict):
    """The agent is registered and has no environment, so it starts no session; `detached_from` says which it had."""

    code = "agent_detached"


class QuotaReached(Conflict):
    """As many as one principal may have; `quota` is the number, `removable` names checkpoints that take the room."""

    code = "quota_reached"


class WorkspaceInUse(Conflict):
    """A live session holds the workspace; `session_id` names it."""

    code = "workspace_in_use"


class WrongOffset(Conflict):
    """The next part of the upload begins at another byte, at `offset_bytes`."""

    code = "wrong_offset"


class PreconditionFailed(GatewayError):
    """The file is not the one that the caller expects."""

    code, status = "precondition_failed", 412


class PayloadTooLarge(GatewayError):
    """More bytes than the service takes."""

    code, status = "payload_too_large", 413


class ChecksumMismatch(GatewayError):
    """The bytes that were uploaded are not those of the checksum, and are removed."""

    code, status = "checksum_mismatch", 422


class UnreadableFile(GatewayError):
    """A file cannot be described as data; the message says what to do, `reason` is a stable word."""

    code, status = "unreadable_file", 422


class LimitReached(GatewayError):
    """A limit that passes with time; faces send `retry_after_seconds` as `Retry-After`."""

    code, status, retryable = "limit_reached", 429, True

    def __init__(self, message: str, *, retry_after_seconds: float, **details: Any) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds, **details)
        self.retry_after_seconds = retry_after_seconds


class RateLimited(LimitReached):
    """Too many invocations a second from one principal."""

    code = "rate_limited"


class SessionLimit(LimitReached):
    """Too many live sessions."""

    code = "session_limit"
    removal_helps = False
    """Only sandboxes of ended sessions are in the way: of `removal_of`, a principal's id, or of anybody."""
    removal_of: str | None = None


class QueueFull(LimitReached):
    """Too many executions wait in one session."""

    code = "queue_full"


class InternalError(GatewayError):
    """A defect of the service; the log has the particulars."""


class SandboxUnavailable(GatewayError):
    """The sandbox could not be started or reached."""

    code, status, retryable = "sandbox_unavailable", 503, True


class NoMemory(SandboxUnavailable):
    """The host's memory is full and nothing of it can be moved to swap, or what was moved is wanted back all the time.

    Details say who holds how much, and for how long all waited.
    """

    code = "no_memory"


class StoreUnavailable(GatewayError):
    """The store of the workspaces does not answer."""

    code, status, retryable = "store_unavailable", 503, True


class ProviderUnavailable(GatewayError):
    """The identity provider does not answer, or not as OpenID Connect says."""

    code, status, retryable = "provider_unavailable", 503, True


class WorkspaceRestoring(GatewayError):
    """The session's files are not all there yet, so no code runs; the message says how far it is."""

    code, status, retryable = "workspace_restoring", 503, True


class DatabaseUnavailable(GatewayError):
    """The database does not answer, or cannot be written."""

    code, status, retryable = "database_unavailable", 503, True


class SessionElsewhere(GatewayError):
    """Another of several gateways has the session or its workspace; asked again, the request finds its way there."""

    code, status, retryable = "session_elsewhere", 503, True


class ShuttingDown(GatewayError):
    """The service drains and takes no new work."""

    code, status, retryable = "shutting_down", 503, True


class DeadlinePassed(GatewayError):
    """A wait of the service ran out before its answer came."""

    code, status, retryable = "deadline_passed", 504, True


class NoSpace(GatewayError):
    """The workspace or the host's disk is full."""

    code, status = "no_space", 507


class StartRefused(GatewayError):
    """The service does not start; the message says what to do."""

    code = "start_refused"


class SettingInvalid(StartRefused):
    """An unknown setting, or a value out of its range."""

    code = "setting_invalid"


class DatabaseTooNew(StartRefused):
    """The database was written by a newer version of the service."""

    code = "database_too_new"


def every_error() -> list[type[GatewayError]]:
    """Every class of the tree below the root, in the order it is written here."""

    def below_of(parent: type[GatewayError]) -> Iterator[type[GatewayError]]:
        for child in parent.__subclasses__():
            yield child
            yield from below_of(child)

    return list(below_of(GatewayError))


KERNELS: tuple[tuple[type[below.KernelsError], type[GatewayError]], ...] = (
    (below.UnknownEnvironment, UnknownEnvironment),
    (below.DeadlineExceeded, DeadlinePassed),
    (below.RuntimeUnusable, StartRefused),
    (below.SandboxFailed, SandboxUnavailable),
    (below.KernelDied, SandboxUnavailable),
    (below.InvalidNotebook, InvalidRequest),
    (below.KernelsError, InternalError),
)
"""What each error of `kernels` becomes; the first class that fits counts."""

WORKSPACES: tuple[tuple[type[sync.WorkspaceSyncError], type[GatewayError]], ...] = (
    (sync.ObjectNotFound, NotFound),
    (sync.IllegalName, InvalidRequest),
    (sync.PathConflict, Conflict),
    (sync.NotAsExpected, PreconditionFailed),
    (sync.WorkspaceTooLarge, NoSpace),
    (sync.StoreFull, NoSpace),
    (sync.DirectoryFull, NoSpace),
    (sync.BadStoreUrl, SettingInvalid),
    (sync.StoreError, StoreUnavailable),
    (sync.FlushIncomplete, StoreUnavailable),
    (sync.RestoreIncomplete, WorkspaceRestoring),
    (sync.NotRestored, WorkspaceRestoring),
    (sync.WorkspaceSyncError, InternalError),
)
"""What each error of `workspace_sync` becomes; the first class that fits counts."""

GUEST: dict[int, type[GatewayError]] = {404: NotFound, 409: Conflict, 413: PayloadTooLarge, 507: NoSpace}
"""What a guest's refusal becomes, by its status; 429 is `LimitReached`, other 4xx `InvalidRequest`, the rest
`SandboxUnavailable`."""

GUEST_RETRY_SECONDS = 1.0
"""When to try again after a guest has too much of something under way."""


def _translate_refusal(error: below.GuestRefused) -> GatewayError:
    if error.code == FileChanged.code:
        return FileChanged(str(error))
    if error.status == 429:
        return LimitReached(str(error), retry_after_seconds=GUEST_RETRY_SECONDS, reason=error.code)
    otherwise = InvalidRequest if 400 <= error.status < 500 else SandboxUnavailable
    return GUEST.get(error.status, otherwise)(str(error), reason=error.code)


def translate(error: Exception) -> GatewayError:
    """The service's error for one of the packages below."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, below.GuestRefused):
        return _translate_refusal(error)
    for theirs, ours in (*KERNELS, *WORKSPACES):
        if isinstance(error, theirs):
            return ours(str(error))
    if isinstance(error, TimeoutError):
        return DeadlinePassed(str(error) or "the answer did not come in time")
    return InternalError("an internal error; the service's log has the particulars")


@contextmanager
def translated() -> Iterator[None]:
    """Let only our errors out of the block."""
    try:
        yield
    except (below.KernelsError, sync.WorkspaceSyncError, TimeoutError) as error:
        raise translate(error) from error
    except OSError as error:
        if error.errno not in sync.FULL:
            raise
        raise NoSpace(f"there is no room on the host's disk: {error.strerror}") from error
