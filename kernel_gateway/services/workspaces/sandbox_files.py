"""Files anywhere in a live session's sandbox, as its user may use them, by absolute paths.

Those below /workspace are the workspace's and outlive the session; all others go with the sandbox.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from kernel_gateway.errors import translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.files import limit_bytes, note_changes
from kernel_gateway.settings import Settings
from kernels.guest_client.client import FileStat, GuestClient
from sandcell.models.workspaces import WORKSPACE


class SandboxFiles:
    """Paths begin with a slash. Reading is no activity that keeps a session from idling; changing is."""

    def __init__(
        self,
        *,
        settings: Settings,
        readiness: Readiness,
        disk_room: DiskRoom,
        background: Background,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._disk_room = disk_room
        self._background = background
        self._registry = registry

    async def stat(self, principal: Principal, session_id: str, path: str) -> FileStat:
        """What is there; a link is described, not followed."""
        with translated():
            return await (await self._look(principal, session_id)).stat_file(path[1:], everywhere=True)

    async def list(self, principal: Principal, session_id: str, path: str, depth: int) -> list[FileStat]:
        """What is in a directory, so many levels deep; at most `files_listed`."""
        most = self._settings.files_listed
        guest = await self._look(principal, session_id)
        with translated():
            return await guest.list_files(path[1:], recursive=depth > 1, depth=depth, limit=most, everywhere=True)

    async def read(self, principal: Principal, session_id: str, path: str) -> tuple[FileStat, AsyncGenerator[bytes]]:
        """A file and its bytes, which the caller closes; those of one that changes meanwhile end with FileChanged."""
        guest = await self._look(principal, session_id)
        with translated():
            found, chunks = await guest.open_file(path[1:], everywhere=True)
        return found, _translate(chunks)

    async def write(self, principal: Principal, session_id: str, path: str, chunks: AsyncIterator[bytes]) -> FileStat:
        """Replace or make a file, whole or not at all; directories above it are made."""
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        self._disk_room.require()
        content = limit_bytes(chunks, self._settings.payload_bytes)
        with translated(), live.in_use():
            guest = (await live.sandbox.ready()).guest
            written = await guest.write_file(path[1:], content, everywhere=True)
            await _note(live, path)
        return written

    async def make_directory(self, principal: Principal, session_id: str, path: str) -> FileStat:
        """Make a directory and those above it; raises Conflict when it is there."""
        live, guest = await self._change(principal, session_id)
        with translated(), live.in_use():
            made = await guest.make_directory(path[1:])
            await _note(live, path)
        return made

    async def move(self, principal: Principal, session_id: str, path: str, to: str) -> FileStat:
        """Give what is there another path; a file that is there gives way."""
        live, guest = await self._change(principal, session_id)
        with translated(), live.in_use():
            moved = await guest.move_file(path[1:], to[1:])
            await _note(live, path, to)
        return moved

    async def remove(self, principal: Principal, session_id: str, path: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        live, guest = await self._change(principal, session_id)

        async def work() -> None:
            with translated(), live.in_use():
                await guest.remove_file(path[1:], recursive=True, everywhere=True)
                await _note(live, path)

        await self._background.carry_out(work(), f"removal in {live.id}")

    async def _look(self, principal: Principal, session_id: str) -> GuestClient:
        live = await self._registry.require(principal, session_id)
        with translated():
            return (await live.sandbox.ready()).guest

    async def _change(self, principal: Principal, session_id: str) -> tuple[LiveSession, GuestClient]:
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        with translated():
            return live, (await live.sandbox.ready()).guest


async def _translate(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    with translated():
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()


async def _note(live: LiveSession, *paths: str) -> None:
    kept = [path.removeprefix(f"{WORKSPACE}/") for path in paths if path.startswith(f"{WORKSPACE}/")]
    if kept:
        await note_changes(live, kept)
