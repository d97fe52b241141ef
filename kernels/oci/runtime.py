"""`SandboxRuntime` on an OCI command line: makes, counts and removes sandboxes on this host.

Blocking work (mounts, the runtime's process) runs in threads of the runtime's own; every step has a deadline. A create
that fails takes back what it had acquired; a destroy can be repeated, and finishes what an earlier process left.
"""

from __future__ import annotations

import asyncio
import compileall
import contextlib
import dataclasses
import errno
import functools
import hashlib
import importlib.util
import os
import platform
import py_compile
import re
import shutil
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from kernels.errors import KernelsError, RuntimeUnusable, SandboxFailed, SandboxGone
from kernels.guest.processors import whole
from kernels.oci import bundle, egress_sockets, safe_open, sockets, storage
from kernels.oci.cgroups import Cgroups
from kernels.oci.checkpoints import Checkpoints, mark_awake
from kernels.oci.command import OciCommand
from kernels.oci.host import findings as host
from kernels.oci.host import shares as host_shares
from kernels.oci.idle_memory import IdleMemory
from kernels.oci.namespaces import idmap, user_namespace
from kernels.oci.places import HostPlaces, SandboxPlaces, read_uid_base
from kernels.oci.uid_ranges import UidRanges
from kernels.sandbox import Finding, PagedOut, RuntimeSettings, SandboxInfo, SandboxSpec, SandboxUsage

# Directories that are made once and shared: built next to their place and renamed into it, so never seen unfinished.


