"""Attempts to use up what is not theirs: each ends at its bound, and host, neighbour and guest go on."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sandcell import Result, Session
from sandcell.errors import ServiceUnavailable
from sandcell.models.commands import Command
from sandcell.models.executions import Execution
from tests.escape.attempt import Attempt, Family
from tests.escape.position import Scene

HOST_BYTES = 1 << 30
"""Memory and disk that the host has left, whatever is tried."""
PIDS = 512
SECONDS_BESIDE_A_BOMB = 180
"""For an answer that shares the sandbox's processor with five hundred processes that only try to fork: on a slow
machine half a minute was not enough."""
OUT_OF_MEMORY = "died: oom SIGKILL"


def held(scene: Scene) -> None:
    """The bounds held; host, guest and the next execution are well, which knows its generation."""
    session = scene.session
    scene.position.forget()  # the kernel may be another one by now, or be so soon
    generation = session.refresh().generation
    told = _answered(scene)
    assert (told.ok, told.text) == (True, "42"), told
    assert told.generation >= generation
    # A command needs a process of its own: what an attempt has left behind makes room for it.
    command = _command(session, "rm -rf /workspace/* /tmp/fill* /dev/shm/*; echo alive")
    assert command.stdout == "alive\n", command
    used = session.refresh().usage
    assert used.memory_peak_bytes <= used.memory_limit_bytes
    assert used.pids <= PIDS if scene.position.runtime == "runc" else True
    assert used.storage_used_bytes <= used.storage_limit_bytes
    assert _available_bytes() > HOST_BYTES
    assert shutil.disk_usage(scene.position.service.data_dir).free > HOST_BYTES
    assert subprocess.run(["/bin/true"], check=False).returncode == 0


def settled(scene: Scene) -> None:
    """What was left behind may end gVisor's sandbox a moment later; the session goes on in the next one."""
    if scene.position.runtime == "runsc":
        time.sleep(5)
        assert any(scene.session.run("1", timeout_seconds=SECONDS_BESIDE_A_BOMB).ok for _ in range(3))
    held(scene)


def _answered(scene: Scene) -> Result:
    """The next execution; once more in the sandbox that follows when what an attempt has left ends gVisor's by it."""
    told = scene.session.run("6 * 7", timeout_seconds=SECONDS_BESIDE_A_BOMB)
    death = told.execution.death
    ended = scene.position.runtime == "runsc" and death is not None and death.cause == "sandbox"
    return scene.session.run("6 * 7", timeout_seconds=SECONDS_BESIDE_A_BOMB) if ended else told


def _command(session: Session, line: str) -> Command:
    """Run it; once more in the sandbox that follows when what an attempt has left ends this one, as gVisor's may."""
    try:
        return session.command(line, timeout_seconds=SECONDS_BESIDE_A_BOMB)
    except ServiceUnavailable:
        assert any(session.run("1", timeout_seconds=SECONDS_BESIDE_A_BOMB).ok for _ in range(3))
        return session.command(line, timeout_seconds=SECONDS_BESIDE_A_BOMB)


def _available_bytes() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def died_of_memory(scene: Scene) -> None:
    """The session says so, with figures, and a new generation goes on."""
    last = _last_death(scene)
    assert last.death is not None
    assert last.death.cause == "oom"
    assert last.death.memory_limit_bytes is not None
    assert last.death.memory_peak_bytes is not None
    limit = last.death.memory_limit_bytes
    assert 0.9 * limit < last.death.memory_peak_bytes <= limit + (1 << 20)  # pages charged ahead
    held(scene)
    assert scene.session.refresh().generation > last.generation


def _last_death(scene: Scene) -> Execution:
    found, cursor = [], None
    while True:
        page = scene.client.list_executions(scene.session.id, limit=100, cursor=cursor)
        found += [one for one in page.items if one.death is not None]
        cursor = page.next_cursor
        if cursor is None:
            return max(found, key=lambda one: one.queued_at)


Limited = partial(Attempt, check=held, seconds=SECONDS_BESIDE_A_BOMB)


def memory(name: str, program: str, expect: str = "SIGKILL", **options: Any) -> Attempt:
    """One that has a process killed; gVisor's sandbox is one process to the host."""
    both: Mapping[str, str] = {"runc": expect, "runsc": OUT_OF_MEMORY}
    check = died_of_memory if expect == OUT_OF_MEMORY else held
    return Attempt(name, program, both, check=check, seconds=SECONDS_BESIDE_A_BOMB, **options)


