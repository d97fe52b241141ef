"""Control groups of sandboxes: where ours go on cgroup v1 and v2, what they have counted, and their removal.

On v1 (and hybrid hosts) a sandbox's group lies below the group this process runs in, one per controller, or below the
topmost one when its runtime knows no other place. On v2 it lies beside that group, since a group that holds processes
may not hand controllers to its children.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import RuntimeUnusable, SandboxFailed, SandboxGone

_REQUIRED: Final = ("memory", "cpu", "pids")
_TOP: Final = "/"
_GONE: Final = (errno.ENOENT, errno.ENODEV)
"""What reading a file of a group says that was removed; the second of one that was open by then."""
_SHARES: Final = ("cpu.shares", "1024")
_WEIGHT: Final = ("cpu.weight", "100")
"""The file of a group's share of the processors on cgroup v1 and v2, and what it holds in a new group."""
_BURST: Final = {False: ("cpu.cfs_quota_us", "cpu.cfs_burst_us"), True: ("cpu.max", "cpu.max.burst")}
"""The files of a group's quota and of what it may use beyond that later, on cgroup v1 and v2."""
_V1_SOCKETS: Final = "memory.kmem.tcp.limit_in_bytes"
"""TCP's by its name; the kernel counts UDP's there, too."""
_LOOKS: Final = 100
_FILE_PAGES: Final = ("inactive_file", "active_file")
"""Of `memory.stat`: pages that the kernel can take back, since a file has what is in them. v1 counts groups below too
under the same names with `total_` before them."""


class Hierarchy(msgspec.Struct, frozen=True):
    """One mounted hierarchy: its mount point, the controllers on it and this process's own group in it."""

    mount: Path
    controllers: frozenset[str]
    own: str


class Counters(msgspec.Struct, frozen=True):
    """What a group has counted; bytes and seconds."""

    memory_bytes: int
    memory_held_bytes: int
    memory_peak_bytes: int
    oom_kills: int
    cpu_seconds: float
    pids: int


