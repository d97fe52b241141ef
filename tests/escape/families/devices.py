"""Attempts on keyrings, devices, and sockets that are more than a program's own."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

NODES = {
    "the first disk": ("b", 8, 0),
    "a virtual disk": ("b", 254, 0),
    "a loop device": ("b", 7, 0),
    "the machine's memory": ("c", 1, 1),
    "the machine's ports": ("c", 1, 4),
    "the kernel's log": ("c", 1, 11),
    "the loop control": ("c", 10, 237),
    "the virtual machines": ("c", 10, 232),
    "the tunnels": ("c", 10, 200),
    "the file systems of users": ("c", 10, 229),
    "the device mapper": ("c", 10, 236),
    "a zero of one's own": ("c", 1, 5),
}
PATHS = (
    "mem", "kmem", "port", "kmsg", "kvm", "loop-control", "loop0", "sda", "vda", "vda1", "nvme0n1",
    "mapper/control", "snapshot", "hpet", "rtc0", "uinput", "vhost-net", "vsock", "userfaultfd", "watchdog",
    "tty0", "console", "dri", "nvidia0", "cpu/0/msr", "btrfs-control", "autofs",
)  # fmt: skip

TOUCH = "os.utime('/dev/{}')\nprint('touched')"

FAMILY = Family(
    "devices",
    "keyrings, devices, raw sockets",
    (
        *(
            Attempt(
                f"make a node of {name}",
                f"os.mknod('/tmp/node', 0o666 | stat.S_IF{'BLK' if kind == 'b' else 'CHR'}, "
                f"os.makedev({major}, {minor}))",
                "EPERM",
            )
            for name, (kind, major, minor) in NODES.items()
        ),
        Attempt(
            "make a node in the workspace at a directory",
            "syscall('mknodat', os.open('/workspace', 0), b'disk', 0o60666, 0x700)",
            "EPERM",
        ),
        Attempt("make a node in dev", "os.mknod('/dev/disk', 0o60666, 0x700)", "EACCES"),
        Attempt(
            "make a node with a program",
            "mknod /home/user/disk b 7 0",
            "exit 1: mknod: /home/user/disk: Operation not permitted",
            "shell",
        ),
        Attempt(
            "open a whiteout as a device",
            "os.mknod('/tmp/whiteout', 0o20666, 0)\nos.open('/tmp/whiteout', os.O_RDWR)",
            {"runc": "EACCES", "runsc": "EPERM"},
        ),
        Attempt(
            "find devices that are not for all",
            f"print([name for name in {PATHS!r} if os.path.exists('/dev/' + name)])",
            "said: []",
        ),
        Attempt(
            "make a tunnel",
            "tunnel = os.open('/dev/net/tun', os.O_RDWR)\n"
            "fcntl.ioctl(tunnel, 0x400454CA, struct.pack('16sH', b'tun0', 1) + bytes(22))",
            {"runc": "ENOENT", "runsc": "EPERM"},
        ),
        Attempt(
            "serve a file system",
            "server = os.open('/dev/fuse', os.O_RDWR)\n"
            "options = f'fd={server},rootmode=40000,user_id=1000,group_id=1000'\n"
            "syscall('mount', b'fuse', b'/tmp', b'fuse', 0, options.encode())",
            {"runc": "ENOENT", "runsc": "EPERM"},
        ),
        Attempt(
            "find devices elsewhere",
            "print([path for top in ('/dev', '/workspace', '/tmp', '/home', '/run', '/mnt', "
            "'/media', '/var') for path in glob.glob(top + '/**', recursive=True) if "
            "os.path.lexists(path) and stat.S_ISBLK(os.lstat(path).st_mode)])",
            "said: []",
        ),
        Attempt("write to dev", "open('/dev/new', 'w')", "EACCES"),
        Attempt(
            "type into the terminal",
            "import pty\nours, theirs = pty.openpty()\nfcntl.ioctl(theirs, 0x5412, b'x')",
            "EPERM",
        ),
        Attempt(
            "type into the terminal past the low bits",
            "import pty\nours, theirs = pty.openpty()\nsyscall('ioctl', theirs, 0x100005412, b'x')",
            "EPERM",
        ),
        Attempt(
            "paste into the terminal",
            "import pty\nours, theirs = pty.openpty()\nsyscall('ioctl', theirs, 0x541C, b'\\x02')",
            "EPERM",
        ),
        Attempt(
            "steal a terminal",
            "fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x540E, 1)",
            {"runc": "ENXIO", "runsc": "EIO"},
        ),
        Attempt("open the guest's terminal", "os.open('/dev/console', os.O_RDWR)", "ENOENT"),
        Attempt(
            "see terminals of others", "print([name for name in os.listdir('/dev/pts') if name != 'ptmx'])", "said: []"
        ),
        # gVisor's devices are its own.
        Attempt("touch the host's null device", TOUCH.format("null"), {"runc": "EROFS", "runsc": "said: touched"}),
        Attempt("touch the host's random device", TOUCH.format("urandom"), {"runc": "EROFS", "runsc": "said: touched"}),
        Attempt(
            "close the host's null device to others", "os.chmod('/dev/null', 0)", {"runc": "EROFS", "runsc": "EPERM"}
        ),
        Attempt(
            "mark the host's null device",
            "os.setxattr('/dev/null', 'user.mark', MARK.encode())",
            {"runc": "EROFS", "runsc": "EPERM"},
        ),
        Attempt("remove the null device", "os.unlink('/dev/null')", "EACCES"),
        Attempt(
            "say how much chance there is",
            "fcntl.ioctl(os.open('/dev/urandom', os.O_RDWR), 0x40045201, struct.pack('i', 8))",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt(
            "add chance",
            "fcntl.ioctl(os.open('/dev/urandom', os.O_RDWR), 0x40085203, struct.pack('iiq', 64, 8, 0))",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt(
            "take all chance away",
            "fcntl.ioctl(os.open('/dev/random', os.O_RDWR), 0x5206)",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt("add a key", "syscall('add_key', b'user', b'mine', b'x', 1, -3)", "EPERM"),
        Attempt("add a key to root's keyring", "syscall('add_key', b'user', b'mine', b'x', 1, -4)", "EPERM"),
        Attempt("request a key", "syscall('request_key', b'user', b'mine', None, -3)", "EPERM"),
        Attempt("have the host's key program run", "syscall('request_key', b'user', b'mine', b'callout', -3)", "EPERM"),
        Attempt("find the session keyring", "syscall('keyctl', 0, -3, 1)", "EPERM"),
        Attempt("join a session keyring", "syscall('keyctl', 1, b'_ses')", "EPERM"),
        Attempt("describe the user's keyring", "syscall('keyctl', 6, -4, bytes(256), 256)", "EPERM"),
        Attempt(
            "read a key by its number",
            "for number in range(1, 64): syscall('keyctl', 11, number, bytes(256), 256)",
            "EPERM",
        ),
        Attempt(
            "list keys",
            "print(len(read('/proc/keys')), len(read('/proc/key-users')))",
            {"runc": "said: 0 0", "runsc": "ENOENT"},
        ),
        Attempt("open a raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)", "EPERM"),
        Attempt("open a raw socket of version 6", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)", "EPERM"),
        Attempt(
            "ping the host",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\n"
            "one.sendto(b'\\x08' + bytes(7), (host.address, 0))",
            {"runc": "EACCES", "runsc": "EHOSTUNREACH"},
        ),
        Attempt("open a packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)", "EPERM"),
        Attempt(
            "open a packet socket for datagrams", "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300)", "EPERM"
        ),
        Attempt("open a socket of the machine's host", "socket.socket(40, socket.SOCK_STREAM)", "EPERM"),
        Attempt("open a socket of the kernel's ciphers", "socket.socket(38, socket.SOCK_SEQPACKET)", "EPERM"),
        Attempt("open a socket of the key manager", "socket.socket(15, socket.SOCK_RAW, 2)", "EPERM"),
        Attempt("open a Bluetooth socket", "socket.socket(31, socket.SOCK_RAW, 1)", "EPERM"),
        Attempt("open an XDP socket", "socket.socket(44, socket.SOCK_RAW)", "EPERM"),
        Attempt("open a TIPC socket", "socket.socket(30, socket.SOCK_RDM)", "EPERM"),
        Attempt("open an RDS socket", "socket.socket(21, socket.SOCK_SEQPACKET)", "EPERM"),
        Attempt("open an SMC socket", "socket.socket(43, socket.SOCK_STREAM)", "EPERM"),
        Attempt("open an X.25 socket", "socket.socket(9, socket.SOCK_SEQPACKET)", "EPERM"),
        *(
            Attempt(
                f"open a netlink socket of {name}",
                f"socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, {number})",
                "EPERM",
            )
            for name, number in {
                "the audit": 9,
                "the firewall": 12,
                "udev": 15,
                "SELinux": 7,
                "xfrm": 6,
                "the connector": 11,
                "generic": 16,
                "the ciphers": 21,
                "sock_diag": 4,
            }.items()
        ),
        Attempt("pair sockets of another kind", "socket.socketpair(socket.AF_NETLINK, socket.SOCK_RAW)", "ENOTSUP"),
        Attempt("open a netlink socket past the low bits", "syscall('socket', 16, 3, 0x100000009)", "EPERM"),
        Attempt(
            "bring up an interface",
            "one = socket.socket()\nfcntl.ioctl(one, 0x8914, struct.pack('16sH', b'lo', 0) + bytes(22))",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt(
            "add an address",
            "one = socket.socket()\n"
            "fcntl.ioctl(one, 0x8916, struct.pack('16sH2s4s', b'lo', 2, b'', bytes([10, 0, 0, 1])) + "
            "bytes(16))",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt(
            "add an interface",
            "one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n"
            "one.send(struct.pack('IHHII', 36, 16, 0x605, 1, 0) + struct.pack('BxHiII', 0, 0, 0, 0, "
            "0) + b'\\x04\\x00\\x12\\x00')\n"
            "raise OSError(-struct.unpack('i', one.recv(4096)[16:20])[0], '')",
            {"runc": "EPERM", "runsc": "EACCES"},
        ),
        Attempt(
            "make a firewall",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\none.getsockopt(0, 64, 84)",
            {"runc": "EPERM", "runsc": "ENOPROTOOPT"},
        ),
        Attempt(
            "bind to an interface by name",
            "one = socket.socket()\n"
            "one.setsockopt(socket.SOL_SOCKET, 25, b'lo')\n"
            "one.setsockopt(socket.SOL_SOCKET, 25, b'eth0')",
            "ENODEV",
        ),
        Attempt(
            "send from somebody else's address",
            "one = socket.socket()\none.setsockopt(0, 19, 1)\none.bind(('192.0.2.1', 9))",
            {"runc": "EPERM", "runsc": "EADDRNOTAVAIL"},
        ),
        Attempt(
            "claim to be another process on a socket",
            "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            "ours.sendmsg([b'x'], [(socket.SOL_SOCKET, 2, struct.pack('3i', 1, 0, 0))])",
            "EPERM",
        ),
    ),
)
