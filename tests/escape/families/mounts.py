"""Attempts to change what is mounted where, to make namespaces, or to join somebody's."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

NAMESPACES = {
    "time": 0x80,
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
FILES = {"time": "time", "mount": "mnt", "cgroup": "cgroup", "uts": "uts", "ipc": "ipc", "user": "user", "pid": "pid",
         "network": "net"}  # fmt: skip

FAMILY = Family(
    "mounts",
    "mount, unshare, setns, pivot_root, chroot",
    (
        Attempt("mount a tmpfs", "syscall('mount', b'none', b'/tmp', b'tmpfs', 0, None)", "EPERM"),
        Attempt("mount proc", "syscall('mount', b'proc', b'/tmp', b'proc', 0, None)", "EPERM"),
        Attempt("mount sysfs", "syscall('mount', b'sysfs', b'/sys', b'sysfs', 0, None)", "EPERM"),
        Attempt("mount the cgroups", "syscall('mount', b'cgroup', b'/tmp', b'cgroup', 0, b'memory')", "EPERM"),
        Attempt("mount the unified cgroups", "syscall('mount', b'cgroup2', b'/tmp', b'cgroup2', 0, None)", "EPERM"),
        Attempt("mount an overlay", "syscall('mount', b'o', b'/tmp', b'overlay', 0, b'lowerdir=/:/etc')", "EPERM"),
        Attempt("bind the root into the workspace", "syscall('mount', b'/', b'/workspace', None, 4096, None)", "EPERM"),
        Attempt("make the root writable", "syscall('mount', None, b'/', None, 32 | 4096, None)", "EPERM"),
        Attempt("share one's mounts", "syscall('mount', None, b'/', None, 1 << 20 | 16384, None)", "EPERM"),
        Attempt(
            "mount the disk",
            "mount /dev/vda1 /tmp 2>&1 | head -1",
            {
                "runc": "said: mount: /tmp: must be superuser to use mount.",
                "runsc": "said: mount: /tmp: no filesystem type specified.",
            },
            "shell",
        ),
        Attempt("unmount what masks a file", "syscall('umount2', b'/proc/kcore', 2)", "EPERM"),
        Attempt(
            "unmount the guest's sockets",
            "umount /run/sandcell",
            "exit 32: umount: /run/sandcell: must be superuser to unmount.",
            "shell",
        ),
        Attempt("open a file system", "syscall('fsopen', b'tmpfs', 0)", "EPERM"),
        Attempt("configure a file system", "syscall('fsconfig', 0, 6, None, None, 0)", "EPERM"),
        Attempt("mount an opened file system", "syscall('fsmount', 0, 0, 0)", "EPERM"),
        Attempt("pick a file system", "syscall('fspick', AT_FDCWD, b'/', 0)", "EPERM"),
        Attempt("copy a tree of mounts", "syscall('open_tree', AT_FDCWD, b'/', 1)", "EPERM"),
        Attempt(
            "copy a tree of mounts with attributes",
            "syscall('open_tree_attr', AT_FDCWD, b'/', 1, None, 0)",
            {"runc": "ENOSYS", "runsc": "EPERM"},
        ),
        Attempt("move a mount", "syscall('move_mount', AT_FDCWD, b'/tmp', AT_FDCWD, b'/workspace', 0)", "EPERM"),
        Attempt(
            "change a mount's attributes",
            "syscall('mount_setattr', AT_FDCWD, b'/', 0, struct.pack('4Q', 0, 1, 0, 0), 32)",
            "EPERM",
        ),
        Attempt(
            "list mounts by the new calls",
            "syscall('listmount', bytes(24), bytes(800), 100, 0)",
            {"runc": "ENOSYS", "runsc": "EPERM"},
        ),
        Attempt(
            "ask about a mount by the new calls",
            "syscall('statmount', bytes(24), bytes(800), 800, 0)",
            {"runc": "ENOSYS", "runsc": "EPERM"},
        ),
        Attempt("pivot the root", "syscall('pivot_root', b'/tmp', b'/tmp')", "EPERM"),
        Attempt("change the root", "os.chroot('/tmp')", "EPERM"),
        Attempt(
            "climb out of a changed root",
            "root = os.open('/', 0)\nos.chroot('/tmp')\nos.fchdir(root)\nos.chdir('../../..')",
            "EPERM",
        ),
        Attempt(
            "climb above the root",
            "os.chdir('/' + '../' * 64)\nprint(os.stat('.').st_ino == os.stat('/').st_ino)",
            "said: True",
        ),
        *(
            Attempt(f"unshare a {kind} namespace", f"syscall('unshare', {flag:#x})", "EPERM")
            for kind, flag in NAMESPACES.items()
        ),
        Attempt("unshare every namespace", "syscall('unshare', 0x7e020080)", "EPERM"),
        Attempt(
            "unshare a user namespace with a program",
            "unshare --user --map-root-user id",
            "exit 1: unshare: unshare failed: Operation not permitted",
            "shell",
        ),
        *(
            Attempt(f"clone into a {kind} namespace", f"syscall('clone', {flag | 17:#x}, 0, 0, 0, 0)", "EPERM")
            for kind, flag in NAMESPACES.items()
            if kind != "time"
        ),
        Attempt(
            "clone into a user namespace by clone3",
            "syscall('clone3', struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)",
            "ENOSYS",
        ),
        Attempt(
            "clone into a cgroup by clone3",
            "syscall('clone3', struct.pack('11Q', 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, os.open('/', 0)), 88)",
            "ENOSYS",
        ),
        *(
            Attempt(
                f"join the {kind} namespace of the guest",
                f"syscall('setns', os.open('/proc/1/ns/{file}', 0), 0)",
                # gVisor had but three of them.
                {"runc": "EACCES", "runsc": "EPERM" if kind in ("user", "pid", "network") else "ENOENT"},
                newer="EPERM",
            )
            for kind, file in FILES.items()
        ),
        Attempt("join one's own network namespace", "syscall('setns', os.open('/proc/self/ns/net', 0), 0)", "EPERM"),
        Attempt(
            "join all namespaces of the guest",
            "syscall('setns', syscall('pidfd_open', 1, 0), 0x7e020080)",
            {"runc": "EPERM", "runsc": "ENOSYS"},
        ),
        Attempt(
            "join a namespace with a program",
            "nsenter --target 1 --mount --pid id",
            {
                "runc": "exit 1: nsenter: cannot open /proc/1/ns/pid: Permission denied",
                "runsc": "exit 1: nsenter: cannot open /proc/1/ns/mnt: No such file or directory",
            },
            "shell",
            newer="exit 1: nsenter: reassociate to namespace 'ns/pid' failed: Operation not permitted",
        ),
        Attempt(
            "find the parent of the user namespace",
            "fcntl.ioctl(os.open('/proc/self/ns/user', 0), 0xb701)",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt("write a map of users", "write('/proc/self/uid_map', '0 1000 1')", "EROFS"),
        Attempt("write a map of groups", "write('/proc/self/gid_map', '0 1000 1')", "EROFS"),
        Attempt(
            "allow groups to be set", "write('/proc/self/setgroups', 'allow')", {"runc": "EROFS", "runsc": "ENOENT"}
        ),
    ),
)
