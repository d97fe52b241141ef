"""The system calls user code may make: deny by default, allowed in groups, each with its reason.

`profile` returns the `linux.seccomp` object of an OCI bundle. What is not named fails with EPERM; calls through another
architecture's table (32-bit, x32) end the process. The format is the OCI runtime specification's.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator
from typing import Any, Final

_EPERM: Final = 1

_CLONE_NEW_ANYTHING: Final = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET in one mask."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_AUDIT: Final = 9
_PROTOCOLS: Final = (0, 1, 6, 17, 58)
"""Of IPv4 and IPv6 sockets: the usual one, ICMP, TCP, UDP, ICMPv6. Another has the host load a module for it."""

_TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing and pasting into a terminal."""

_LOW: Final = 0xFFFFFFFF
"""Where the kernel takes an `int`, it looks at these bits of the register: so does every rule that refuses a value."""

_PR_SET_SECCOMP: Final = 22
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_HARMLESS_OPERATIONS: Final = (0, 2, 3)
"""Of seccomp: strict mode, and the two questions what the kernel offers."""

_OPTION_BITS: Final = 7
"""Socket options have numbers below 128; the tables of packet filters, which are above, are not here."""

REFUSED_OPTIONS: Final[dict[int, tuple[int, ...]]] = {
    # SOL_SOCKET: programs (26, 50 to 52), which fill the host's one pool; what is left in a socket's error queue, which
    # no control group is charged for: timestamps (37, 65), notes of sends without a copy (60) and of missed times (61).
    1: (26, 37, 50, 51, 52, 60, 61, 65),
    # IPPROTO_IP: error queue (11, 26); memberships and their source lists, which are charged to no group.
    0: (11, 26, 35, 39, 41, 42, 46, 48),
    # IPPROTO_IPV6: the same; an old way to give 64 KB of options (6), anycast (27), flow labels of the whole host (32).
    41: (6, 20, 25, 27, 31, 32, 42, 46, 48),
    # IPPROTO_TCP: keys of peers (14, 32, 38 to 40, 42), protocols on top, which load a module (31), a key of one's own.
    6: (14, 31, 32, 33, 38, 39, 40, 42),
    17: (100,),  # IPPROTO_UDP: encapsulation
    270: (1,),  # SOL_NETLINK: groups, whose messages come unasked
}
"""By level: options of sockets that hold memory of the host outside the control group, or objects of the whole host."""

_ARCHITECTURES: Final = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}

ALLOWED: Final[dict[str, tuple[str, str]]] = {
    "files": (
        "reading, writing and naming files; what can be reached is decided by the mounts",
        "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64"
        " fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock"
        " fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr lchown"
        " lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat"
        " newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink"
        " readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statx"
        " symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes"
        " vmsplice write writev",
    ),
    "memory": (
        "allocating, protecting and sharing memory; how much is decided by the cgroup",
        "brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock"
        " munlockall munmap pkey_alloc pkey_free pkey_mprotect shmat shmctl shmdt shmget remap_file_pages",
    ),
    "processes": (
        "starting, waiting for and looking at one's own processes and threads; how many is decided by the cgroup",
        "arch_prctl execve execveat exit exit_group fork vfork futex futex_waitv get_robust_list set_robust_list"
        " get_thread_area set_thread_area getcpu getpgid getpgrp getpid getppid getpriority getresgid getresuid"
        " getrlimit getrusage getsid gettid pidfd_open pidfd_send_signal prlimit64 rseq sched_get_priority_max"
        " sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler"
        " sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield"
        " set_tid_address setpgid setpriority setrlimit setsid ioprio_get ioprio_set times wait4 waitid",
    ),
    "identity": (
        "the guest drops to the user with these; without capabilities they change nothing",
        "capget capset getegid geteuid getgid getgroups getuid setfsgid setfsuid setgid setgroups setregid setresgid"
        " setresuid setreuid setuid",
    ),
    "signals": (
        "handling and sending signals inside the sandbox's pid namespace",
        "kill pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn"
        " rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack signalfd signalfd4 tgkill tkill alarm",
    ),
    "waiting": (
        "event loops, timers and pipes",
        "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 getitimer"
        " inotify_add_watch inotify_init inotify_init1 inotify_rm_watch pipe pipe2 poll ppoll pselect6 select setitimer"
        " timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime"
        " timerfd_settime",
    ),
    "sockets": (
        "talking inside the sandbox; the network namespace has loopback only, and `socket` itself is narrowed below",
        "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg"
        " sendmsg sendto shutdown socketpair",
    ),
    "message passing": (
        "System V and POSIX queues and semaphores of the sandbox's own ipc namespace (multiprocessing uses them)",
        "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl"
        " semget semop semtimedop",
    ),
    "time and chance": (
        "reading clocks, sleeping, random bytes; setting the clock is not here",
        "clock_getres clock_gettime clock_nanosleep getrandom gettimeofday nanosleep time",
    ),
    "the machine": (
        "reading names and load; programs ask at start",
        "sysinfo uname",
    ),
    "self-restraint": (
        "a program may give up more by Landlock rules of its own; filters of its own are narrowed below",
        "landlock_add_rule landlock_create_ruleset landlock_restrict_self",
    ),
}