class Cgroups:
    """The groups of one service's sandboxes, all below one parent named `parent`."""

    def __init__(self, parent: str, *, mounts: str | None = None, own: str | None = None) -> None:
        self._parent = parent
        mounted = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
        groups = Path("/proc/self/cgroup").read_text() if own is None else own
        found = hierarchies(mounted, groups)
        self.unified = not any("memory" in one.controllers for one in found)
        """Whether the controllers we need are on cgroup v2."""
        # A v2 host may still mount v1 hierarchies for others: no sandbox has a group in those.
        self.hierarchies = tuple(one for one in found if not one.controllers) if self.unified else found
        self.unused_unified = None if self.unified else next((one.mount for one in found if not one.controllers), None)
        """Where a hybrid host has mounted a cgroup v2 that has no controllers."""

    def missing_controllers(self) -> list[str]:
        """Controllers a sandbox needs and this host does not offer."""
        if self.unified:
            offered = {name for one in self.hierarchies for name in _words(one.mount / "cgroup.controllers")}
        else:
            offered = {name for one in self.hierarchies for name in one.controllers}
        return [name for name in _REQUIRED if name not in offered]

    def limits_swap(self) -> bool:
        """Whether memory and swap can be limited together; a kernel that does not count swap lacks the file."""
        if self.unified:
            counted = [file.parent for one in self.hierarchies for file in one.mount.glob("*/memory.max")]
            return all((group / "memory.swap.max").exists() for group in counted)
        memory = self._hierarchy("memory")
        return memory is not None and (_within(memory.mount, memory.own) / "memory.memsw.limit_in_bytes").exists()

    def path(self, sandbox_id: str) -> str:
        """`linux.cgroupsPath` of the sandbox: relative to our own group on v1, absolute on v2."""
        if not self.unified:
            return f"{self._parent}/{sandbox_id}"
        return f"{_beside(self.hierarchies[0].own)}/{self._parent}/{sandbox_id}".replace("//", "/")

    def counters(self, sandbox_id: str) -> Counters:
        """Read the sandbox's counters; raises `SandboxGone` when its group is not there."""
        try:
            return self._read_unified(sandbox_id) if self.unified else self._read_v1(sandbox_id)
        except (OSError, ValueError, KeyError) as error:
            raise SandboxGone(f"the control group of sandbox {sandbox_id} is gone: {error}") from None

    def memory_limit(self, sandbox_id: str) -> int:
        """The bytes that the sandbox's group is held to; 0 for a group that is not there or has no limit."""
        try:
            if self.unified:
                return _number(self._directories(sandbox_id)[0] / "memory.max")
            return _number(self._v1("memory", sandbox_id) / "memory.limit_in_bytes")
        except (OSError, ValueError, KeyError):
            return 0

    def held_bytes(self, sandbox_id: str) -> int:
        """Memory of the sandbox that can only go to swap: no file has it. Raises `SandboxGone`."""
        try:
            group = self._directories(sandbox_id)[0] if self.unified else self._v1("memory", sandbox_id)
            own = _field(group / "memory.stat", "anon" if self.unified else "rss")
            return own + _field(group / "memory.stat", "shmem")
        except (OSError, ValueError, KeyError) as error:
            raise SandboxGone(f"the control group of sandbox {sandbox_id} is gone: {error}") from None

    def watch_memory(self, sandbox_id: str, percents: Sequence[int]) -> int:
        """An eventfd, the caller's, that the kernel signals as the group's memory passes one of these shares of its
        limit, either way; the pages of files count. Raises `SandboxGone`, and `SandboxFailed` on cgroup v2.
        """
        if self.unified:
            raise SandboxFailed("cgroup v2 has no events for shares of a limit")
        try:
            group = self._v1("memory", sandbox_id)
            if group.name != sandbox_id:
                raise FileNotFoundError(errno.ENOENT, "there is no such group")
            limit = _number(group / "memory.limit_in_bytes")
            event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            try:
                with (group / "memory.usage_in_bytes").open("rb") as usage:
                    for each in percents:
                        line = f"{event} {usage.fileno()} {limit * each // 100}"
                        (group / "cgroup.event_control").write_text(line)
            except BaseException:
                os.close(event)
                raise
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, OSError) and error.errno in _GONE:
                raise SandboxGone(f"the control group of sandbox {sandbox_id} is gone: {error}") from None
            raise SandboxFailed(f"the memory of sandbox {sandbox_id} cannot be watched: {error}") from error
        return event

    def freezer(self, sandbox_id: str) -> Path | None:
        """The file that stops the sandbox's processes: v1's `freezer.state` or v2's `cgroup.freeze`, by which has them.

        A hybrid host may have a group of it in both. Raises `SandboxFailed` where it cannot be known who has them.
        """
        for group in self._directories(sandbox_id):
            for file in (group / "freezer.state", group / "cgroup.freeze"):
                if file.exists() and _has_processes(group):
                    return file
        return None

    def allow_swap(self, sandbox_id: str, most_bytes: int) -> None:
        """Let the sandbox's group have so much swap; v1 bounds memory and swap together, which stays as it is.

        What is in swap already may stay there when less is allowed. A kernel that does not count swap allows all.
        """
        if self.unified:
            file = self._directories(sandbox_id)[0] / "memory.swap.max"
            with contextlib.suppress(FileNotFoundError), open(file, "w", opener=_open_existing) as opened:
                opened.write(str(most_bytes))

    def reclaim(self, sandbox_id: str, piece_bytes: int) -> bool:
        """Take back memory of the sandbox's group that can be had, a piece of it where the kernel has v2's way.

        Pages that were written to swap stay in memory until somebody does. Says whether more may be had.
        """
        try:
            if not self.unified:
                # Nothing cuts this short. It ends when some rounds have found nothing, or all of the group's memory was
                # taken: less than its limit, and little after its processes' own mappings were moved.
                (self._v1("memory", sandbox_id) / "memory.force_empty").write_text("0")
                return False
            (self._directories(sandbox_id)[0] / "memory.reclaim").write_text(str(piece_bytes))
        except OSError:  # no more of it can be had, or the kernel has no such file (before Linux 5.19)
            return False
        return True

    def counts_sockets(self) -> bool:
        """Whether the buffers of sockets can be limited: v2 counts them as memory, v1 by themselves."""
        if self.unified:
            return True
        memory = self._hierarchy("memory")
        return memory is not None and (_within(memory.mount, memory.own) / _V1_SOCKETS).exists()

    def limit_sockets(self, sandbox_id: str, most_bytes: int) -> None:
        """Hold the buffers of the sandbox's TCP and UDP sockets to so many bytes; on v2 they are in its memory.

        v1 counts those of sockets that are made afterwards. Raises `SandboxFailed`.
        """
        if self.unified:
            return
        try:
            for place in self._directories(sandbox_id):
                if (place / _V1_SOCKETS).exists():
                    (place / _V1_SOCKETS).write_text(str(most_bytes))
                    return
        except OSError as error:
            raise SandboxFailed(f"the buffers of sockets cannot be limited: {error}") from error
        raise SandboxFailed("the control group of the sandbox cannot limit the buffers of sockets")

    def make_with_limited_sockets(self, sandbox_id: str, most_bytes: int, *, top: bool) -> None:
        """The same for a sandbox that is yet to start: its runtime finds the group there, where v1 needs one.

        `top` as for `processors_left`. Raises `SandboxFailed`.
        """
        memory = self._hierarchy("memory")
        if self.unified or memory is None:
            return
        try:
            group = _within(memory.mount, _TOP if top else memory.own) / self._parent / sandbox_id
            group.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxFailed(f"the sandbox's control group cannot be made: {error}") from error
        self.limit_sockets(sandbox_id, most_bytes)

    def let_burst(self, sandbox_id: str) -> None:
        """Let the sandbox have twice its processors for one period (100 ms), until `end_burst`.

        While it starts guest and kernel import side by side: held to a quota of little more than one processor, both
        would stand still for a part of each period. A help where the kernel has it (Linux 5.14).
        """
        quota_file, burst_file = _BURST[self.unified]
        with contextlib.suppress(OSError, KeyError, IndexError):
            place = self._processor_group(sandbox_id)
            if place.name == sandbox_id and (place / burst_file).exists():
                quota = _words(place / quota_file)[0]
                for _ in range(2):  # each time the kernel adds a quota to what is left, up to both together
                    (place / burst_file).write_text(quota)

    def end_burst(self, sandbox_id: str) -> None:
        """Hold the sandbox to its quota in each period; raises `SandboxFailed`."""
        try:
            place = self._processor_group(sandbox_id)
            if place.name == sandbox_id and (file := place / _BURST[self.unified][1]).exists():
                file.write_text("0")
        except (OSError, KeyError) as error:
            raise SandboxFailed(f"the sandbox's quota of the processors cannot be set: {error}") from error

    def _processor_group(self, sandbox_id: str) -> Path:
        return self._directories(sandbox_id)[0] if self.unified else self._v1("cpu", sandbox_id)

    def give_full_share(self, sandbox_id: str) -> None:
        """Let the sandbox's group compete for the processors as a new group does; raises `SandboxFailed`."""
        name, value = _WEIGHT if self.unified else _SHARES
        try:
            (self._processor_group(sandbox_id) / name).write_text(value)
        except (OSError, KeyError) as error:
            raise SandboxFailed(f"the sandbox's share of the processors cannot be set: {error}") from error

    def processors_left(self, *, top: bool) -> tuple[float, Path | None]:
        """How many processors the groups above the sandboxes leave each of them, and the group that leaves the fewest.

        `top` says that the runtime puts them below the topmost group of cgroup v1. Without any quota: infinite, None.
        """
        one = self.hierarchies[0] if self.unified else self._hierarchy("cpu")
        if one is None:
            return math.inf, None
        own = _beside(one.own) if self.unified else _TOP if top else one.own
        lowest = _within(one.mount, own) / self._parent
        above = [group for group in (lowest, *lowest.parents) if group.is_relative_to(one.mount)]
        left, group = min(((_processors(group), group) for group in above), key=lambda found: found[0])
        return left, None if math.isinf(left) else group

    def kill(self, sandbox_id: str) -> None:
        """Send SIGKILL to all processes of the sandbox's group, those that are started meanwhile too; raises `OSError`.

        None waits for its end, which one that a v1 freezer has stopped meets when it goes on. From then on the group
        has no quota: hundreds that end need the processors for longer than a runtime waits for them.
        """
        group = self._directories(sandbox_id)[0] if self.unified else self._v1("pids", sandbox_id)
        if group.name != sandbox_id:
            return
        self._kill_all(group)
        with contextlib.suppress(OSError, KeyError):
            place = self._processor_group(sandbox_id)
            if place.name == sandbox_id:
                with open(place / _BURST[self.unified][0], "w", opener=_open_existing) as file:
                    file.write("max" if self.unified else "-1")

    @staticmethod
    def _kill_all(group: Path) -> None:
        if (file := group / "cgroup.kill").exists():  # since Linux 5.14, on v2
            file.write_text("1")
            return
        killed: set[int] = set()
        for _ in range(_LOOKS):  # what a process was about to start is found by another look
            found = _processes(group) - killed
            if not found:
                return
            for process in sorted(found):  # the first is the first of its namespace, which ends with it
                _kill(process, group)
            killed |= found
        raise OSError(errno.EBUSY, "they start others faster than these can be killed")

    def remove(self, sandbox_id: str, *, deadline_seconds: float = 5) -> bool:
        """Remove the sandbox's groups, waiting for the last process to go; False when one is still there."""
        give_up = time.monotonic() + deadline_seconds
        for directory in self._directories(sandbox_id):
            while not _remove_directory(directory):
                if time.monotonic() > give_up:
                    return False
                time.sleep(0.01)
        return True

    def of_service(self) -> Path:
        """Where the service's own group lies, in the hierarchy that counts processes."""
        if self.unified:
            return self._directories("service")[0]
        hierarchy = self._hierarchy("pids")
        if hierarchy is None:
            raise RuntimeUnusable("no control group counts processes on this host; mount the controller `pids`")
        return _within(hierarchy.mount, hierarchy.own) / self._parent / "service"

    def remove_parent(self) -> None:
        """Remove the parent groups when no sandbox is left in them."""
        for directory in self._directories(""):
            _remove_directory(directory)

    def _hierarchy(self, controller: str) -> Hierarchy | None:
        return next((one for one in self.hierarchies if controller in one.controllers), None)

    def _directories(self, sandbox_id: str) -> list[Path]:
        """Where the sandbox's group may lie in each hierarchy; an empty id means the parent."""
        found = []
        for one in self.hierarchies:
            for group in (_beside(one.own),) if self.unified else (one.own, _TOP):
                found.append(_within(one.mount, group) / self._parent / sandbox_id)
        return found

    def _v1(self, controller: str, sandbox_id: str) -> Path:
        hierarchy = self._hierarchy(controller)
        if hierarchy is None:
            raise KeyError(controller)
        places = (_within(hierarchy.mount, group) / self._parent / sandbox_id for group in (hierarchy.own, _TOP))
        return next((place for place in places if place.exists()), _within(hierarchy.mount, _TOP))

    def _read_v1(self, sandbox_id: str) -> Counters:
        memory = self._v1("memory", sandbox_id)
        used = _number(memory / "memory.usage_in_bytes")
        return Counters(
            memory_bytes=used,
            memory_held_bytes=_without_files(used, memory, "total_"),
            memory_peak_bytes=_number(memory / "memory.max_usage_in_bytes"),
            oom_kills=_field(memory / "memory.oom_control", "oom_kill"),
            cpu_seconds=_number(self._v1("cpuacct", sandbox_id) / "cpuacct.usage") / 1e9,
            pids=_number(self._v1("pids", sandbox_id) / "pids.current"),
        )

    def _read_unified(self, sandbox_id: str) -> Counters:
        group = self._directories(sandbox_id)[0]
        peak = group / "memory.peak"  # since Linux 5.19
        used = _number(group / "memory.current")
        return Counters(
            memory_bytes=used,
            memory_held_bytes=_without_files(used, group),
            memory_peak_bytes=_number(peak if peak.exists() else group / "memory.current"),
            oom_kills=_field(group / "memory.events", "oom_kill"),
            cpu_seconds=_field(group / "cpu.stat", "usage_usec") / 1e6,
            pids=_number(group / "pids.current"),
        )


