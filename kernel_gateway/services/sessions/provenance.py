"""What an execution used and changed: what its kernel says, and what is seen from outside the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any

from msgspec import structs

from kernel_gateway.services.sessions.live_session import LiveSession
from kernels.execution.run_usage import RunUsage
from workspace_sync.directory.changes import Changes, Watched


def provenance_of(usage: RunUsage | None, environment_digest: str) -> dict[str, Any]:
    """What is stored next to an execution's outcome: `usage` by its names as far as it is known, and the image."""
    used = {} if usage is None else {name: value for name, value in structs.asdict(usage).items() if value is not None}
    return {**used, "environment_digest": environment_digest} if environment_digest else used


def find_changes(live: LiveSession) -> dict[str, Any] | Awaitable[dict[str, Any]]:
    """The files of the workspace that changed since this was last asked, as a part of an execution's provenance.

    Called when an execution has ended, before the next one begins. Where nothing has changed that is known at once.
    A look bounds itself; the record bounds its wait.
    """
    watched = live.sandbox.watched
    if watched is None:
        return describe_changes(Changes(unknown="the sandbox is gone"))
    if watched.is_quiet():
        return describe_changes(Changes())
    return _look(watched)


async def _look(watched: Watched) -> dict[str, Any]:
    return describe_changes(await asyncio.to_thread(watched.look))


def describe_changes(changes: Changes) -> dict[str, Any]:
    """Changes as a part of an execution's provenance: `files` and `files_omitted`, or why they are not known."""
    if changes.unknown:
        return {"files_unknown": changes.unknown}
    told: dict[str, Any] = {"files": [asdict(each) for each in changes.files]}
    return {**told, "files_omitted": changes.omitted} if changes.omitted else told
