"""Attempts to look into or steer other processes and the kernel by the calls made for debuggers and fast I/O."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

FAMILY = Family(
    "observation",
    "ptrace, process_vm_readv, bpf, perf, io_uring, userfaultfd",
    (
        Attempt("trace the guest", "syscall('ptrace', 16, 1, 0, 0)", "EPERM"),
        Attempt("seize the guest", "syscall('ptrace', 0x4206, 1, 0, 0)", "EPERM"),
        Attempt("be traced by one's parent", "syscall('ptrace', 0, 0, 0, 0)", "EPERM"),
        Attempt(
            "trace one's own child",
            "child = os.fork()\n"
            "if not child: time.sleep(5); os._exit(0)\n"
            "try: syscall('ptrace', 16, child, 0, 0)\n"
            "finally: os.kill(child, 9)",
            "EPERM",
        ),
        Attempt(
            "trace a process of the neighbour", "for pid in neighbour.pids: syscall('ptrace', 16, pid, 0, 0)", "EPERM"
        ),
        Attempt(
            "read the guest's memory",
            "buffer = ctypes.create_string_buffer(8)\n"
            "vector = struct.pack('QQ', ctypes.addressof(buffer), 8)\n"
            "syscall('process_vm_readv', 1, vector, 1, vector, 1, 0)",
            "EPERM",
        ),
        Attempt(
            "write the guest's memory",
            "vector = struct.pack('QQ', id(host), 8)\nsyscall('process_vm_writev', 1, vector, 1, vector, 1, 0)",
            "EPERM",
        ),
        Attempt(
            "read one's own memory as another's",
            "vector = struct.pack('QQ', id(host), 8)\n"
            "syscall('process_vm_readv', os.getpid(), vector, 1, vector, 1, 0)",
            "EPERM",
        ),
        Attempt("compare with the guest's files", "syscall('kcmp', 1, os.getpid(), 0, 0, 0)", "EPERM"),
        Attempt("compare addresses of the kernel", "syscall('kcmp', os.getpid(), os.getpid(), 0, 0, 1)", "EPERM"),
        Attempt(
            "take a descriptor of the guest",
            "guest = syscall('pidfd_open', 1, 0)\nsyscall('pidfd_getfd', guest, 3, 0)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt(
            "take a descriptor of one's own",
            "me = syscall('pidfd_open', os.getpid(), 0)\nsyscall('pidfd_getfd', me, 0, 0)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt(
            "signal the guest through a descriptor",
            "guest = syscall('pidfd_open', 1, 0)\nsyscall('pidfd_send_signal', guest, 9, None, 0)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt(
            "advise the guest's memory",
            "guest = syscall('pidfd_open', 1, 0)\nsyscall('process_madvise', guest, bytes(16), 1, 20, 0)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt(
            "reap the guest's memory",
            "guest = syscall('pidfd_open', 1, 0)\nsyscall('process_mrelease', guest, 0)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt("load a program into the kernel", "syscall('bpf', 5, bytes(128), 128)", "EPERM"),
        Attempt(
            "make a map in the kernel", "syscall('bpf', 0, struct.pack('5I', 2, 4, 8, 1, 0) + bytes(108), 128)", "EPERM"
        ),
        Attempt("open a map of the kernel by its id", "syscall('bpf', 14, bytes(128), 128)", "EPERM"),
        Attempt(
            "count events of the processor",
            "syscall('perf_event_open', struct.pack('IIQ', 0, 128, 0) + bytes(112), 0, -1, -1, 0)",
            "EPERM",
        ),
        Attempt(
            "count events of all processes",
            "syscall('perf_event_open', struct.pack('IIQ', 1, 128, 0) + bytes(112), -1, 0, -1, 0)",
            "EPERM",
        ),
        Attempt(
            "trace the kernel's events",
            "syscall('perf_event_open', struct.pack('IIQ', 2, 128, 0) + bytes(112), 0, -1, -1, 0)",
            "EPERM",
        ),
        Attempt("set up a ring", "syscall('io_uring_setup', 8, ctypes.create_string_buffer(120))", "EPERM"),
        Attempt("enter a ring", "syscall('io_uring_enter', 0, 1, 0, 0, None, 0)", "EPERM"),
        Attempt("register with a ring", "syscall('io_uring_register', 0, 0, None, 0)", "EPERM"),
        Attempt("handle the kernel's page faults", "syscall('userfaultfd', 0)", "EPERM"),
        Attempt("handle page faults of user code", "syscall('userfaultfd', 1)", "EPERM"),
        Attempt("watch a whole file system", "syscall('fanotify_init', 0, 0)", "EPERM"),
        Attempt("watch files by their handles", "syscall('fanotify_init', 0x200, 0)", "EPERM"),
        Attempt(
            "name a file by a handle",
            "syscall('name_to_handle_at', AT_FDCWD, b'/workspace', struct.pack('Ii', 128, 0) + "
            "bytes(128), bytes(4), 0)",
            "EPERM",
        ),
        Attempt(
            "open a file by a handle",
            "syscall('open_by_handle_at', AT_FDCWD, struct.pack('Ii', 8, 1) + bytes(8), 0)",
            "EPERM",
        ),
        Attempt("read the guest's memory as a file", "read('/proc/1/mem', 8)", "EACCES"),
        Attempt(
            "write to one's own code through a file",
            "with open('/proc/self/mem', 'r+b', 0) as memory:\n    memory.seek(0)\n    memory.write(b'x')",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "see what the guest is doing in the kernel",
            "read('/proc/1/syscall')",
            {"runc": "EACCES", "runsc": "ENOENT"},
        ),
        Attempt("see the guest's kernel stack", "read('/proc/1/stack')", {"runc": "EACCES", "runsc": "ENOENT"}),
        Attempt(
            "find pages of the host's memory",
            "map = read('/proc/self/pagemap', 8)\nprint(struct.unpack('Q', map)[0] & (1 << 55) - 1)",
            {"runc": "said: 0", "runsc": "ENOENT"},
        ),
        Attempt("submit old asynchronous I/O", "syscall('io_setup', 8, bytes(8))", "EPERM"),
        Attempt("make memory the kernel cannot see", "syscall('memfd_secret', 0)", "EPERM"),
        Attempt(
            "read the attributes of a security module",
            "syscall('lsm_get_self_attr', 100, None, bytes(8), 0)",
            {"runc": "ENOSYS", "runsc": "EPERM"},
        ),
    ),
)