def create_atomically(target: Path, fill: Callable[[Path], None]) -> Path:
    """`target`, which `fill` writes the content of when it is not there; of several makers at once one's stays."""
    if not target.exists():
        building = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        building.mkdir(exist_ok=True)
        try:
            fill(building)
            with contextlib.suppress(OSError):
                building.rename(target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target


# The number of processors that a sandbox is shown at /sys/devices/system/cpu, where the C library asks for it.
#
# Without these files it would fall back to /proc/stat, which counts the host's.

_PLACE: Final = "devices/system/cpu"
_FILES: Final = ("online", "possible", "present")


def make_processor_files(directory: Path, vcpus: float) -> Path:
    """What to bind at /sys of a sandbox with so many vCPUs; made below `directory` once for each number."""
    count = whole(vcpus)

    def fill(building: Path) -> None:
        (building / _PLACE).mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            (building / _PLACE / name).write_text(f"0-{count - 1}\n" if count > 1 else "0\n")

    return create_atomically(directory / f"processors-{count}", fill)


T = TypeVar("T")

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GUEST_SOURCE: Final = Path(__file__).parent.parent / "guest"
_THREADS: Final = 8
_GUEST_NICENESS: Final = -20
_KEPT: Final = ".cache/sandcell/variables"
"""Where `kernels/guest/in_kernel/kept_variables.py` writes, from the user's home directory."""


def make_link_to_workspace(directory: Path) -> Path:
    """What to bind at /mnt, made below `directory` once."""

    def fill(building: Path) -> None:
        (building / "data").symlink_to("/workspace")

    return create_atomically(directory / "mnt", fill)


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


@functools.cache
def read_guest_source() -> tuple[dict[str, bytes], str]:
    """The files of the guest's code by their names, and a digest of them with the Python that compiles them."""
    sources = {str(path.relative_to(_GUEST_SOURCE)): path.read_bytes() for path in _GUEST_SOURCE.glob("**/*.py")}
    # Beside the modules of the kernel, which load it from there: no image needs to have it. It is not imported here.
    package = importlib.util.find_spec("cloudpickle")
    if package is None or package.origin is None:
        raise RuntimeUnusable("cloudpickle is not installed beside the service: install its requirements")
    sources["in_kernel/cloudpickle.py"] = Path(package.origin).with_name("cloudpickle.py").read_bytes()
    compiled_by = sys.implementation.cache_tag
    return sources, hashlib.sha256(repr((compiled_by, sorted(sources.items()))).encode()).hexdigest()[:16]


def write_guest(directory: Path) -> None:
    """The guest's code, compiled."""
    for name, content in read_guest_source()[0].items():
        place = directory / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    # A sandbox whose Python is of another version passes these over and compiles at each start.
    compileall.compile_dir(directory, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


class OciRuntime:
    """Sandboxes of one data directory. See `SandboxRuntime` for the contract.

    `views` is where a service sees their workspaces that is not the data directory's own, `groups` are the control
    groups of the process that made them, where that is another.
    """

    def __init__(self, settings: RuntimeSettings, *, views: Path | None = None, groups: str | None = None) -> None:
        self.settings = settings
        self.places = HostPlaces(settings, views)
        self.cgroups = Cgroups(self.places.cgroup, own=groups)
        self.commands = {name: self._oci_command(name) for name in (settings.runtime, *settings.more_runtimes)}
        self._uids = UidRanges(
            self.places.uid_claims, base=settings.uid_base, count=settings.uid_ranges, first_id=read_uid_base
        )
        self._idle_memory = IdleMemory(self.cgroups)
        self._checkpoints = Checkpoints(self.cgroups, reserve_bytes=settings.disk_reserve_bytes)
        self._wanted: dict[str, threading.Event] = {}
        """Of sandboxes whose memory is being moved: set when one is to go on."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sandbox")
        self._locks: dict[str, _Turns] = {}
        self._guard = threading.Lock()

    async def check(self) -> tuple[Finding, ...]:
        return await self._in_thread(lambda: host.check(self.settings, self.commands, self.cgroups))

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        making = self._threads.submit(self._create, spec)
        made = asyncio.wrap_future(making)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            # A thread cannot be stopped half way: what it makes all the same is taken back, since no caller has it. It
            # ends: each command of the OCI runtime that it starts has a deadline.
            if not making.cancel():
                await asyncio.wait([made])
                if made.exception() is None:
                    await self.destroy(spec.sandbox_id)
            raise

    async def claim(self, sandbox_id: str, *, workspace_ready: bool = False) -> SandboxUsage:
        return await self._in_thread(lambda: self._claim(self._places(sandbox_id), workspace_ready=workspace_ready))

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        places = self._places(sandbox_id)
        await self._in_thread(lambda: self._mark_workspace_ready(places))

    async def reopen(self, sandbox_id: str) -> None:
        await self._in_thread(lambda: self._reopen(self._places(sandbox_id)))

    async def list(self) -> tuple[SandboxInfo, ...]:
        return await self._in_thread(self._list)

    async def running(self, sandbox_id: str) -> bool:
        return await self._in_thread(lambda: self._running(self._places(sandbox_id)))

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        return await self._in_thread(lambda: self._usage(self._places(sandbox_id)))

    async def watch_memory(self, sandbox_id: str, percents: tuple[int, ...]) -> int:
        self._places(sandbox_id)
        return await self._in_thread(lambda: self.cgroups.watch_memory(sandbox_id, percents), unwanted=os.close)

    async def page_out(self, sandbox_id: str) -> PagedOut:
        return await self._move(sandbox_id, self._page_out)

    async def save(self, sandbox_id: str) -> PagedOut:
        return await self._move(sandbox_id, self._save)

    async def _move(self, sandbox_id: str, move: Callable[[SandboxPlaces, threading.Event], PagedOut]) -> PagedOut:
        self._places(sandbox_id)
        wanted = self._wanted.setdefault(sandbox_id, threading.Event())
        try:
            return await self._in_thread(lambda: move(self._places(sandbox_id), wanted))
        except asyncio.CancelledError:  # the thread goes on to its end, which comes soon then, with the sandbox thawed
            wanted.set()
            raise
        finally:
            if self._wanted.get(sandbox_id) is wanted:
                del self._wanted[sandbox_id]

    async def thaw(self, sandbox_id: str) -> None:
        self._places(sandbox_id)
        self._want(sandbox_id)
        await self._in_thread(lambda: self._thaw(self._places(sandbox_id)))

    async def put_away(self, sandbox_id: str) -> bool:
        return await self._in_thread(lambda: self._put_away(self._places(sandbox_id)))

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        # Not in a thread: a step on a tmpfs does not block, and threads are for what does.
        return await sockets.dial_in(str(self._places(sandbox_id).transport))(name, patience_seconds=patience_seconds)

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        places = self._places(sandbox_id)
        return await self._in_thread(lambda: self._listen(places, name), unwanted=socket.socket.close)

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        places = self._places(sandbox_id)
        return await self._in_thread(lambda: self._open_beneath(places, path), unwanted=os.close)

    async def open_kept(self, sandbox_id: str, name: str) -> int:
        places = self._places(sandbox_id)
        return await self._in_thread(lambda: self._open_kept(places, name), unwanted=os.close)

    async def kill(self, sandbox_id: str) -> SandboxUsage | None:
        places = self._places(sandbox_id)
        self._want(sandbox_id)
        return await self._in_thread(lambda: self._kill(places))

    async def destroy(self, sandbox_id: str) -> None:
        places = self._places(sandbox_id)
        self._want(sandbox_id)
        # What is to go goes, also when its caller has given up waiting.
        await asyncio.shield(asyncio.wrap_future(self._threads.submit(self._destroy, places)))

    async def aclose(self) -> None:
        """Remove the service's empty directories and groups; sandboxes that still run are left alone."""
        await self._in_thread(self._remove_empty)
        self.let_go()

    def let_go(self) -> None:
        """Let go of this process's threads and nothing else."""
        self._threads.shutdown(wait=False)

    @staticmethod
    def require_id(sandbox_id: str) -> None:
        """Raise SandboxFailed for what is no id of a sandbox, and may be a path."""
        if not _UUID.fullmatch(sandbox_id):
            raise SandboxFailed(f"a sandbox id is a UUID with dashes, not {sandbox_id!r}")

    async def _in_thread(self, work: Callable[[], T], *, unwanted: Callable[[T], None] | None = None) -> T:
        """Do it in a thread. Given up before it began, it never does; later it goes on to its end, half made nothing.

        `unwanted` gets the result when the caller has given up waiting for it.
        """
        working = self._threads.submit(work)
        try:
            return await asyncio.shield(asyncio.wrap_future(working))
        except asyncio.CancelledError:
            if not working.cancel() and unwanted is not None:
                working.add_done_callback(lambda done: done.exception() or unwanted(done.result()))
            raise

    def _places(self, sandbox_id: str) -> SandboxPlaces:
        self.require_id(sandbox_id)
        return self.places.of(sandbox_id)

    def _create(self, spec: SandboxSpec) -> SandboxInfo:
        places = self._places(spec.sandbox_id)
        with self._take_turn(spec.sandbox_id):
            command = self._command(spec.environment.runtime)
            host.require_free_space(self.places.data, self.settings.disk_reserve_bytes)
            self._make_home(places)
            try:
                return self._build(spec, places, command)
            except BaseException as error:
                self._remove(places)
                if isinstance(error, KernelsError) or not isinstance(error, Exception):
                    raise
                raise SandboxFailed(f"the sandbox could not be made: {error}") from error

    def _make_home(self, places: SandboxPlaces) -> None:
        try:
            self.places.prepare()
            if places.home.exists():
                raise SandboxFailed(f"a sandbox {places.sandbox_id} exists already")
            places.home.mkdir(mode=0o700)
        except OSError as error:
            raise SandboxFailed(f"the directories of a sandbox cannot be made: {error}") from error

    def _build(self, spec: SandboxSpec, places: SandboxPlaces, command: OciCommand) -> SandboxInfo:
        root = self._uids.claim(places.home)
        user = root + bundle.USER_ID
        # Before anything is made: after a crash the next service learns from it which runtime and uids to take back.
        places.write_journal(root, command.name, spec.environment.digest)
        if spec.spare:
            places.spare.touch()
        storage.make_image(places.image, spec.environment.resources.storage_bytes, root)
        storage.mount_image(places.image, places.storage, new=True)
        storage.make_directories(places.storage, root, user)
        places.transport.mkdir(mode=0o700)
        storage.mount_transport(places.transport)
        storage.make_socket_directories(places.transport, root, user)
        with self._user_namespace(command, root) as namespace:
            processors_left, _ = self.cgroups.processors_left(top=command.groups_at_top)
            config = self._config(spec, places, root, namespace, processors_left)
            command.run(spec.sandbox_id, config, places.bundle, places.log)
        self._hold_sockets(spec, places, command)
        self._favour(places)
        self.cgroups.let_burst(spec.sandbox_id)
        self._show(places, user)
        return self._info(places)

    def _info(self, places: SandboxPlaces) -> SandboxInfo:
        return dataclasses.replace(places.info(), saved_whole=self._is_saved_whole(places))

    def _hold_sockets(self, spec: SandboxSpec, places: SandboxPlaces, command: OciCommand) -> None:
        """Bound what sockets hold beside the sandbox's memory. No user code runs before the sandbox is handed out."""
        self.cgroups.limit_sockets(spec.sandbox_id, bundle.socket_bytes(spec.environment.resources.memory_bytes))
        process = places.first_process()
        if process is None:
            raise SandboxFailed(f"{command.program} did not say which process is the sandbox's first")
        if not command.own_kernel:
            host_shares.keep_no_copies_of_sends(process)

    @staticmethod
    def _favour(places: SandboxPlaces) -> None:
        """Have the guest go before all that it starts, within the sandbox's share; a help where it may be given."""
        process = places.first_process()
        with contextlib.suppress(OSError):
            if process is not None:
                os.setpriority(os.PRIO_PROCESS, process, _GUEST_NICENESS)

    def _show(self, places: SandboxPlaces, user: int) -> None:
        idmap.mount_view(places.storage / "workspace", places.view, user=user, service=self.settings.service_uid)

    def _reopen(self, places: SandboxPlaces) -> None:
        with self._take_turn(places.sandbox_id):
            root = places.read_journal()
            if root is None or not places.image.exists():
                raise SandboxGone(f"the disk of sandbox {places.sandbox_id} is gone")
            self.places.prepare()
            if not places.storage.is_mount():
                storage.mount_image(places.image, places.storage)
            if not idmap.shows(places.view, self.settings.service_uid):
                idmap.unmount_view(places.view)
                self._show(places, root + bundle.USER_ID)

    def _claim(self, places: SandboxPlaces, *, workspace_ready: bool) -> SandboxUsage:
        if not places.spare.exists():
            raise SandboxGone(f"there is no spare sandbox {places.sandbox_id}")
        self.cgroups.end_burst(places.sandbox_id)
        self.cgroups.give_full_share(places.sandbox_id)
        usage = self._usage(places)
        if workspace_ready:
            places.workspace_ready.touch()
        return usage

    def _mark_workspace_ready(self, places: SandboxPlaces) -> None:
        """Code may run from now on."""
        self.cgroups.end_burst(places.sandbox_id)
        places.workspace_ready.touch()

    def _listen(self, places: SandboxPlaces, name: str) -> socket.socket:
        root = places.read_journal()
        if root is None:
            raise SandboxGone(f"sandbox {places.sandbox_id} is gone")
        return egress_sockets.listen(places.transport, name, root)

    def _open_beneath(self, places: SandboxPlaces, path: bytes) -> int:
        if not places.view.is_mount():
            raise SandboxGone(f"the workspace of sandbox {places.sandbox_id} is gone")
        return safe_open.open_beneath(places.view, path)

    @staticmethod
    def _open_kept(places: SandboxPlaces, name: str) -> int:
        """From its disk as it is mounted, not through the view, which shows the workspace alone."""
        if not places.storage.is_mount():
            raise SandboxGone(f"the disk of sandbox {places.sandbox_id} is not there")
        found = safe_open.open_beneath(places.storage / "home", os.fsencode(f"{_KEPT}/{name}" if name else _KEPT))
        if stat.S_ISLNK(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return found

    def _command(self, name: str) -> OciCommand:
        """The runtime that an environment asks for, empty for the service's own; raises `RuntimeUnusable`."""
        command = self.commands.get(name or self.settings.runtime)
        if command is None:
            offered = ", ".join(self.commands)
            raise RuntimeUnusable(f"this service was not started with the runtime {name!r}, only with {offered}")
        command.require()
        return command

    def _maker(self, places: SandboxPlaces) -> OciCommand:
        """The runtime that made the sandbox, also one that new sandboxes may not have any more."""
        name = places.runtime() or self.settings.runtime
        return self.commands.get(name) or self._oci_command(name)

    def _oci_command(self, name: str) -> OciCommand:
        return OciCommand(name, self.places.runtime_state, unified=self.cgroups.unused_unified)

    @staticmethod
    def _user_namespace(command: OciCommand, root: int) -> contextlib.AbstractContextManager[str]:
        """The path of the sandbox's user namespace; a runtime with a kernel of its own makes what it needs."""
        return contextlib.nullcontext("") if command.own_kernel else user_namespace.owned_by(root, bundle.UID_RANGE)

    def _config(
        self, spec: SandboxSpec, places: SandboxPlaces, root: int, namespace: str, processors_left: float
    ) -> dict[str, Any]:
        vcpus = min(spec.environment.resources.vcpus, processors_left)
        return bundle.config(
            spec,
            bundle.Places(
                guest=str(self._guest()),
                transport=str(places.transport),
                workspace=str(places.storage / "workspace"),
                home=str(places.storage / "home"),
                temporary=str(places.storage / "tmp"),
                processors=str(make_processor_files(self.places.guests, vcpus)),
                uid_base=root,
                user_namespace=namespace,
                cgroup=self.cgroups.path(spec.sandbox_id),
                processors_left=processors_left,
                mnt=self._choose_mnt(Path(spec.environment.root) / "mnt"),
            ),
            machine=platform.machine(),
            swap=self.cgroups.limits_swap(),
        )

    def _choose_mnt(self, own: Path) -> str:
        """What to show at /mnt: a link `data` to the workspace, where the image has nothing of its own there."""
        return str(make_link_to_workspace(self.places.guests)) if _is_empty_directory(own) else ""

    def _guest(self) -> Path:
        """The guest's code, copied once to a directory of its digest: sandboxes outlive an upgrade of the service."""
        return create_atomically(self.places.guests / read_guest_source()[1], write_guest)

    def _list(self) -> tuple[SandboxInfo, ...]:
        found = (self.places.of(sandbox_id) for sandbox_id in self.places.list_ids())
        return tuple(self._info(places) for places in found)

    def _running(self, places: SandboxPlaces) -> bool:
        process = places.first_process()
        if process is None:
            return False
        if places.unsaved.exists():
            with self._take_turn(places.sandbox_id):
                pass  # it is being saved: what came of that is to be seen then
        if places.saved.exists():  # it goes on when it is used
            return True
        try:
            # The pid may be another program's by now; the group it is in says whose it is.
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            return places.sandbox_id in Path(f"/proc/{process}/cgroup").read_text() and state not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _usage(self, places: SandboxPlaces) -> SandboxUsage:
        counters, limit = self._checkpoints.counters(places)
        try:
            used, size = storage.measure_used_bytes(places.storage)
        except OSError as error:
            raise SandboxGone(f"sandbox {places.sandbox_id} is gone: {error}") from None
        return SandboxUsage(
            memory_bytes=counters.memory_bytes,
            memory_held_bytes=counters.memory_held_bytes,
            memory_peak_bytes=counters.memory_peak_bytes,
            memory_limit_bytes=limit,
            cpu_seconds=counters.cpu_seconds,
            pids=counters.pids,
            oom_kills=counters.oom_kills,
            storage_used_bytes=used,
            storage_limit_bytes=size,
        )

    def _want(self, sandbox_id: str) -> None:
        """Have a move of its memory that is under way end at once."""
        if (moving := self._wanted.get(sandbox_id)) is not None:
            moving.set()

    def _page_out(self, places: SandboxPlaces, wanted: threading.Event) -> PagedOut:
        with self._take_turn(places.sandbox_id):
            return self._idle_memory.page_out(places.sandbox_id, wanted)

    def _save(self, places: SandboxPlaces, wanted: threading.Event) -> PagedOut:
        with self._take_turn(places.sandbox_id):
            if not self._is_saved_whole(places):
                return PagedOut(0, "its runtime does not save processes")
            return self._checkpoints.save(places, self._maker(places), wanted)

    def _is_saved_whole(self, places: SandboxPlaces) -> bool:
        """Not one that an earlier release made, which has its kernel's sockets on the host."""
        try:
            return self.settings.checkpoints and self._maker(places).may_restore(places.bundle)
        except RuntimeUnusable:  # it is installed no more: the sandbox is listed all the same, and waits to be removed
            return False

    def _thaw(self, places: SandboxPlaces) -> None:
        with self._take_turn(places.sandbox_id):
            if places.saved.exists():
                self._restore(places)
                return
            self._idle_memory.thaw(places.sandbox_id)
            if self._is_saved_whole(places) and self._running(places):
                mark_awake(places)  # its guest may stand by to be saved

    def _restore(self, places: SandboxPlaces) -> None:
        root = places.read_journal()
        if root is None:
            raise SandboxGone(f"sandbox {places.sandbox_id} is gone")
        self._checkpoints.restore(places, self._maker(places), root, root + bundle.USER_ID)
        self._favour(places)

    def _put_away(self, places: SandboxPlaces) -> bool:
        with self._take_turn(places.sandbox_id):
            root = places.read_journal()
            if root is None or not places.saved.exists():
                return False
            # After a restart of the host nothing says any more that these ids are in use.
            if not self._uids.keep(root, places.home):
                return False
            idmap.unmount_view(places.view)
            storage.unmount(places.transport)
            storage.unmount(places.storage)
            with contextlib.suppress(FileNotFoundError):
                places.transport.rmdir()
            return self._checkpoints.make_safe(places, self._maker(places))

    def _kill(self, places: SandboxPlaces) -> SandboxUsage | None:
        sandbox_id, used = places.sandbox_id, None
        with self._take_turn(sandbox_id):
            with contextlib.suppress(SandboxGone):
                used = self._usage(places)
            try:
                self.cgroups.kill(sandbox_id)
            except OSError as error:
                raise SandboxFailed(f"the processes of the sandbox could not be killed: {error}") from error
            self._idle_memory.thaw(sandbox_id)  # what a v1 freezer has stopped dies as it goes on
        return used

    def _destroy(self, places: SandboxPlaces) -> None:
        with self._take_turn(places.sandbox_id):
            try:
                self._remove(places)
            except OSError as error:
                raise SandboxFailed(f"not all of the sandbox could be removed: {error}") from error

    def _remove(self, places: SandboxPlaces) -> None:
        """Take back everything, in the reverse order of `_build`; a step with nothing to take is harmless."""
        if not any(place.exists() for place in (places.home, places.transport, places.view)):
            return
        with contextlib.suppress(OSError):  # what is left of it its runtime kills
            self.cgroups.kill(places.sandbox_id)
        self._idle_memory.thaw(places.sandbox_id)  # what a v1 freezer has stopped dies as it goes on
        self._maker(places).delete(places.sandbox_id)
        if not self.cgroups.remove(places.sandbox_id):
            raise SandboxFailed(f"processes of sandbox {places.sandbox_id} do not end; destroy will be tried again")
        idmap.unmount_view(places.view)
        storage.unmount(places.transport)
        storage.unmount(places.storage)
        if places.transport.exists():
            places.transport.rmdir()
        uid_base = places.read_journal()
        if uid_base is not None:
            self._uids.release(uid_base, places.home)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(places.home)

    def _remove_empty(self) -> None:
        with contextlib.suppress(PermissionError):  # the doctor of an ordinary user: nothing here is its own
            if not self.places.list_ids():
                self.cgroups.remove_parent()
                self.places.remove_empty()

    @contextlib.contextmanager
    def _take_turn(self, sandbox_id: str) -> Iterator[None]:
        """One create or destroy of a sandbox at a time; a second destroy waits and finds nothing left to do."""
        with self._guard:
            turns = self._locks.setdefault(sandbox_id, _Turns())
            turns.waiting += 1
        try:
            with turns.lock:
                yield
        finally:
            with self._guard:
                turns.waiting -= 1
                if not turns.waiting:
                    del self._locks[sandbox_id]


@dataclass
class _Turns:
    """The lock of one sandbox, and how many threads hold it or wait for it; forgotten with the last of them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: int = 0
