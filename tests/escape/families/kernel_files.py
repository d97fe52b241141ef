"""Attempts on the files by which a kernel is read and steered: /proc, /sys, control groups."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

SETTINGS = {
    "the core pattern": "kernel/core_pattern",
    "the program that loads modules": "kernel/modprobe",
    "the magic keys": "kernel/sysrq",
    "the limit of pids": "kernel/pid_max",
    "the next pid": "kernel/ns_last_pid",
    "the host's name": "kernel/hostname",
    "the use of memory": "vm/overcommit_memory",
    "the caches": "vm/drop_caches",
    "the cores of setuid programs": "fs/suid_dumpable",
    "the protection of links": "fs/protected_symlinks",
    "forwarding": "net/ipv4/ip_forward",
    "the ports of all": "net/ipv4/ip_unprivileged_port_start",
    "the pings of all": "net/ipv4/ping_group_range",
    "shared memory": "kernel/shmmax",
    "user namespaces": "user/max_user_namespaces",
}
GVISOR_HAS = ("kernel/hostname", "vm/overcommit_memory", "net/ipv4/ip_forward", "kernel/shmmax")
"""Settings that gVisor has; it lacks the others."""
MASKED = (
    "kcore", "kallsyms", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "slabinfo", "modules",
    "config.gz", "vmallocinfo", "pagetypeinfo", "interrupts", "mtrr", "latency_stats", "sysrq-trigger",
)  # fmt: skip
OF_THE_GUEST = {
    "mem": "EACCES",
    "environ": "open",
    "maps": "open",
    "root/etc/passwd": "EACCES",
    "cwd/etc/passwd": "EACCES",
    "fd/3": "ENXIO",
    "auxv": "open",
    "io": "EACCES",
    "pagemap": "ENOENT",
    "clear_refs": "ENOENT",
    "map_files": "ENOENT",
    "personality": "ENOENT",
    "task/1/mem": "EACCES",
    "ns/pid_for_children": "ENOENT",
    "exe": "EACCES",
}
"""Files of PID 1, and what gVisor answers: some it lacks, some it opens for all (see what is in them in `host`)."""


LOOK = "print([{what} for top in {tops!r} for path in glob.glob(top + '/**', recursive=True) if {test}])"

FAMILY = Family(
    "kernel_files",
    "/proc, /sys, cgroup files, release_agent, core_pattern, sysrq, kcore",
    (
        *(
            Attempt(
                f"write {name}",
                f"write_setting('{path}', '0')",
                {"runc": "EROFS", "runsc": "EACCES" if path in GVISOR_HAS else "EROFS"},
            )
            for name, path in SETTINGS.items()
        ),
        Attempt(
            "write the core pattern through the root of a process",
            "write('/proc/self/root/proc/sys/kernel/core_pattern', '|/tmp/x')",
            {"runc": "EROFS", "runsc": "ENOENT"},
        ),
        Attempt(
            "write the core pattern through a descriptor",
            "path = os.open('/proc/sys/kernel/core_pattern', os.O_PATH)\nwrite(f'/proc/self/fd/{path}', '|/tmp/x')",
            {"runc": "EROFS", "runsc": "ENOENT"},
        ),
        Attempt(
            "make the core pattern writable",
            "os.chmod('/proc/sys/kernel/core_pattern', 0o666)",
            {"runc": "EROFS", "runsc": "ENOENT"},
        ),
        Attempt(
            "read files of the kernel that are masked",
            f"print([name for name in {MASKED!r} if os.path.exists('/proc/' + name) and read('/proc/' + name)])",
            "said: []",
            newer="EACCES",
        ),
        Attempt(
            "read how the host was started",
            "print(host.cmdline.strip() in read('/proc/cmdline').decode() and bool(host.cmdline.strip()))",
            "said: False",
        ),
        Attempt(
            "list directories of the kernel that are masked",
            "print([name for name in ('acpi', 'asound', 'bus', 'driver', 'fs', 'irq', 'scsi', 'tty', "
            "'timer_stats') if os.path.isdir('/proc/' + name) and os.listdir('/proc/' + name)])",
            "said: []",
        ),
        Attempt(
            "press the magic keys",
            "path = '/proc/sysrq-trigger'\n"
            "print(not os.path.exists(path) or os.stat(path).st_rdev == "
            "os.stat('/dev/null').st_rdev)\n"
            "if os.path.exists(path): write(path, 'h')",
            "said: True",
            newer="EACCES",
        ),
        Attempt(
            "read the memory of the kernel",
            "print(os.path.exists('/proc/kcore') and (os.stat('/proc/kcore').st_rdev != "
            "os.stat('/dev/null').st_rdev or len(read('/proc/kcore'))))",
            "said: False",
        ),
        Attempt("count the uses of pages", "read('/proc/kpagecount')", {"runc": "EACCES", "runsc": "ENOENT"}),
        Attempt("see the flags of pages", "read('/proc/kpageflags')", {"runc": "EACCES", "runsc": "ENOENT"}),
        Attempt("see whose pages are whose", "read('/proc/kpagecgroup')", {"runc": "EACCES", "runsc": "ENOENT"}),
        Attempt(
            "register a kind of program", "write('/proc/sys/fs/binfmt_misc/register', ':x:M::MZ::/tmp/x:')", "ENOENT"
        ),
        Attempt(
            "debug the kernel",
            "print(os.path.exists('/sys/kernel/debug'), os.path.exists('/proc/dynamic_debug'))",
            "said: False False",
        ),
        Attempt(
            "read where the kernel's memory lies",
            "print({line.split()[0] for line in open('/proc/iomem')} - {'00000000-00000000'})",
            {"runc": "said: set()", "runsc": "ENOENT"},
        ),
        *(
            Attempt(
                f"reach {name} of the guest",
                f"os.open('/proc/1/{name}', os.O_RDONLY)\nprint('open')",
                {"runc": "EACCES", "runsc": f"said: {answer}" if answer == "open" else answer},
            )
            for name, answer in OF_THE_GUEST.items()
        ),
        Attempt("write where the guest writes", "os.open('/proc/1/fd/1', os.O_WRONLY)", "EACCES"),
        Attempt("see where the guest's program lies", "os.readlink('/proc/1/exe')", "EACCES"),
        Attempt(
            "reach the root through a thread of the guest",
            "os.open('/proc/1/task/1/root/etc/passwd', os.O_RDONLY)",
            "EACCES",
        ),
        Attempt(
            "see processes beyond one's own",
            "mine = {1, os.getpid()}\n"
            "uids = set()\n"
            "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: uids.add(os.stat(f'/proc/{pid}').st_uid)\n"
            "    except FileNotFoundError: pass\n"
            "print(sorted(uids - {os.getuid()}), max(int(pid) for pid in os.listdir('/proc') if pid.isdigit()) < "
            "5000)",
            "said: [0] True",
        ),
        Attempt("see more of the hidden processes", "os.stat(f'/proc/{host.pid}')", "ENOENT"),
        Attempt(
            "write over the program one runs",
            "os.open('/proc/self/exe', os.O_WRONLY)",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "write over a program through its descriptor",
            "path = os.open('/bin/sh', os.O_PATH)\nos.open(f'/proc/self/fd/{path}', os.O_RDWR)",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "wait for a program to end and write over it",
            "child = subprocess.Popen(['/bin/sleep', '0.2'])\n"
            "path = os.open(f'/proc/{child.pid}/exe', os.O_PATH)\n"
            "child.wait()\n"
            "os.open(f'/proc/self/fd/{path}', os.O_RDWR)",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "swap a link between look and use",
            "os.symlink('/workspace', '/tmp/swapped')\n"
            "os.unlink('/tmp/swapped')\n"
            "os.symlink('/proc/1/root', '/tmp/swapped')\n"
            "try: os.listdir('/tmp/swapped/')\n"
            "finally: os.unlink('/tmp/swapped')",
            "EACCES",
        ),
        Attempt(
            "hold a directory while it is moved out of the workspace",
            "os.makedirs('/workspace/a/b', exist_ok=True)\n"
            "held = os.open('/workspace/a/b', 0)\n"
            "os.rename('/workspace/a/b', '/tmp/b')",
            "EXDEV",
        ),
        Attempt(
            "open files that others left open",
            "print(sorted({os.readlink(f'/proc/self/fd/{name}') for name in "
            "os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{name}') and not "
            "os.readlink(f'/proc/self/fd/{name}').startswith(('pipe:', 'socket:', 'anon_inode:', "
            "'/memfd:', '/proc/', '/home/user/', '/dev/null', '/tmp/'))}))",
            "said: []",
            "kernel",
        ),
        Attempt(
            "see the control groups of the host",
            "print({line.split(':')[2].strip() for line in open('/proc/self/cgroup')})",
            {"runc": "said: {'/'}", "runsc": "said: set()"},
            newer="said: {'/'}",
        ),
        Attempt(
            "see control groups of others",
            "print([line for line in open('/proc/self/mountinfo') if 'cgroup' in line], "
            "os.path.exists('/sys/fs/cgroup'))",
            "said: [] False",
        ),
        Attempt("leave the control group", "write('/sys/fs/cgroup/cgroup.procs', '0')", "ENOENT"),
        Attempt("raise the memory limit", "write('/sys/fs/cgroup/memory/memory.limit_in_bytes', '-1')", "ENOENT"),
        Attempt("raise the memory limit of the unified groups", "write('/sys/fs/cgroup/memory.max', 'max')", "ENOENT"),
        Attempt("set a release agent", "write('/sys/fs/cgroup/rdma/release_agent', '/tmp/x')", "ENOENT"),
        Attempt(
            "find a release agent",
            LOOK.format(
                what="path",
                tops=["/sys", "/tmp", "/workspace", "/mnt"],
                test="path.endswith(('release_agent', 'notify_on_release', 'cgroup.procs'))",
            ),
            "said: []",
        ),
        Attempt(
            "find anything in sys",
            "print(os.listdir('/sys'), {name for _, _, files in os.walk('/sys') for name in files} "
            "<= {'online', 'possible', 'present', 'kernel_max'})",
            "said: ['devices'] True",
        ),
        Attempt(
            "read the firmware",
            "print(os.path.exists('/sys/firmware'), os.path.exists('/proc/acpi/dsdt'))",
            "said: False False",
        ),
        Attempt("write to sys", "os.mkdir('/sys/x')", "EROFS"),
        Attempt(
            "have one's audit id another's", "write('/proc/self/loginuid', '0')", {"runc": "EROFS", "runsc": "ENOENT"}
        ),
        Attempt(
            "take another security label",
            "write('/proc/self/attr/exec', 'unconfined')",
            {"runc": "EROFS", "runsc": "ENOENT"},
        ),
        Attempt(
            "see more of the pages than allowed",
            "write('/proc/self/clear_refs', '1')",
            {"runc": "EROFS", "runsc": "ENOENT"},
        ),
        Attempt(
            "see sockets of the host",
            "print([name for name in (host.abstract, 'docker.sock', 'podman.sock', 'containerd', "
            "'systemd', 'dbus') if name in open('/proc/net/unix').read()])",
            "said: []",
        ),
        Attempt(
            "see connections of the host",
            "wanted = {f'{port:04X}' for port in (host.port, host.service_port)}\n"
            "print([line for line in open('/proc/net/tcp') if line.split()[1][-4:] in wanted])",
            "said: []",
        ),
        Attempt(
            "see interfaces of the host",
            "print([line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line])",
            "said: ['lo']",
        ),
        Attempt(
            "see routes of the host",
            "print(open('/proc/net/route').read().splitlines()[1:], open('/proc/net/arp').read().splitlines()[1:])",
            "said: [] []",
        ),
    ),
)
