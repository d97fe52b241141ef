"""Start a process as the user: the one way kernels and commands are born, and what the guest itself gives up first.

The child is forked by hand and not with subprocess: importing that costs more than the fork, and no module of the
standard library raises `oom_score_adj` between fork and exec, before user code runs.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import select
import struct
import termios

from ..options import Options
from ..processors import neighbouring

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

OOM_SCORE = b"500"
"""Of user processes: memory runs out for them first, never for the guest (which stays at its own score)."""
HIGHEST_OOM_SCORE = b"1000"
NICENESS = 19
"""Of user processes: however many spin, the guest gets its turn. It weighs only inside the sandbox's own CPU share."""
OPEN_FILES = 4096
EXEC_DEADLINE_SECONDS = 10.0

_GUEST_PROC = "/dev/guest/proc"
"""Root's alone: the /proc that others see is read-only, so that no other process lowers the score again."""
_WRITABLE_PROC = _GUEST_PROC if os.path.isdir(_GUEST_PROC) else "/proc"
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP = 24
_CAP_SETPCAP = 8


def harden(file_bytes: int, processes: int) -> None:
    """Give up what no process here needs, for the guest and all it starts; adopt orphans even when not PID 1.

    No file grows beyond `file_bytes`, and the user has no more than `processes`, threads among them, when there are
    any: where a control group counts them, as on a host, there are none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for option in (_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER):
        if libc.prctl(option, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    _keep_capabilities(libc)
    if os.geteuid() == 0:  # in a pod the guest is the user itself, and has no groups besides
        os.setgroups([])
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _keep_capabilities(libc: ctypes.CDLL) -> None:
    """Empty the set that bounds what a program could ever get, then give up the capability to do that.

    Where there is no such capability (a guest without a sandbox, run by another user) it stays as it is.
    """
    version, wanted = struct.pack("II", 0x20080522, 0), ctypes.create_string_buffer(24)
    if libc.capget(version, wanted) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be read")
    held = list(struct.unpack("6I", wanted.raw))  # effective, permitted, inheritable; then those from 32 on
    if not held[0] & 1 << _CAP_SETPCAP:
        return
    number = 0
    while libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    kept = [each & ~(1 << _CAP_SETPCAP) if place < 2 else each for place, each in enumerate(held)]
    kept[2] = kept[5] = 0
    if ctypes.get_errno() != errno.EINVAL or libc.capset(version, struct.pack("6I", *kept)) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")


class Program:
    """What to run: as the user, in the workspace, with the environment the options say; output goes nowhere by default.

    A kernel is `deaf_to_interrupts` until it listens to them itself, so that one that comes early does not end it. One
    that `needs_directory` does not start elsewhere; one that is `in_terminal` has its stdin as its controlling one.
    """

    def __init__(self, command: list[str], options: Options) -> None:
        self.command = command
        self.user = options.user
        self.directory = options.workspace
        self.environment = options.make_environment()
        self.processors = options.processors
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.deaf_to_interrupts = False
        self.needs_directory = False
        self.in_terminal = False


def spawn(program: Program) -> int:
    """Run it in a session of its own, with nothing open but stdin (empty unless given), stdout and stderr.

    Returns the pid. Raises the OSError of the step that failed: EAGAIN when no more processes fit, ENOENT when there is
    no such program.
    Call it from the main thread, and have the caller's reaper know the pid before the loop runs on.
    """
    report, tell = os.pipe()
    try:
        try:
            pid = os.fork()
            if pid == 0:
                _become(program, tell)
        finally:
            os.close(tell)
        _confirm(pid, report)
    finally:
        os.close(report)
    return pid


def _confirm(pid: int, report: int) -> None:
    """Wait until the child has exec'd; its failure becomes ours. User code may stop the child, so not for ever.

    One that has not is killed, and left to the reaper: it may wait for a disk, which nothing ends.
    """
    ready, _, _ = select.select([report], [], [], EXEC_DEADLINE_SECONDS)
    failure = os.read(report, 16) if ready else b"110"
    if not failure:
        return
    os.kill(pid, signal.SIGKILL)
    number = int(failure)
    raise OSError(number, os.strerror(number))


def _become(program: Program, tell: int) -> None:
    """In the child: become the user and exec. Never returns."""
    number = 5
    try:
        os.setsid()
        _raise_oom_score()
        os.sched_setaffinity(0, neighbouring(program.processors))
        _reset_signals(deaf=program.deaf_to_interrupts)
        tell = _keep_only(program, tell)
        if program.in_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.setresgid(program.user, program.user, program.user)
        os.setresuid(program.user, program.user, program.user)
        _enter(program.directory, needed=program.needs_directory)
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # last: until then it has its turn as the guest has
        os.execve(program.command[0], program.command, program.environment)  # noqa: S606 - no shell on purpose
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(tell, b"%d" % number)
        os._exit(127)


def _raise_oom_score() -> None:
    descriptor = os.open(f"{_WRITABLE_PROC}/self/oom_score_adj", os.O_RDWR)
    own = int(os.read(descriptor, 16))  # in a pod it is the cluster's, and may be higher than that already
    os.write(descriptor, OOM_SCORE if own < int(OOM_SCORE) else HIGHEST_OOM_SCORE)
    os.close(descriptor)


def _reset_signals(*, deaf: bool) -> None:
    for ignored_here in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP):
        signal.signal(ignored_here, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.SIG_DFL)


def _keep_only(program: Program, tell: int) -> int:
    """Close all descriptors but 0, 1, 2 and the one that tells the parent, whose new number is returned."""
    null = os.open("/dev/null", os.O_RDWR)
    moved = [os.dup(null if wanted is None else wanted) for wanted in (program.stdin, program.stdout, program.stderr)]
    told = os.dup(tell)
    for target, source in enumerate(moved):
        os.dup2(source, target)
    os.closerange(3, told)
    os.closerange(told + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return told


def _enter(directory: str, *, needed: bool) -> None:
    try:
        os.chdir(directory)
    except OSError:
        if needed:
            raise
        os.chdir("/")
