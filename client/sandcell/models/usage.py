"""The values of usage and retention, and of what a host can enforce."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sandcell.models.model import Model

MOST_EXPIRED = 1_000
"""Workspaces that one look for untouched ones takes; the next takes the others."""
Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]


class HostFinding(Model):
    """What was looked at on the service's host, whether it is as it should be, what was seen, what to do about it.

    A service does not start while what is `required` is not as it should be.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


class PrincipalUsage(Model):
    """What the workspaces of one principal hold in the store, by what was counted when they last changed.

    `not_counted` of them have not changed since counting began; showing one counts it. Of its live sessions:
    `memory_bytes` and `disk_bytes` are what their sandboxes hold now; `cpu_seconds` is the processor time of all their
    sandboxes, and that of all sessions that have ended.
    """

    principal: str
    workspaces: int
    live_workspaces: int
    not_counted: int
    file_count: int
    size_bytes: int
    datasets: int
    live_sessions: int = 0
    live_sessions_most: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    cpu_seconds: float = 0.0


class ExpireWorkspaces(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/retention`: remove workspaces that have not been used for so many days, or say which they are.

    `days` is by default the setting `workspace_retention_days`.
    """

    days: Days | None = None
    dry_run: bool = True


class ExpiredWorkspace(Model):
    """A workspace without a session, read or write since `touched_at`; `kept` says why it stays all the same."""

    workspace_id: str
    principal: str
    touched_at: str
    file_count: int | None = None
    size_bytes: int | None = None
    kept: str | None = None


class Expired(Model):
    """What was removed, or would be with `dry_run`, those first that were made first; `more`: ask again for others."""

    dry_run: bool
    days: int
    workspaces: list[ExpiredWorkspace]
    more: bool = False