def profile(machine: str) -> dict[str, Any]:
    """The seccomp object for `machine` (`x86_64` or `aarch64`, as `platform.machine()` says it)."""
    if machine not in _ARCHITECTURES:
        raise ValueError(f"no seccomp profile for the architecture {machine!r}; known: {', '.join(_ARCHITECTURES)}")
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _EPERM,
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": [_allow(names) for _, names in ALLOWED.values()] + _allow_narrowly(machine),
    }


def for_gvisor(usual: dict[str, Any]) -> dict[str, Any]:
    """The same profile with the names that gVisor knows some calls by, without errors that it does not know, and short.

    Its filters have at most 4,096 instructions, of which some builds take a dozen for each comparison. But of the rules
    for one call the first that fits holds, so what is refused can stand before the rest.
    """
    shorter = _refuse_before_the_rest()
    replaced = {name for rule in shorter for name in rule["names"]}
    rules = [rule for rule in usual["syscalls"] if replaced.isdisjoint(rule["names"])]
    known = [rule for rule in rules if "errnoRet" not in rule]
    told = [{**rule, "action": "SCMP_ACT_ALLOW"} for rule in rules if "errnoRet" in rule]
    for rule in told:
        del rule["errnoRet"]
    return {**usual, "syscalls": [*known, *told, _allow("pselect"), *shorter]}  # pselect6


def _refuse_before_the_rest() -> list[dict[str, Any]]:
    """What `_allow_narrowly` allows of the calls that are refused for a few arguments."""
    return [
        *(_refuse("ioctl", _compare_masked(1, _LOW, value)) for value in _TERMINAL_INPUT),
        _refuse("prctl", _compare_masked(0, _LOW, _PR_SET_SECCOMP)),
        *(
            _refuse("setsockopt", _compare_masked(1, _LOW, level), _compare_masked(2, _LOW, option))
            for level, options in REFUSED_OPTIONS.items()
            for option in options
        ),
        _allow("ioctl prctl"),
        *(
            _allow("setsockopt", [_compare_masked(1, _LOW, level), _compare_masked(2, _LOW << _OPTION_BITS & _LOW, 0)])
            for level in REFUSED_OPTIONS
        ),
    ]


