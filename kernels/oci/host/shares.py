"""What the host's kernel has once for all sandboxes, as far as a host's settings decide who bounds it.

`docs/explanation/kernel-objects.md` has the whole list. What a sandbox's own profile bounds is not here.
"""

from __future__ import annotations

import functools
import resource
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kernels import system_calls
from kernels.errors import SandboxFailed
from kernels.oci import bundle
from kernels.oci.cgroups import Cgroups
from kernels.sandbox import Finding

SEND_TIMESTAMPS: Final = "net.core.tstamp_allow_data"
"""Whether a timestamp of a send keeps a copy of what was sent. The copies wait in sockets, charged to no group."""

_QUESTION_SECONDS: Final = 10
_HIGHEST_PID: Final = 4_194_304
_NETWORK_NAMESPACE: Final = 0x40000000  # CLONE_NEWNET


SERVICE_DESCRIPTORS: Final = 16
"""Of the service, for one session: its kernel's channels, connections to its guest, the watch on its workspace."""
MOUNTS: Final = 3
"""In the launcher's mount namespace, for one sandbox: its disk, its sockets, its workspace as the service sees it."""
_FOR_EACH: Final = {
    "fs.mount-max": MOUNTS,
    "kernel.keys.root_maxkeys": 1,
    **dict.fromkeys(
        (f"user.max_{kind}_namespaces" for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")), 2
    ),
}
"""What a sandbox takes of settings of the kernel; of namespaces there may be two while a sandbox is being made."""
_OTHERS: Final = 1_000
"""Of each of these, for all else that the host does."""


@functools.cache
def of_network_namespace(name: str) -> bool:
    """Whether this kernel has the setting for each network namespace by itself; that depends on its version.

    Raises `SandboxFailed` when that cannot be found out now.
    """
    try:
        asked = subprocess.run(
            ["unshare", "--net", "test", "-w", _place(name)],
            capture_output=True,
            timeout=_QUESTION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxFailed(f"whether {name} can be set for a sandbox cannot be found out: {error}") from error
    return asked.returncode == 0


def keep_no_copies_of_sends(process: int) -> None:
    """Set that in the network namespace of a process, where this kernel has it there. Raises `SandboxFailed`.

    A runtime could not: it makes /proc read-only first. A thread enters the namespace, and ends in it.
    """
    if not of_network_namespace(SEND_TIMESTAMPS):
        return
    failures: list[OSError] = []

    def enter() -> None:
        try:
            try:
                namespace = Path(f"/proc/{process}/ns/net").open()  # noqa: SIM115 - closed below, where it is used
            except FileNotFoundError:
                return  # the process has ended, which those who wait for its answer find out
            with namespace:
                if system_calls.libc.setns(namespace.fileno(), _NETWORK_NAMESPACE) != 0:
                    raise system_calls.failure("setns")
            _place(SEND_TIMESTAMPS).write_text("0")
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failures:
        raise SandboxFailed(f"{SEND_TIMESTAMPS} cannot be set for the sandbox: {failures[0]}")


def accounting(cgroups: Cgroups, command_line: str | None = None) -> list[Finding]:
    """Whether what the kernel holds for a sandbox counts as its memory; without that its limit is none."""
    said = Path("/proc/cmdline").read_text() if command_line is None else command_line
    switched_off = {
        word
        for option in said.split()
        if option.startswith("cgroup.memory=")
        for word in option.partition("=")[2].split(",")
    }
    sockets = cgroups.counts_sockets() and "nosocket" not in switched_off
    return [
        _finding("kernel memory", "nokmem" not in switched_off, "is counted", "is not counted"),
        _finding("socket buffers", sockets, "are counted and limited", "are not counted"),
    ]


def _finding(name: str, ok: bool, held: str, not_held: str) -> Finding:  # noqa: FBT001 - a fact, named where it is found
    remedy = "boot without cgroup.memory=nokmem and nosocket, and with a kernel that has them in its control groups"
    return Finding(name, ok=ok, detail=held if ok else not_held, remedy="" if ok else remedy)


def processor_quota(cgroups: Cgroups, vcpus: float, *, top: bool) -> Finding:
    """Whether a sandbox gets the processors it is to have, or only what a quota of a group above it leaves."""
    left, group = cgroups.processors_left(top=top)
    if left >= vcpus:
        return Finding("processors", ok=True, detail=f"no quota leaves a sandbox less than its {vcpus:.2f} vCPUs")
    detail = f"sandboxes get {left:.2f} vCPUs in place of {vcpus:.2f}, all together no more: the quota of {group}"
    remedy = "raise that group's quota (CPUQuota= of the unit, --cpus of the container, limits.cpu of the pod)"
    return Finding("processors", ok=False, detail=detail, remedy=remedy, required=False)


def send_timestamps() -> Finding:
    """Whether the error queues of UDP sockets can be filled past the memory limit."""
    name = "send timestamps"
    try:
        in_each = of_network_namespace(SEND_TIMESTAMPS)
    except SandboxFailed as error:
        return Finding(name, ok=False, detail=str(error), remedy="install the package util-linux (unshare)")
    if in_each:
        return Finding(name, ok=True, detail="keep no copy of what was sent in any sandbox")
    if _number(SEND_TIMESTAMPS) == 0:
        return Finding(name, ok=True, detail="keep no copy of what was sent on this host")
    detail = "keep copies of what was sent, which count as no group's memory"
    return Finding(name, ok=False, detail=detail, remedy=f"sysctl {SEND_TIMESTAMPS}=0", required=False)


def terminals(sessions: int) -> Finding:
    """Whether each of so many sessions can have all the pseudo-terminals it may have."""
    wanted, most = sessions * bundle.TERMINALS, _number("kernel.pty.max") - _number("kernel.pty.reserve")
    detail = f"{max(most, 0):,} for sandboxes, {bundle.TERMINALS} for each at most"
    remedy = f"for {sessions:,} sessions: sysctl kernel.pty.max={wanted + _number('kernel.pty.reserve')}"
    return Finding("pseudo-terminals", ok=True, detail=detail, remedy="" if most >= wanted else remedy)


def process_ids(sessions: int, processes: int) -> Finding:
    """Whether the host has numbers for all the processes that so many sessions may have."""
    wanted, most = sessions * processes, min(_number("kernel.pid_max"), _number("kernel.threads-max"))
    detail = f"{most:,} for all processes and threads of the host"
    enough = min(wanted, _HIGHEST_PID)
    remedy = f"for {sessions:,} sessions: sysctl kernel.pid_max={_HIGHEST_PID} kernel.threads-max={enough}"
    return Finding("process ids", ok=True, detail=detail, remedy="" if most >= enough else remedy)


def kernel_objects(sessions: int, connections: int, read: Callable[[str], int] | None = None) -> Finding:
    """Whether the kernel's settings and the limit of open files are enough for so many sessions and connections."""
    read = read or _number
    limits = {name: read(name) for name in _FOR_EACH}
    room = {name: (most - _OTHERS) // _FOR_EACH[name] for name, most in limits.items() if most}  # 0: it has no such
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if read is _number else read("files")
    room["files"] = (files - connections - _OTHERS) // SERVICE_DESCRIPTORS
    detail = f"namespaces, mounts, keys and open files for {max(min(room.values()), 0):,} sessions"
    small = [name for name in _FOR_EACH if room.get(name, sessions) < sessions]
    remedies = (
        [f"sysctl {' '.join(f'{name}={sessions * _FOR_EACH[name] + _OTHERS}' for name in small)}"] if small else []
    )
    if room["files"] < sessions:
        wanted = sessions * SERVICE_DESCRIPTORS + connections + _OTHERS
        remedies.append(f"a limit of {wanted:,} open files (LimitNOFILE= of systemd, ulimit -Hn)")
    remedy = f"for {sessions:,} sessions: {'; '.join(remedies)}" if remedies else ""
    return Finding("kernel objects", ok=True, detail=detail, remedy=remedy)


def _place(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _number(name: str) -> int:
    """A setting of the kernel; 0 when it has none of that name."""
    try:
        return int(_place(name).read_text())
    except (OSError, ValueError):
        return 0