def hierarchies(mountinfo: str, groups: str) -> tuple[Hierarchy, ...]:
    """Match `/proc/self/mountinfo` with `/proc/self/cgroup`; on a pure v2 host there is exactly one hierarchy."""
    own: dict[frozenset[str], str] = {}
    for line in groups.splitlines():
        _, listed, group = line.split(":", 2)
        own[frozenset(filter(None, listed.split(",")))] = group
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind not in {"cgroup", "cgroup2"}:
            continue
        names = frozenset[str]() if kind == "cgroup2" else _find_controllers(options, own)
        root, mount = left.split()[3:5]
        path = own.get(names, "/")
        found.append(Hierarchy(Path(mount), names, path if root == "/" else path.removeprefix(root) or "/"))
    return tuple(found)


def _find_controllers(options: str, known: dict[frozenset[str], str]) -> frozenset[str]:
    words = set(options.rsplit(" ", 1)[-1].split(","))
    return next((names for names in known if names and names <= words), frozenset())


def _beside(group: str) -> str:
    return str(Path(group).parent)


def _within(mount: Path, group: str) -> Path:
    return mount / group.lstrip("/")


def _open_existing(path: str, flags: int) -> int:
    """Without O_CREAT: of a file that it does not have the kernel would say that it is forbidden to make it."""
    return os.open(path, flags & ~os.O_CREAT)