def _refuse(name: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ERRNO", "args": list(arguments)}


def for_setup(usual: dict[str, Any]) -> dict[str, Any]:
    """The same profile for what makes users of an image: those programs go on only where there is no audit at all.

    No netlink: what lies unread in its sockets is charged to no control group, and here is no guest to count them.
    """
    usual_rules = [rule for rule in usual["syscalls"] if not _makes(rule, _AF_NETLINK)]
    rule = {
        "names": ["socket"],
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": errno.EPROTONOSUPPORT,
        "args": [_compare(0, _AF_NETLINK), _compare(2, _NETLINK_AUDIT)],
    }
    return {**usual, "syscalls": [*usual_rules, rule]}


def _makes(rule: dict[str, Any], family: int) -> bool:
    return "socket" in rule["names"] and _compare(0, family) in rule.get("args", ())


def _allow_narrowly(machine: str) -> list[dict[str, Any]]:
    """Calls allowed for some arguments only."""
    # The flags of clone are its first argument on both architectures.
    return [
        # Threads and processes, but no new namespace; glibc falls back to clone when clone3 is missing. TRACE means
        # ENOSYS where no tracer is (ptrace is not allowed); gVisor knows no errno of a single rule's own.
        _allow("clone", [_compare_masked(0, _CLONE_NEW_ANYTHING, 0)]),
        {"names": ["clone3"], "action": "SCMP_ACT_TRACE"},
        *_allow_sockets(),
        # No typing into another process's terminal.
        *(_allow("ioctl", [one]) for one in _all_but(1, _TERMINAL_INPUT)),
        # Asking for the execution domain and setting the plain one, not switching to another.
        *(_allow("personality", [_compare(0, value)]) for value in (0x0, 0xFFFFFFFF)),
        *_allow_filters(),
    ]


def _allow_sockets() -> list[dict[str, Any]]:
    """Local and loopback sockets, of netlink only the route family, which lists interfaces; their options."""
    return [
        _allow("socket", [_compare(0, _AF_UNIX)]),
        *(
            _allow("socket", [_compare(0, family), _compare(2, protocol)])
            for family in (_AF_INET, _AF_INET6)
            for protocol in _PROTOCOLS
        ),
        _allow("socket", [_compare(0, _AF_NETLINK), _compare(2, 0)]),
        *(
            _allow("setsockopt", [_compare_masked(1, _LOW, level), one])
            for level, options in REFUSED_OPTIONS.items()
            for one in _all_but(2, options, _OPTION_BITS)
        ),
    ]


def _allow_filters() -> list[dict[str, Any]]:
    """No filters: each takes of the host's one pool of programs for as long as its process lives.

    But one that asks a listener: the guest's. The kernel lets no process have a second, so this is no way to a pile.
    """
    return [
        *(_allow("prctl", [one]) for one in _all_but(0, (_PR_SET_SECCOMP,))),
        *(_allow("seccomp", [_compare_masked(0, _LOW, operation)]) for operation in _HARMLESS_OPERATIONS),
        _allow("seccomp", [_compare_masked(0, _LOW, _SET_MODE_FILTER), _compare(1, _NEW_LISTENER)]),
    ]


def _all_but(index: int, refused: Collection[int], bits: int = 32) -> list[dict[str, Any]]:
    """Comparisons of which one holds for each number of so many bits that is not among `refused`, whatever is above 32.

    A rule that something is *not* equal would compare all 64 bits, of which the kernel looks at 32.
    """
    return [_compare_masked(index, _LOW & ~((1 << free) - 1), start) for start, free in _blocks(0, bits, refused)]


def _blocks(start: int, free: int, refused: Collection[int]) -> Iterator[tuple[int, int]]:
    """The largest blocks `start` to `start + 2**free - 1` that have none of `refused` in them."""
    if not any(start <= value < start + (1 << free) for value in refused):
        yield start, free
    elif free:
        yield from _blocks(start, free - 1, refused)
        yield from _blocks(start + (1 << free - 1), free - 1, refused)


def _allow(names: str, arguments: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names.split(), "action": "SCMP_ACT_ALLOW"}
    return {**rule, "args": arguments} if arguments else rule


def _compare(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _compare_masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
