"""A runtime of this host that gives its workspaces out as if they were on another machine: only the guest reaches them.

What a runtime of pods does for want of a directory: the service has a copy of each workspace, below `place`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.errors import SandboxGone
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec


class DistantRuntime:
    """All else is the runtime's behind it."""

    def __init__(self, behind: SandboxRuntime, place: Path) -> None:
        self._behind = behind
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        (self._place / spec.sandbox_id / "workspace").mkdir(parents=True)
        return self._move(await self._behind.create(spec))

    async def list(self) -> tuple[SandboxInfo, ...]:
        return tuple(map(self._move, await self._behind.list()))

    async def reopen(self, sandbox_id: str) -> None:
        copy = self._place / sandbox_id / "workspace"
        if not copy.is_dir():
            if not await self._behind.running(sandbox_id):
                raise SandboxGone(f"the files of sandbox {sandbox_id} are gone with it")
            copy.mkdir(parents=True)

    async def destroy(self, sandbox_id: str) -> None:
        await self._behind.destroy(sandbox_id)
        shutil.rmtree(self._place / sandbox_id, ignore_errors=True)

    def _move(self, info: SandboxInfo) -> SandboxInfo:
        copy = self._place / info.sandbox_id / "workspace"
        return replace(info, workspace_directory=str(copy), workspace_copy=True)
