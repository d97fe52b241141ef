"""Attempts to get past the list of calls: by another table, or by arguments that it does not look at."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

CALL = "print(run_machine_code(bytes.fromhex('{code}')))"
"""Machine code, to be called as a function."""

# gVisor answers int 0x80 itself, out of the 64-bit table: there these are a writev, a pipe and a msync of nothing.

FAMILY = Family(
    "call_tables",
    "seccomp bypass by x32 and 32-bit calls",
    (
        # mov eax, 20 (getpid of the 32-bit table); int 0x80; ret
        Attempt(
            "ask the 32-bit table who one is",
            CALL.format(code="b814000000cd80c3"),
            {"runc": "SIGSYS", "runsc": "said: -9"},
            newer="said: -1",
        ),
        # mov eax, 21 (mount of the 32-bit table); int 0x80; ret
        Attempt(
            "mount by the 32-bit table",
            CALL.format(code="b815000000cd80c3"),
            {"runc": "SIGSYS", "runsc": "said: -22"},
            newer="said: -1",
        ),
        # mov eax, 26 (ptrace of the 32-bit table); mov ebx, 16; mov ecx, 1; int 0x80; ret
        Attempt(
            "trace the guest by the 32-bit table",
            CALL.format(code="53b81a000000bb10000000b901000000cd805bc3"),
            {"runc": "SIGSYS", "runsc": "said: -22"},
            newer="said: -1",
        ),
        # push rbp; mov eax, 20; mov rbp, rsp; sysenter: no instruction of 64-bit code, or the 32-bit table's.
        # Where Linux finds no sixth argument it goes back to the 32-bit entry, which a 64-bit process does not have.
        Attempt(
            "enter by sysenter",
            "try:\n"
            "    in_child(lambda: run_machine_code(bytes.fromhex('55b8140000004889e50f34')))\n"
            "    print('came back')\n"
            "except RuntimeError as ended:\n"
            "    print(str(ended) in ('SIGILL', 'SIGSYS', 'SIGSEGV'))",
            "said: True",
        ),
        Attempt(
            "ask the x32 table who one is", "print(syscall(0x40000000 + 39))", {"runc": "SIGSYS", "runsc": "EPERM"}
        ),
        Attempt(
            "mount by the x32 table",
            "syscall(0x40000000 + 165, b'none', b'/tmp', b'tmpfs', 0, None)",
            {"runc": "SIGSYS", "runsc": "EPERM"},
        ),
        Attempt(
            "trace the guest by the x32 table",
            "syscall(0x40000000 + 521, 16, 1, 0, 0)",
            {"runc": "SIGSYS", "runsc": "EPERM"},
        ),
        Attempt(
            "execute by the x32 table",
            "syscall(0x40000000 + 520, b'/bin/true', None, None)",
            {"runc": "SIGSYS", "runsc": "EPERM"},
        ),
        # far jump into the 32-bit code segment (0x23), there: mov eax, 20; int 0x80
        Attempt(
            "switch to 32-bit code and call",
            "page = mmap.mmap(-1, 4096, 0x62, 7)\n"
            "low = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
            "page.write(bytes.fromhex('b814000000cd80f4'))\n"
            "run_machine_code(b'\\x68\\x23\\0\\0\\0' + b'\\x68' + struct.pack('I', low) + b'\\x48\\xcb')",
            {"runc": "SIGSYS", "runsc": "SIGSEGV"},
        ),
        Attempt(
            "run a 32-bit program",
            "open('/tmp/elf32', 'wb').write(b'\\x7fELF\\x01\\x01\\x01' + bytes(9) + "
            "struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0) + "
            "struct.pack('<8I', 1, 0, 0x8048000, 0x8048000, 0x60, 0x60, 5, 4096) + "
            "bytes.fromhex('b801000000bb00000000cd80'))\n"
            "os.chmod('/tmp/elf32', 0o755)\n"
            "status = os.spawnv(os.P_WAIT, '/tmp/elf32', ['elf32'])\n"
            "print(signal.Signals(-status).name if status < 0 else status)",
            {"runc": "said: SIGSYS", "runsc": "said: 127"},
        ),
        Attempt(
            "make a call with the high half of its number set",
            "syscall(0x100000000 + 165, b'none', b'/tmp', b'tmpfs', 0, None)",
            "EPERM",
        ),
        Attempt("make a call past the end of the table", "syscall(1023)", {"runc": "ENOSYS", "runsc": "EPERM"}),
        Attempt("make a call of a negative number", "syscall(-2)", {"runc": "SIGSYS", "runsc": "EPERM"}),
        Attempt("clone with the high half of its flags set", "syscall('clone', 0x1_1000_0011, 0, 0, 0, 0)", "EPERM"),
        Attempt("unshare with the high half of its flags set", "syscall('unshare', 0x1_0002_0000)", "EPERM"),
        Attempt(
            "open a socket with the high half of its family set", "syscall('socket', 0x1_0000_0011, 3, 0)", "EPERM"
        ),
        Attempt(
            "open a socket with the high half of an allowed family set",
            "syscall('socket', 0x1_0000_0001, 1, 0)",
            "EPERM",
        ),
        Attempt(
            "allow everything by a filter of one's own",
            "filter = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
            "syscall('prctl', 38, 1, 0, 0, 0)\n"
            "syscall('seccomp', 1, 0, struct.pack('HxxxxxxQ', 1, ctypes.addressof(filter)))\n"
            "syscall('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
            "EPERM",
        ),
        Attempt(
            "answer for the kernel by a filter of one's own",
            # Notifies of mount(2), allows the rest: what our own filter refuses is not asked for.
            "code = [(0x20, 0, 0, 0), (0x15, 0, 1, 165), (6, 0, 0, 0x7fc00000), (6, 0, 0, 0x7fff0000)]\n"
            "filter = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *each) for each in code))\n"
            "listener = syscall('seccomp', 1, 8, struct.pack('HxxxxxxQ', 4, ctypes.addressof(filter)))\n"
            "syscall('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
            {"runc": "EBUSY", "runsc": "EINVAL"},
        ),
        Attempt("take the filter off in a child", "in_child(lambda: syscall('prctl', 22, 0, 0, 0, 0))", "EPERM"),
        Attempt(
            "take the filter off by exec",
            "grep -E '^(Seccomp|NoNewPrivs|Seccomp_filters):' /proc/self/status | tr -d '\\t\\n'",
            {"runc": "said: NoNewPrivs:1Seccomp:2Seccomp_filters:2", "runsc": "said: Seccomp:2"},
            "shell",
        ),
        Attempt(
            "race the arguments of a filtered call",
            "import threading\n"
            "name = ctypes.create_string_buffer(b'/tmp/none')\n"
            "stop = time.monotonic() + 0.5\n"
            "def swap():\n"
            "    while time.monotonic() < stop: name.value = b'/workspace'; name.value = "
            "b'/tmp/none'\n"
            "threading.Thread(target=swap).start()\n"
            "while time.monotonic() < stop:\n"
            "    try: syscall('chroot', name)\n"
            "    except PermissionError: continue\n"
            "    print('in')\n"
            "syscall('chroot', name)",
            "EPERM",
        ),
    ),
)
