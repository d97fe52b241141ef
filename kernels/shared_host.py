"""Sandboxes of several gateways on one host: one takes over those of another whose launcher has ended.

Each gateway has a data directory, whose lock its launcher holds for as long as it lives, and says in its run directory
which gateways it belongs to (`HostPlaces.prepare`). A sandbox that was taken over stays where it lies; a mark in its
directory names the data directory of who has it now, and a note in that one where it lies. The lock decides: nobody
begins to live while something is taken from it, and a launcher that lives is asked (`sandbox_release`): it ends the
life of its service that has used the sandbox, which has lost its lease, and lets go of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec.structs import replace

from kernels import sandbox_release
from kernels.errors import SandboxFailed, SandboxGone
from kernels.oci.namespaces import idmap
from kernels.oci.places import Announcement, HostPlaces
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import Finding, PagedOut, RuntimeSettings, SandboxInfo, SandboxSpec, SandboxUsage
from kernels.sandbox_release import Wanted

MARK: Final = "taken-by"
NOTES: Final = "taken"
_TURNS: Final = "taking.lock"
TURN_SECONDS: Final = 10.0
"""How long a launcher waits for its turn; each takes milliseconds."""
_POLL_SECONDS: Final = 0.01


class SharedHost:
    """`SandboxRuntime` of the sandboxes that this data directory has, wherever they lie. One launcher's, with its lock.

    What others have taken from it is gone for it, until it takes that back.
    """

    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        self._own = OciRuntime(settings)
        self._others: dict[Path, OciRuntime] = {}
        self._guard = threading.Lock()
        self._data = settings.data_directory
        # Nothing of these changes but by this process, which has the lock.
        self._away = {place.parent.name for place in self._own.places.sandboxes.glob(f"*/{MARK}")}
        self._away = {each for each in self._away if self._read_holder(self._data, each) != self._data}
        self._taken = dict(self._read_notes())

    async def check(self) -> tuple[Finding, ...]:
        return await self._own.check()

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        return await self._own.create(spec)

    async def claim(self, sandbox_id: str, *, workspace_ready: bool = False) -> SandboxUsage:
        return await self._find(sandbox_id).claim(sandbox_id, workspace_ready=workspace_ready)

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        await self._find(sandbox_id).mark_workspace_ready(sandbox_id)

    async def reopen(self, sandbox_id: str) -> None:
        await (await asyncio.to_thread(self._take, sandbox_id)).reopen(sandbox_id)

    async def list(self) -> tuple[SandboxInfo, ...]:
        found = [info for info in await self._own.list() if info.sandbox_id not in self._away | self._taken.keys()]
        for other in set(self._taken.values()):
            found += [info for info in await other.list() if self._taken.get(info.sandbox_id) is other]
        return tuple(found)

    async def running(self, sandbox_id: str) -> bool:
        if sandbox_id in self._away:  # asked before it is taken back
            return await self._own.running(sandbox_id)
        found = self._look_elsewhere(sandbox_id)
        return await (self._find(sandbox_id) if found is None else self._open(found)).running(sandbox_id)

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        return await self._find(sandbox_id).usage(sandbox_id)

    async def watch_memory(self, sandbox_id: str, percents: tuple[int, ...]) -> int:
        return await self._find(sandbox_id).watch_memory(sandbox_id, percents)

    async def page_out(self, sandbox_id: str) -> PagedOut:
        return await self._find(sandbox_id).page_out(sandbox_id)

    async def thaw(self, sandbox_id: str) -> None:
        await self._find(sandbox_id).thaw(sandbox_id)

    async def save(self, sandbox_id: str) -> PagedOut:
        return await self._find(sandbox_id).save(sandbox_id)

    async def put_away(self, sandbox_id: str) -> bool:
        return await self._find(sandbox_id).put_away(sandbox_id)

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        return await self._find(sandbox_id).dial(sandbox_id, name, patience_seconds=patience_seconds)

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        return await self._find(sandbox_id).listen(sandbox_id, name)

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        return await self._find(sandbox_id).open_beneath(sandbox_id, path)

    async def open_kept(self, sandbox_id: str, name: str) -> int:
        return await self._find(sandbox_id).open_kept(sandbox_id, name)

    async def kill(self, sandbox_id: str) -> SandboxUsage | None:
        return None if sandbox_id in self._away else await self._find(sandbox_id).kill(sandbox_id)

    async def destroy(self, sandbox_id: str) -> None:
        if sandbox_id in self._away:
            return
        await self._find(sandbox_id).destroy(sandbox_id)
        if self._taken.pop(sandbox_id, None) is not None:
            (self._data / NOTES / sandbox_id).unlink(missing_ok=True)

    async def aclose(self) -> None:
        await self._own.aclose()
        for other in self._others.values():
            other.let_go()

    @contextlib.asynccontextmanager
    async def releasing(self, end_user: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
        """Let others have what they ask for. `end_user` ends the service that has used a sandbox, if one has."""

        async def release(wanted: Wanted) -> None:
            sandbox_id, home = wanted.sandbox_id, self._find(wanted.sandbox_id).places.sandboxes
            self._own.require_id(sandbox_id)
            await end_user(sandbox_id)
            if not (home / sandbox_id).is_dir():  # what its service was making or removing is gone with that
                raise SandboxGone(f"there is no sandbox {sandbox_id}")
            await asyncio.to_thread(self._write, home / sandbox_id / MARK, wanted.data.encode())
            if self._taken.pop(sandbox_id, None) is None:
                self._away.add(sandbox_id)
            else:
                (self._data / NOTES / sandbox_id).unlink(missing_ok=True)

        self._own.places.prepare()
        async with sandbox_release.answering(self._own.places.release, release):
            yield

    def _find(self, sandbox_id: str) -> OciRuntime:
        if sandbox_id in self._away:
            raise SandboxGone(f"another gateway has taken over the sandbox {sandbox_id}")
        return self._taken.get(sandbox_id, self._own)

    def _look_elsewhere(self, sandbox_id: str) -> Announcement | None:
        """The other gateway of this database and host in whose directory the sandbox lies, if one has it."""
        self._own.require_id(sandbox_id)
        if sandbox_id in self._taken or (self._own.places.sandboxes / sandbox_id).exists():
            return None
        for place in sorted(self._settings.run_directory.glob(f"*/{HostPlaces.ANNOUNCEMENT}")):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found = msgspec.json.decode(place.read_bytes(), type=Announcement)
                same = found.gateways == self._settings.gateways
                if same and (Path(found.data) / "sandboxes" / sandbox_id).exists():
                    return found
        return None

    def _take(self, sandbox_id: str) -> OciRuntime:
        """The runtime of a sandbox that is this gateway's from now on.

        Raises SandboxGone where it is another's that does not let go of it, SandboxFailed where that is not said.
        """
        with self._guard:
            found = self._look_elsewhere(sandbox_id)
            if found is None and sandbox_id not in self._away:
                return self._find(sandbox_id)
            self._own.places.prepare()  # where it is shown
        place = self._data if found is None else Path(found.data)
        holder = self._read_holder(place, sandbox_id)
        held_at = HostPlaces(replace(self._settings, data_directory=holder))
        if holder != self._data:
            if found is not None:  # before the mark, without which it says nothing
                self._write(self._data / NOTES / sandbox_id, msgspec.json.encode(found))
            with self._take_turn(), _hold_lock(holder / "lock") as has_ended:
                if has_ended:
                    self._write(place / "sandboxes" / sandbox_id / MARK, bytes(self._data))
            if not has_ended:  # without the turn: others are not to wait for its answer
                sandbox_release.ask(held_at.release, Wanted(sandbox_id, str(self._data)))
            idmap.unmount_view(held_at.views / sandbox_id)  # of a service that has ended by now
        with self._guard:
            self._away.discard(sandbox_id)
            if found is not None:
                self._taken[sandbox_id] = self._open(found)
            return self._find(sandbox_id)

    def _open(self, found: Announcement) -> OciRuntime:
        """The runtime of the sandboxes in that directory as their own gateway had it, with views for this service."""
        data = Path(found.data)
        if data not in self._others:
            settings = replace(self._settings, data_directory=data, gateways="")
            self._others[data] = OciRuntime(settings, views=self._own.places.views, groups=found.groups)
        return self._others[data]

    def _read_notes(self) -> Iterator[tuple[str, OciRuntime]]:
        for note in (self._data / NOTES).glob("*-*-*-*-*"):
            found = msgspec.json.decode(note.read_bytes(), type=Announcement)
            if self._read_holder(Path(found.data), note.name) == self._data:
                yield note.name, self._open(found)
            else:  # it is gone, or was taken by a third, or never was taken
                note.unlink()

    @staticmethod
    def _read_holder(data: Path, sandbox_id: str) -> Path:
        """The data directory of the gateway that has the sandbox which lies in this one."""
        try:
            return Path((data / "sandboxes" / sandbox_id / MARK).read_text())
        except FileNotFoundError:
            return data

    @staticmethod
    def _write(place: Path, content: bytes) -> None:
        place.parent.mkdir(exist_ok=True, mode=0o700)
        unfinished = place.with_name(f".{place.name}")
        unfinished.write_bytes(content)
        unfinished.replace(place)

    @contextlib.contextmanager
    def _take_turn(self) -> Iterator[None]:
        """One launcher of this host at a time: two that look whether a third lives would each keep its lock busy.

        Raises SandboxFailed where another keeps its turn, as one that was stopped does.
        """
        with (self._settings.run_directory / _TURNS).open("a") as turns:
            give_up = time.monotonic() + TURN_SECONDS
            while not _try_lock(turns):
                if time.monotonic() > give_up:
                    raise SandboxFailed(
                        f"another launcher of this host has been taking sandboxes for {TURN_SECONDS:g} s"
                    )
                time.sleep(_POLL_SECONDS)
            yield


@contextlib.contextmanager
def _hold_lock(place: Path) -> Iterator[bool]:
    """Whether the launcher of this data directory has ended: then its lock, which keeps another from starting."""
    try:
        lock = place.open("rb")
    except FileNotFoundError:  # the whole directory is gone
        yield True
        return
    with lock:
        yield _try_lock(lock)


def _try_lock(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
