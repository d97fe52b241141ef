"""What sessions and executions say of their files: how far the mirror of a workspace is, and what is durable."""

from __future__ import annotations

from typing import Literal

import msgspec

SyncMode = Literal["async", "before_return"]


class DurableExecution(msgspec.Struct):
    """The last execution or command whose files are in the store; `number` counts what had ended by then."""

    execution_id: str
    number: int


class Restoring(msgspec.Struct):
    """What of a workspace is still on its way from the store; no code runs before all of it is there.

    Null until the store has been listed. `error` is why nothing comes at present.
    """

    files_left: int | None = None
    bytes_left: int | None = None
    error: str | None = None


class Sync(msgspec.Struct):
    """How far the workspace's mirror is: the last complete flush, what waits, and the last error, if any.

    `mode` holds for executions that do not say. `durable`: all that this execution and those before it left is in the
    store. `retry_at` is when a flush that failed is tried again.
    """

    last_flush_at: str | None = None
    pending: bool = False
    error: str | None = None
    mode: SyncMode = "async"
    durable: DurableExecution | None = None
    pending_files: int = 0
    pending_bytes: int = 0
    retry_at: str | None = None
    restoring: Restoring | None = None


class ExecutionSync(msgspec.Struct):
    """Whether the files that an execution left are in the store.

    `mode` before_return: its answer waited for that. `durable` is null while it is not known: the execution has not
    ended, or never ran. `error` says why they are not, or what of the workspace is never mirrored.
    """

    mode: SyncMode = "async"
    durable: bool | None = None
    error: str | None = None