FEWER = """
if os.uname().release == "4.4.0":  # gVisor: 512 processes need most of the memory, and so end the sandbox now and then
    resource.setrlimit(resource.RLIMIT_NPROC, (150, 150))
"""
FORK = """
me = os.getpid()
while True:
    try:
        os.fork()
    except OSError:
        if os.getpid() == me:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.kill(0, signal.SIGTERM)
            raise
"""
SHELL = """
b() { [ $1 = 0 ] || b $(($1 - 1)) | b $(($1 - 1)) & }
if [ $(uname -r) = 4.4.0 ]; then b 6; else b 9; fi
wait; echo went on
"""
DETACHED = """
me = os.getpid()
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        if os.getpid() == me:
            raise
"""
GROW = "held = []\nwhile True: held.append(bytearray(b'x') * (16 << 20))"
FULL = """
names = []
try:
    for number in range(64):
        names.append(f"{0}/fill{{number}}")
        with open(names[-1], "wb", 0) as file:
            for _ in range(64):
                file.write(bytes(1 << 20))
finally:
    for name in names:
        os.unlink(name)
"""
FAMILIES = """
dead = 0
for _ in range(24):
    if os.fork() == 0:
        held = bytearray(b"x") * (120 << 20)
        time.sleep(3)
        os._exit(0)
while True:
    try:
        dead += os.waitstatus_to_exitcode(os.wait()[1]) == -9
    except ChildProcessError:
        break
print(dead > 0)
"""
SPIN = """
begun = time.monotonic()
for _ in range(8):
    if os.fork() == 0:
        while time.monotonic() < begun + 2:
            libc.strlen(b"x" * 65536)
        os._exit(0)
for _ in range(8):
    os.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
# gVisor counts the time that a process could run in, not what it got.
print(used.ru_utime + used.ru_stime < 1.3 * 2048 / 1769 * (time.monotonic() - begun))
"""
DEEP = """
top = os.getcwd()
for _ in range(1500):
    os.mkdir("deep")
    os.chdir("deep")
print("made")
os.chdir("/")
"""
SYNC = """
file = os.open("/workspace/busy", os.O_CREAT | os.O_RDWR)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    os.pwrite(file, os.urandom(1 << 20), 0)
    os.fsync(file)
print("written")
"""
SOCKETS = """
pairs = []
while True:
    pairs.append(socket.socketpair())
    pairs[-1][0].setblocking(False)
    try:
        while True:
            pairs[-1][0].send(bytes(65536))
    except BlockingIOError:
        pass
"""
PIPES = """
while True:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(writer, False)
    try:
        os.write(writer, bytes(1 << 20))
    except BlockingIOError:
        pass
"""
SEGMENTS = """
import ctypes
libc.shmat.restype = ctypes.c_void_p
while True:
    ctypes.memset(libc.shmat(libc.shmget(0, 64 << 20, 0o1600), None, 0), 1, 64 << 20)
"""
QUEUES = """
made = 0
try:
    while True:
        many = struct.pack("8q", 0, 10, 8192, 0, 0, 0, 0, 0)
        syscall("mq_open", b"queue%d" % made, os.O_CREAT | os.O_RDWR, 0o600, many)
        made += 1
finally:
    for number in range(made):
        syscall("mq_unlink", b"queue%d" % number)
"""
TIMERS = """
held = bytes(1) * (1_750 << 20)  # gVisor keeps timers in the sandbox's own memory: most of it is taken already
for _ in range(1_000_000):
    if libc.timer_create(1, None, ctypes.create_string_buffer(8)):
        raise OSError(ctypes.get_errno(), "timer")
"""
ZOMBIES = """
while True:
    if os.fork() == 0:
        os._exit(0)
"""
STORM = """
for _ in range(200):
    if os.fork() == 0:
        os.execv("/bin/true", ["true"])
    os.wait()
print("ran")
"""
MAPPED = """
with open("/tmp/fill", "wb+") as file:
    file.truncate(300 << 20)
    with mmap.mmap(file.fileno(), 0) as view:
        for page in range(0, len(view), 4096):
            view[page] = 1
        view.flush()
os.unlink("/tmp/fill")
print("mapped")
"""
LOCKED = """
page = mmap.mmap(-1, 64 << 20)
if libc.mlock(ctypes.byref(ctypes.c_char.from_buffer(page)), ctypes.c_size_t(64 << 20)):
    raise OSError(ctypes.get_errno(), "mlock")
"""

