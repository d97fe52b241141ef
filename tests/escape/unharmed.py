"""What must be as it was after every attempt: the host, and another principal's session beside.

Both hold a secret that no attempt may print, and things an attempt may try to reach: files, sockets, a process, memory.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kernels.kubernetes.manifests import user_of
from sandcell import Client, Session
from tests import swap_file
from tests.running_service import RunningService

SETTINGS_OF_THE_KERNEL = (
    "kernel/core_pattern", "kernel/hostname", "kernel/domainname", "kernel/sysrq", "kernel/modprobe", "kernel/panic",
    "kernel/pid_max", "kernel/threads-max", "kernel/randomize_va_space", "kernel/unprivileged_bpf_disabled",
    "kernel/perf_event_paranoid", "kernel/dmesg_restrict", "kernel/kptr_restrict", "kernel/core_uses_pid",
    "kernel/shmmax", "kernel/msgmax", "kernel/sem", "kernel/printk", "vm/overcommit_memory", "vm/swappiness",
    "vm/panic_on_oom", "vm/mmap_min_addr", "fs/suid_dumpable", "fs/file-max", "fs/protected_hardlinks",
    "fs/protected_symlinks", "fs/binfmt_misc/status", "net/ipv4/ip_forward", "net/core/somaxconn",
)  # fmt: skip


class Host:
    """Bait on the host, and the host's own state."""

    def __init__(self, directory: Path, service: RunningService, environments: Path) -> None:
        self._environments = environments
        self.secret = f"host{uuid.uuid4().hex}"
        self.file = directory / "host-secret"
        self.file.write_text(self.secret)
        self.file.chmod(0o666)  # the sandbox must not depend on the modes of the host's files
        directory.chmod(0o777)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._local = socket.socket(socket.AF_UNIX)
        self._local.bind(f"\0{self.secret[:12]}")
        self._local.listen()
        self._local.setblocking(False)
        self._process = subprocess.Popen(["sleep", "3600"], env={"SECRET": self.secret})
        self._service = service
        self._clock = time.time() - time.monotonic()
        self._before = self.state()

    def known(self) -> dict[str, Any]:
        """What an attacker knows of the host."""
        return {
            "file": str(self.file),
            "pid": self._process.pid,
            "port": self._listener.getsockname()[1],
            "abstract": self.secret[:12],
            "hostname": socket.gethostname(),
            "data_dir": str(self._service.data_dir),
            "environments": str(self._environments),
            "service_pid": self._service.pid,
            "service_port": int(self._service.url.rsplit(":", 1)[1]),
            "address": _own_address(),
            "cmdline": _text(Path("/proc/cmdline")),
        }

    def state(self) -> dict[str, Any]:
        """All that no attempt may change."""
        return {
            "settings": {name: _text(Path("/proc/sys", name)) for name in SETTINGS_OF_THE_KERNEL},
            "file": (_text(self.file), self.file.stat().st_mode, self.file.stat().st_mtime_ns),
            "neighbourhood": sorted(path.name for path in self.file.parent.iterdir()),
            "process": self._process.poll(),
            "priority": os.getpriority(os.PRIO_PROCESS, self._process.pid),
            "service": _text(Path(f"/proc/{self._service.pid}/comm")),
            "swaps": _swaps(),
            "devices": [_owner(Path("/dev", name)) for name in ("null", "zero", "full", "random", "urandom")],
            "connections": [_connections(one) for one in (self._listener, self._local)],
        }

    def unharmed(self) -> None:
        """Assert that the host is as it was."""
        assert self.state() == self._before
        assert abs(time.time() - time.monotonic() - self._clock) < 60, "the host's clock was set"

    def close(self) -> None:
        self._process.kill()
        self._process.wait(120)
        for one in (self._listener, self._local):
            one.close()
        self.file.unlink()


OPENED, LOCKED = "/etc/os-release", "/etc/debian_version"
"""Files of the image that the neighbour opens all the time, and that it has locked."""
SHARED = (
    "/usr/bin/env",
    "/opt/sandcell/guest",
    "/opt/sandcell/guest/boot.py",
    "/sys/devices/system/cpu/online",
    "/sys",
)
"""What every sandbox is shown of the same directories of the host: it has locked, and opens, all of it."""

