"""The system calls user code may make: deny by default, allowed in groups, each with its reason.

`profile` returns the `linux.seccomp` object of an OCI bundle. What is not named fails with EPERM; calls through another
architecture's table (32-bit, x32) end the process. The format is the OCI runtime specification's.
"""

from __future__ import annotations

from typing import Any, Final

_EPERM: Final = 1

_CLONE_NEW_ANYTHING: Final = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET in one mask."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TIOCSTI: Final = 0x5412

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
        " munlockall munmap get_mempolicy mbind set_mempolicy pkey_alloc pkey_free pkey_mprotect shmat shmctl shmdt"
        " shmget remap_file_pages",
    ),
    "processes": (
        "starting, waiting for and looking at one's own processes and threads; how many is decided by the cgroup",
        "arch_prctl execve execveat exit exit_group fork vfork futex futex_waitv get_robust_list set_robust_list"
        " get_thread_area set_thread_area getcpu getpgid getpgrp getpid getppid getpriority getresgid getresuid"
        " getrlimit getrusage getsid gettid pidfd_open pidfd_send_signal prctl prlimit64 rseq sched_get_priority_max"
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
        " sendmsg sendto setsockopt shutdown socketpair",
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
        "a program may only give up more: filters and Landlock rules of its own",
        "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp",
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
        "syscalls": [_allow(names) for _, names in ALLOWED.values()] + _narrowed(machine),
    }


def for_gvisor(usual: dict[str, Any]) -> dict[str, Any]:
    """The same profile with the names that gVisor knows some calls by."""
    return {**usual, "syscalls": [*usual["syscalls"], _allow("pselect")]}  # pselect6


def _narrowed(machine: str) -> list[dict[str, Any]]:
    """Calls allowed for some arguments only."""
    # The flags of clone are its first argument on both architectures.
    return [
        # Threads and processes, but no new namespace; glibc falls back to clone when clone3 is missing. TRACE means
        # ENOSYS where nobody traces (ptrace is not allowed); gVisor knows no errno of a single rule's own.
        _allow("clone", [_masked(0, _CLONE_NEW_ANYTHING, 0)]),
        {"names": ["clone3"], "action": "SCMP_ACT_TRACE"},
        # Local and loopback sockets; of netlink only the route family, which lists interfaces.
        *(_allow("socket", [_equal(0, family)]) for family in (_AF_UNIX, _AF_INET, _AF_INET6)),
        _allow("socket", [_equal(0, _AF_NETLINK), _equal(2, 0)]),
        # No typing into somebody's terminal.
        _allow("ioctl", [{"index": 1, "value": _TIOCSTI, "op": "SCMP_CMP_NE"}]),
        # Asking for the execution domain and setting the plain one, not switching to another.
        *(_allow("personality", [_equal(0, value)]) for value in (0x0, 0xFFFFFFFF)),
    ]


def _allow(names: str, arguments: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names.split(), "action": "SCMP_ACT_ALLOW"}
    return {**rule, "args": arguments} if arguments else rule


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
