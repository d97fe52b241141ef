"""What the host can enforce and whether what the service stands on answers, for administrators of a service that runs.

The launcher, which is root, looks at the host as `sandcell doctor` does. What a doctor does besides is not done beside
live sessions: no sandbox is started, and nothing is written into the store.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from kernel_gateway.errors import GatewayError, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.credentials.tokens import require_administrator
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernels.errors import KernelsError
from kernels.sandbox import SandboxRuntime
from sandcell.models.model import Page
from sandcell.models.usage import HostFinding
from workspace_sync.errors import ObjectNotFound, WorkspaceSyncError

WHAT: Final = "what the host can enforce"
STANDS_SECONDS: Final = 10.0
"""How long an answer stands: a look starts a container and mounts a file system."""
STORE_SECONDS: Final = 10.0
_NO_OBJECT: Final = "doctor/nothing"


class HostCheck:
    """One look at a time; who asks meanwhile gets what it finds."""

    def __init__(self, runtime: SandboxRuntime, readiness: Readiness, disk_room: DiskRoom, mirrors: Mirrors) -> None:
        self._runtime = runtime
        self._readiness = readiness
        self._disk_room = disk_room
        self._mirrors = mirrors
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self._found: list[HostFinding] = []

    async def look(self, principal: Principal) -> Page[HostFinding]:
        """Every finding, in the order a person would mend them; raises Forbidden, SandboxUnavailable."""
        require_administrator(principal, WHAT)
        async with self._looking:
            if time.monotonic() - self._looked > STANDS_SECONDS:
                self._found = [*await self._look_at_host(), await self._look_at_service(), await self._look_at_store()]
                self._looked = time.monotonic()
        return Page(self._found)

    async def _look_at_host(self) -> list[HostFinding]:
        with translated():
            findings = await self._runtime.check()
        return [
            HostFinding(each.name, ok=each.ok, detail=each.detail, remedy=each.remedy, required=each.required)
            for each in findings
        ]

    async def _look_at_service(self) -> HostFinding:
        try:
            await self._readiness.require_ready()
            self._disk_room.require()
        except GatewayError as error:
            return HostFinding("service", ok=False, detail=error.message, remedy="new work is refused until then")
        return HostFinding("service", ok=True, detail="the database answers, and the disk has room")

    async def _look_at_store(self) -> HostFinding:
        """Whether it answers when it is asked for what is not there; whether it can be written, flushes say."""
        store = self._mirrors.store
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await self._mirrors.run(lambda: store.stat(_NO_OBJECT))
        except ObjectNotFound:
            pass
        except (WorkspaceSyncError, KernelsError, GatewayError, TimeoutError) as error:
            detail = str(error) or f"it does not answer within {STORE_SECONDS:.0f} s"
            remedy = "files of live sessions wait here until it is back"
            return HostFinding("store", ok=False, detail=detail, remedy=remedy, required=False)
        return HostFinding("store", ok=True, detail=f"{store.description} answers")