NEIGHBOUR = """
import ctypes, fcntl, os, pathlib, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
SECRET = {secret!r}
files = [pathlib.Path(place, "secret") for place in ("/workspace", "/home/user", "/tmp", "/dev/shm")]
for file in files:
    file.write_text(SECRET)
segment = libc.shmget(0xBEEF, 4096, 0o1666)
memory = libc.shmat(segment, None, 0)
ctypes.memmove(memory, SECRET.encode(), len(SECRET))
listeners = []
for family, address in ((socket.AF_UNIX, "\\0neighbour"), (socket.AF_UNIX, "/tmp/neighbour.sock"),
                        (socket.AF_INET, ("127.0.0.1", 5555))):
    one = socket.socket(family)
    one.bind(address)
    one.listen()
    one.setblocking(False)
    listeners.append(one)
child = subprocess.Popen(["sleep", "10000"], env={{"SECRET": SECRET}})
lock = os.open({locks!r}, os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
null = os.open("/dev/null", os.O_RDWR)
try:
    fcntl.flock(null, fcntl.LOCK_EX)
except OSError:
    pass  # gVisor has no locks on devices
fcntl.lockf(os.open({locks!r}, os.O_RDONLY), fcntl.LOCK_SH)
for path in {shared!r}:
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)

def open_again_and_again():
    while True:
        open({opens!r}, "rb").read()
        open("/dev/null", "rb").close()
        for path in {shared!r}:
            os.close(os.open(path, os.O_RDONLY))
        time.sleep(0.05)
threading.Thread(target=open_again_and_again, daemon=True).start()

def connections(one):
    try:
        return one.accept()[1] or "somebody"
    except BlockingIOError:
        return None

def state():
    return [SECRET, [file.read_text() for file in files], ctypes.string_at(memory, len(SECRET)).decode(),
            [connections(one) for one in listeners], child.poll(),
            os.getpriority(os.PRIO_PROCESS, child.pid), sorted(os.listdir("/workspace")), sorted(os.listdir("/tmp")),
            socket.gethostname(), os.getpid(), sorted(os.sched_getaffinity(child.pid))]
print(os.getpid(), child.pid)
"""


class Neighbour:
    """Another principal's session, with a secret wherever one can be."""

    def __init__(self, service: RunningService, find_groups: Callable[[str], list[Path]] | None = None) -> None:
        self._find_groups = find_groups or groups_of
        self.secret = f"neighbour{uuid.uuid4().hex}"
        self._service = service
        with service.client() as administrator:
            token = administrator.create_token(f"neighbour-{self.secret[-8:]}").token
        self._client = service.client(token)
        self.session = Session(self._client, self._client.start_session())
        program = NEIGHBOUR.format(secret=self.secret, opens=OPENED, locks=LOCKED, shared=SHARED)
        result = self.session.run(program, timeout_seconds=60)
        assert result.ok, result
        self._pids = [int(pid) for pid in result.stdout.split()]
        self._before = self.state()

    @property
    def client(self) -> Client:
        """The other principal's."""
        return self._client

    def known(self) -> dict[str, Any]:
        """What an attacker knows of the neighbour."""
        return {
            "session_id": self.session.id,
            "workspace_id": self.session.info.workspace_id,
            "pids": self._pids,
            "abstract": "neighbour",
            "path": "/tmp/neighbour.sock",
            "port": 5555,
            "key": 0xBEEF,
            "host_pids": sorted(_processes_in(self._find_groups(self.session.id))),
            "uid": self._uid(),
            "opens": OPENED,
            "locks": LOCKED,
            "shared": list(SHARED),
        }

    def _uid(self) -> int:
        journal = self._service.data_dir / "sandboxes" / self.session.id / "sandbox.json"
        if not journal.exists():  # in a pod: users are the node's
            return user_of(self.session.id)
        return int(json.loads(journal.read_text())["uid_base"]) + 1000

    def state(self) -> str:
        result = self.session.run("print(state())", timeout_seconds=30)
        assert result.ok, result
        return result.stdout

    def unharmed(self) -> None:
        """Assert that the neighbour's session is as it was, in the same generation."""
        assert self.state() == self._before

    def close(self) -> None:
        self.session.stop()
        self._client.close()


class Limits:
    """The limits of a sandbox's control groups."""

    NAMES = ("memory.limit_in_bytes", "memory.max", "memory.swap.max", "pids.max", "cpu.cfs_quota_us", "cpu.max",
             "cpu.shares", "cpu.weight", "devices.list", "notify_on_release")  # fmt: skip

    def __init__(self, groups: Iterable[Path]) -> None:
        self._files = [group / name for group in groups for name in self.NAMES if (group / name).exists()]
        self._before = self.state()
        assert any("memory" in name for name in self._before), "the sandbox has a control group that limits memory"

    def state(self) -> dict[str, str]:
        return {str(file): _text(file) for file in self._files}

    @property
    def gone(self) -> bool:
        """Whether the sandbox is not there any more, and its groups with it."""
        return not any(file.exists() for file in self._files)

    def unharmed(self) -> None:
        """Assert that the limits are those that the sandbox began with."""
        assert self.state() == self._before


def _connections(listener: socket.socket) -> str | None:
    try:
        connection, address = listener.accept()
    except BlockingIOError:
        return None
    connection.close()
    return str(address or "somebody")


def groups_of(sandbox_id: str) -> list[Path]:
    """The control groups of a sandbox on this host."""
    return [Path(top) for top, _, _ in os.walk("/sys/fs/cgroup") if Path(top).name == sandbox_id]


def _processes_in(groups: Iterable[Path]) -> set[int]:
    """Ids on the host of the processes there."""
    files = [group / "cgroup.procs" for group in groups]
    found = {int(pid) for file in files if file.exists() for pid in file.read_text().split()}
    assert found, "the neighbour has processes"
    return found


def _swaps() -> list[str]:
    """What the host swaps to, whatever of it is used; not what another test run beside this one swaps to meanwhile."""
    names = [line.split()[0] for line in _text(Path("/proc/swaps")).splitlines()[1:]]
    return [name for name in names if not name.startswith(f"{swap_file.PLACE}/{swap_file.NAME}-")]


def _owner(path: Path) -> tuple[int, int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, found.st_mode, found.st_rdev


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return str(error)


def _own_address() -> str:
    """An address of this host that is not loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
