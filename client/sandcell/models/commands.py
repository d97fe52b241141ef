"""Shell commands and background tasks."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.executions import Truncated
from sandcell.models.model import Model
from sandcell.models.sync import ExecutionSync, SyncMode


class CommandRequest(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/commands`; runs by `/bin/bash -c` (or `sh`) in /workspace.

    With `merge_output` what it writes to stderr is in stdout, where it was written. `sync` is as of a submission; a
    background task has none, since its answer comes when it begins. With `stop_when_gone` the command is stopped when
    the caller closes the connection before it has the answer; otherwise it goes on.
    """

    command: Annotated[str, constraints.COMMAND]
    timeout_seconds: Annotated[float | None, constraints.SECONDS_OF_COMMAND] = None
    background: bool = False
    merge_output: bool = False
    sync: SyncMode | None = None
    stop_when_gone: bool = False


class Command(Model):
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
