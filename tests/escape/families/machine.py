"""Attempts on the machine itself: another kernel, modules, the clock, the host's name, swap, quotas, the log."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

FAMILY = Family(
    "machine",
    "kexec, modules, clock, hostname",
    (
        Attempt("set the host name", "syscall('sethostname', b'taken', 5)", "EPERM"),
        Attempt("set the domain name", "syscall('setdomainname', b'taken', 5)", "EPERM"),
        Attempt(
            "set the host name with a program",
            "hostname taken",
            "exit 1: hostname: you must be root to change the host name",
            "shell",
        ),
        Attempt("load another kernel", "syscall('kexec_load', 0, 0, None, 0)", "EPERM"),
        Attempt("load another kernel from a file", "syscall('kexec_file_load', -1, -1, 0, b'', 0)", "EPERM"),
        Attempt("load a module", "syscall('init_module', b'\\x7fELF', 4, b'')", "EPERM"),
        Attempt("load a module from a file", "syscall('finit_module', os.open('/bin/true', 0), b'', 0)", "EPERM"),
        Attempt("remove a module", "syscall('delete_module', b'ext4', 0)", "EPERM"),
        Attempt("make a module in the old way", "syscall('create_module', b'x', 4096)", "EPERM"),
        Attempt(
            "have the kernel load a module for a socket",
            "socket.socket(29, socket.SOCK_RAW, 1)",  # AF_CAN
            "EPERM",
        ),
        Attempt(
            "have the kernel load a module for a file system",
            "syscall('mount', b'none', b'/tmp', b'xfs', 0, None)",
            "EPERM",
        ),
        Attempt("set the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)", "EPERM"),
        Attempt("set the clock in the old way", "syscall('settimeofday', struct.pack('qq', 0, 0), None)", "EPERM"),
        Attempt("bend the clock", "syscall('adjtimex', struct.pack('I', 2) + bytes(204))", "EPERM"),
        Attempt("bend one clock", "syscall('clock_adjtime', 0, struct.pack('I', 2) + bytes(204))", "EPERM"),
        Attempt("read the clock's bend", "syscall('adjtimex', bytes(208))", "EPERM"),
        Attempt(
            "set the clock with a program",
            "date -s 1970-01-01",
            "exit 1: date: cannot set date: Operation not permitted",
            "shell",
        ),
        Attempt("restart the machine", "syscall('reboot', 0xFEE1DEAD, 672274793, 0x1234567, None)", "EPERM"),
        Attempt(
            "have Ctrl-Alt-Del restart the machine",
            "syscall('reboot', 0xFEE1DEAD, 672274793, 0x89ABCDEF, None)",
            "EPERM",
        ),
        Attempt("swap onto a file", "syscall('swapon', b'/tmp/swap', 0)", "EPERM"),
        Attempt("take the swap away", "syscall('swapoff', b'/swapfile')", "EPERM"),
        Attempt("account processes in a file", "syscall('acct', b'/tmp/accounts')", "EPERM"),
        Attempt("set a quota", "syscall('quotactl', 0x800002 << 8, b'/dev/loop0', 0, None)", "EPERM"),
        Attempt(
            "set a quota through a descriptor",
            "syscall('quotactl_fd', os.open('/workspace', 0), 0x800002 << 8, 0, None)",
            "EPERM",
        ),
        Attempt("read the kernel's log", "syscall('syslog', 3, ctypes.create_string_buffer(4096), 4096)", "EPERM"),
        Attempt("clear the kernel's log", "syscall('syslog', 5, None, 0)", "EPERM"),
        Attempt("write to the machine's ports", "syscall('iopl', 3)", "EPERM"),
        Attempt("write to one of the machine's ports", "syscall('ioperm', 0x70, 2, 1)", "EPERM"),
        Attempt("make a segment of one's own", "syscall('modify_ldt', 1, bytes(16), 16)", "EPERM"),
        Attempt("hang up the terminal of all", "syscall('vhangup')", "EPERM"),
        Attempt("read a setting by the old call", "syscall('_sysctl', bytes(80))", "EPERM"),
        Attempt("list the kernel's file systems", "syscall('sysfs', 3)", "EPERM"),
        Attempt("look up a profiler's cookie", "syscall('lookup_dcookie', 0, bytes(64), 64)", "EPERM"),
        Attempt("load a library in the old way", "syscall('uselib', b'/lib/x86_64-linux-gnu/libc.so.6')", "EPERM"),
        Attempt("move another's memory between nodes", "syscall('move_pages', 1, 0, None, None, None, 0)", "EPERM"),
        Attempt(
            "move all of another's memory between nodes", "syscall('migrate_pages', 1, 8, bytes(8), bytes(8))", "EPERM"
        ),
        Attempt(
            "leave the plain execution domain",
            "syscall('personality', 0x0040000)",  # ADDR_NO_RANDOMIZE
            "EPERM",
        ),
        Attempt(
            "map the first page",
            "import ctypes as c\nlibc.mmap.restype = c.c_long\n"
            "if libc.mmap(c.c_long(0), 4096, 3, 0x32, -1, c.c_long(0)) == -1:\n"
            "    raise OSError(c.get_errno(), 'mmap')\n",
            {"runc": "EPERM", "runsc": "ENOMEM"},
        ),
    ),
)