def _remove_directory(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return not directory.exists()
    return True


def _has_processes(group: Path) -> bool:
    """Not of one that is gone. Raises `SandboxFailed` when it is there and cannot be read: it may well have some."""
    try:
        return bool((group / "cgroup.procs").read_text().strip())
    except OSError as error:
        if error.errno in _GONE:
            return False
        raise SandboxFailed(f"the processes of {group} cannot be read: {error}") from error


def _processes(group: Path) -> set[int]:
    """All of the group and of groups below it; none of one that is gone."""
    files = (Path(place) / "cgroup.procs" for place, _, _ in os.walk(group))
    return {int(word) for file in files for word in _words(file)}


def _kill(process: int, group: Path) -> None:
    """Its number may be another's by now, which is not in the group: looked at while nobody can get that number."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        if process in _processes(group):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _processors(group: Path) -> float:
    """How many processors' time a group's quota is; infinite for a group without one, and for none."""
    words = _words(group / "cpu.max") or [
        *_words(group / "cpu.cfs_quota_us"),
        *_words(group / "cpu.cfs_period_us"),
    ]
    quota, period = words if len(words) == 2 else ("max", "1")
    return math.inf if quota in {"max", "-1"} else int(quota) / int(period)


def _without_files(used: int, group: Path, before: str = "") -> int:
    """What a group uses beside the pages of files, which go when memory is wanted; 0 where that is not known."""
    try:
        return max(used - sum(_fields(group / "memory.stat", *(before + name for name in _FILE_PAGES))), 0)
    except (OSError, ValueError, KeyError):
        return 0


def _number(path: Path) -> int:
    return int(path.read_text())


def _field(path: Path, name: str) -> int:
    return _fields(path, name)[0]


def _fields(path: Path, *names: str) -> list[int]:
    rows = dict(line.split() for line in path.read_text().splitlines() if len(line.split()) == 2)
    return [int(rows[name]) for name in names]