FAMILY = Family(
    "resources",
    "resource attacks",
    (
        Limited("fork bomb", FEWER + FORK, "EAGAIN"),
        Limited("fork bomb that leaves its session", FEWER + DETACHED, "EAGAIN", check=settled),
        Limited(
            "fork bomb of a shell",
            SHELL,
            "said: went on",
            "shell",
        ),
        Limited(
            "thread bomb",
            "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            "RuntimeError: can't start new thread",
        ),
        Limited("zombies", FEWER + ZOMBIES, "EAGAIN"),
        Limited("storm of programs", STORM, "said: ran"),
        memory("memory of a process", GROW),
        memory("memory of the kernel", GROW, OUT_OF_MEMORY, where="kernel"),
        memory("memory, slowly", GROW.replace("while True:", "while time.sleep(0.005) is None:")),
        memory("memory of many processes", FAMILIES, "said: True"),
        memory(
            "memory in files without a name",
            "while True: os.write(os.memfd_create('held'), bytes(1 << 20))",
            OUT_OF_MEMORY,
            where="kernel",
        ),
        memory("memory of System V segments", SEGMENTS, OUT_OF_MEMORY, where="kernel"),
        Limited("memory in shared memory", FULL.format("/dev/shm"), "ENOSPC"),
        Limited("memory of mapped files", MAPPED, "said: mapped"),
        Limited(
            "locked memory",
            LOCKED,
            "ENOMEM",
        ),
        Limited(
            "a huge environment",
            "os.execve('/bin/true', ['true'], {'x' * 100 + str(n): 'y' * 100_000 for n in range(100)})",
            {"runc": "E2BIG", "runsc": "ENAMETOOLONG"},
        ),
        Limited(
            "a huge argument",
            "os.execv('/bin/true', ['true', 'x' * (1 << 20)])",
            {"runc": "E2BIG", "runsc": "ENAMETOOLONG"},
        ),
        Limited("a full disk", FULL.format("/workspace"), "ENOSPC"),
        Limited("a full /tmp", FULL.format("/tmp"), "ENOSPC"),
        Limited(
            "a full directory of sockets", "open('/run/sandcell/kernel/fill', 'wb').write(bytes(10 << 20))", "ENOSPC"
        ),
        Limited("a sparse file", "os.truncate(os.open('/workspace/sparse', os.O_CREAT | os.O_RDWR), 1 << 42)", "EFBIG"),
        Limited("a deep directory", DEEP, "said: made"),
        Limited("busy writes to the disk", SYNC, "said: written"),
        Limited("open files", "while True: os.open('/dev/null', os.O_RDONLY)", "EMFILE"),
        Limited("buffers of pipes", PIPES, {"runc": "EPERM", "runsc": OUT_OF_MEMORY}),
        Limited("buffers of sockets", SOCKETS, "EMFILE"),
        Limited(
            "inotify instances",
            "while libc.inotify_init1(0) >= 0: pass\nraise OSError(ctypes.get_errno(), '')",
            "EMFILE",
        ),
        Limited("timers", TIMERS, {"runc": "EAGAIN", "runsc": OUT_OF_MEMORY}),
        Limited("POSIX queues", QUEUES, {"runc": "EMFILE", "runsc": "EACCES"}),
        Limited("processor time of spinning processes", SPIN, {"runc": "said: True", "runsc": "said: False"}),
        Limited(
            "a better place in the queue",
            "os.setpriority(os.PRIO_PROCESS, 0, -20)\nprint('only in gVisor')",
            {"runc": "EACCES", "runsc": "said: only in gVisor"},
        ),
        Limited(
            "real time",
            "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))",
            {"runc": "EPERM", "runsc": "EINVAL"},
        ),
        Limited(
            "a flood of output",
            "import sys\nfor _ in range(400): sys.stdout.write('line\\n' * 13_000)\nraise ValueError('flooded')",
            "ValueError: flooded",
            "kernel",
        ),
        Limited(
            "a flood of output past Python",
            "import os\nfor _ in range(400): os.write(1, b'x' * 65536)\nraise ValueError('flooded')",
            "ValueError: flooded",
            "kernel",
        ),
        Limited(
            "one line without an end",
            "import sys\nsys.stdout.write('x' * (24 << 20))\nraise ValueError('flooded')",
            "ValueError: flooded",
            "kernel",
        ),
        Limited("a flood of the terminal", "os.open('/dev/tty', os.O_WRONLY)", {"runc": "ENXIO", "runsc": "EIO"}),
        Limited(
            "a core dump",
            "resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))",
            "ValueError: not allowed to raise maximum limit",
        ),
        Limited("a core dump of an abort", "os.chdir('/workspace')\nos.abort()", "SIGABRT"),
    ),
)
