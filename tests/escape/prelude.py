"""What every attempt's program can use. Read as text and run inside the sandbox; imports nothing of this repository.

`syscall(name, *arguments)` makes a system call by name (x86_64) or number and raises OSError. `host`, `neighbour` and
`MARK` are set before a program runs: what an attacker might know of the host (`host.file`, `host.pid`, ...), of another
principal's session on it, and a text that is unique to this attempt.
"""
# ruff: noqa: F401 - the modules are for the programs

import ctypes
import errno
import fcntl
import glob
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

NUMBERS = {
    "read": 0, "open": 2, "mmap": 9, "ioctl": 16, "shmget": 29, "shmat": 30, "getpid": 39, "socket": 41,
    "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64, "semctl": 66, "msgget": 68,
    "msgsnd": 69, "msgrcv": 70, "shmctl": 31, "ptrace": 101, "syslog": 103, "setuid": 105, "setgid": 106,
    "setreuid": 113, "setregid": 114, "setgroups": 116, "setresuid": 117, "setresgid": 119, "setfsuid": 122,
    "capget": 125, "capset": 126, "mknod": 133, "uselib": 134, "personality": 135, "ustat": 136, "sysfs": 139,
    "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "prctl": 157, "arch_prctl": 158,
    "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167,
    "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "create_module": 174, "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180,
    "lookup_dcookie": 212, "io_setup": 206, "remap_file_pages": 216, "clock_settime": 227, "mq_open": 240,
    "mq_unlink": 241, "mq_timedsend": 242, "mq_timedreceive": 243, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "mknodat": 259, "unshare": 272, "move_pages": 279,
    "perf_event_open": 298, "fanotify_init": 300, "fanotify_mark": 301, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "seccomp": 317, "memfd_create": 319,
    "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435, "openat2": 437,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
    "process_mrelease": 448, "cachestat": 451, "map_shadow_stack": 453, "statmount": 457, "listmount": 458,
    "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "open_tree_attr": 467,
}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

AT_FDCWD = -100


def syscall(which, *arguments):
    """Make a system call by name or number; the result, or OSError."""
    number = NUMBERS[which] if isinstance(which, str) else which
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(_argument, arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _argument(value):
    if value is None:
        return ctypes.c_void_p(0)
    return ctypes.c_long(value) if isinstance(value, int) else value


def write(path, text):
    """Write a text to what is there, with no buffer and no new file."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        return os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def write_setting(name, text):
    """Write to a setting of the kernel; one that this kernel lacks is like one that may not be written."""
    path = f"/proc/sys/{name}"
    if not os.access(path, os.F_OK):
        raise OSError(errno.EROFS, "no such setting")
    return write(path, text)


def read(path, size=65536):
    """The first bytes of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def run_machine_code(code):
    """Call a page that holds this code; what it leaves in rax."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def in_child(function):
    """Call a function in a forked child; its OSError comes back, as does the signal that ended it (RuntimeError)."""
    report, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            function()
            os.write(tell, b"0")
        except OSError as error:
            os.write(tell, b"%d" % error.errno)
        finally:
            os._exit(0)
    os.close(tell)
    number = int(os.read(report, 16) or b"-1")
    os.close(report)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise RuntimeError(signal.Signals(os.WTERMSIG(status)).name)
    if number:
        raise OSError(number, os.strerror(number))
