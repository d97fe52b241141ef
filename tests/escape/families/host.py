"""Attempts to reach the host's files, environment, processes, sockets and the service's own things."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

WORDS = (
    "SANDCELL", "AWS_SECRET", "AWS_SESSION", "TOKEN", "DATABASE", "PASSWORD", "SSH_", "KUBERNETES",
    "PIP_INDEX", "VIRTUAL_ENV", "SUDO", "XDG_CONFIG",
)  # fmt: skip
FOUND = (
    f"print(sorted(name for name, value in os.environ.items() if any(word in name for word in {WORDS!r})"
    " and value != 'http://127.0.0.1:3130/simple/'))"  # the guest's own package index, which has no secret
)
SECRET_FILES = (
    "/root/.ssh", "/root/.aws", "/root/.netrc", "/root/.docker", "/home/user/.aws", "/home/user/.ssh",
    "/etc/shadow-host", "/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
    "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
    "/var/run/secrets/kubernetes.io", "/.dockerenv", "/var/lib/sandcell", "/run/secrets", "/etc/kubernetes",
    "/host", "/hostfs", "/mnt/host",
)  # fmt: skip

FAMILY = Family(
    "host",
    "host files and environment",
    (
        Attempt("read a file of the host", "read(host.file)", "ENOENT"),
        Attempt("write a file of the host", "write(host.file, MARK)", "ENOENT"),
        Attempt(
            "read a file of the host through a link",
            "os.symlink(host.file, '/workspace/link')\n"
            "try: read('/workspace/link')\n"
            "finally: os.unlink('/workspace/link')",
            "ENOENT",
        ),
        Attempt("read a file of the host from above the root", "read('/../../../../../..' + host.file)", "ENOENT"),
        Attempt(
            "read a file of the host from above the workspace",
            "read('/workspace/../../../../..' + host.file)",
            "ENOENT",
        ),
        Attempt("read a file of the host through one's own root", "read('/proc/self/root/..' + host.file)", "ENOENT"),
        Attempt("read a file of the host through the guest's root", "read('/proc/1/root' + host.file)", "EACCES"),
        Attempt(
            "read a file of the host through the guest's directory", "read('/proc/1/cwd/..' + host.file)", "EACCES"
        ),
        Attempt(
            "read a file of the host through a process of the host",
            "read(f'/proc/{host.pid}/root{host.file}')",
            "ENOENT",
        ),
        Attempt("link a file of the host into the workspace", "os.link(host.file, '/workspace/hard')", "ENOENT"),
        Attempt("list the service's data", "os.listdir(host.data_dir)", "ENOENT"),
        Attempt("read the service's database", "read(host.data_dir + '/state/sandcell.db')", "ENOENT"),
        Attempt("read the store", "os.listdir(host.data_dir + '/store')", "ENOENT"),
        Attempt(
            "find databases and keys",
            "print([path for top in ('/run', '/var', '/opt', '/srv', '/mnt', '/root', '/etc') for "
            "path in glob.glob(top + '/**', recursive=True) if path.endswith(('sandcell.db', "
            "'.sqlite', '.toml', 'id_rsa', 'id_ed25519', '.pem.key', 'storage.img', 'sandbox.json', "
            "'config.json'))])",
            "said: []",
        ),
        Attempt(
            "find places where secrets lie",
            f"print([path for path in {SECRET_FILES!r} if os.path.exists(path)])",
            "said: []",
        ),
        Attempt("list the files of root", "os.listdir('/root')", "EACCES"),
        Attempt("read the shadow file", "read('/etc/shadow')", "EACCES"),
        Attempt(
            "see the image's directory by its mounts",
            "print([line.split()[4] for line in open('/proc/self/mountinfo') if host.environments in line])",
            "said: []",
        ),
        Attempt(
            "find secrets in the environment",
            FOUND,
            "said: []",
        ),
        Attempt(
            "find secrets in the kernel's environment",
            f"import os\n{FOUND}",
            "said: []",
            "kernel",
        ),
        Attempt(
            "find the service's token in any process",
            "print(any(b'test-token' in open(path, 'rb').read() for path in "
            "glob.glob('/proc/[0-9]*/environ') if os.access(path, os.R_OK)))",
            "said: False",
        ),
        Attempt(
            "read the guest's environment",
            "print(sorted(line.split(b'=')[0].decode() for line in read('/proc/1/environ').split(b'\\0') if line))",
            # gVisor shows it; there is nothing in it.
            {"runc": "EACCES", "runsc": "said: ['HOME', 'LANG', 'PATH']"},
        ),
        Attempt(
            "find the host's name",
            "print([path for path in ('/proc/sys/kernel/hostname', '/etc/hostname', '/etc/hosts', "
            "'/etc/mailname') if os.path.exists(path) and host.hostname in "
            "open(path).read().split()], socket.gethostname() == host.hostname)",
            "said: [] False",
        ),
        Attempt(
            "find the host's name servers",
            "print([line for line in open('/etc/resolv.conf') if line.strip()] if "
            "os.path.exists('/etc/resolv.conf') else [])",
            "said: []",
        ),
        Attempt(
            "find the repository on the path",
            "print([path for path in sys.path if path and not path.startswith(('/usr', "
            "'/opt/environment', '/home/user', '/workspace'))])",
            "said: []",
        ),
        Attempt("import the service", "import kernel_gateway", "ModuleNotFoundError: No module named 'kernel_gateway'"),
        Attempt(
            "write anywhere in the image",
            "find / -xdev -maxdepth 4 ! -type l -writable ! -path '/proc/*' 2>/dev/null | sort | tr '\\n' ' '",
            "said: /home/user /tmp /workspace",
            "shell",
        ),
        Attempt(
            "write to the guest's code",
            "open('/opt/sandcell/guest/__main__.py', 'a')",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "make a file beside the guest's code",
            "open('/opt/sandcell/guest/extra.py', 'w')",
            {"runc": "EROFS", "runsc": "EACCES"},
        ),
        Attempt(
            "make the guest's code writable",
            "os.chmod('/opt/sandcell/guest/__main__.py', 0o666)",
            {"runc": "EROFS", "runsc": "EPERM"},
        ),
        Attempt("write to the interpreter", "open('/usr/bin/python3', 'r+b')", {"runc": "EROFS", "runsc": "EACCES"}),
        Attempt(
            "map the interpreter for writing",
            "libc.mmap.restype = ctypes.c_long\n"
            "one = os.open('/usr/bin/python3', os.O_RDONLY)\n"
            "if libc.mmap(None, 4096, 3, 1, one, ctypes.c_long(0)) == -1: raise "
            "OSError(ctypes.get_errno(), '')",
            "EACCES",
        ),
        Attempt("remove the workspace itself", "os.rmdir('/workspace')", {"runc": "EROFS", "runsc": "EACCES"}),
        Attempt("put something in the workspace's place", "os.rename('/workspace', '/tmp/w')", "EXDEV"),
        Attempt(
            "write to the page cache through a pipe",
            "before = read('/etc/passwd')\n"
            "whole = os.open('/etc/passwd', os.O_RDONLY)\n"
            "ends = os.pipe()\n"
            "size = fcntl.fcntl(ends[1], 1032)\n"
            "for _ in range(size // 4096): os.write(ends[1], bytes(4096))\n"
            "for _ in range(size // 4096): os.read(ends[0], 4096)\n"
            "os.splice(whole, ends[1], 1, offset_src=4) if hasattr(os, 'splice') else syscall(275, "
            "whole, struct.pack('q', 4), ends[1], None, 1, 0)\n"
            "os.write(ends[1], b'x' * 8)\n"
            "print(read('/etc/passwd') == before)",
            "said: True",
        ),
        Attempt(
            "lease a file of the image",
            "fcntl.fcntl(os.open('/etc/passwd', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
            {"runc": "EACCES", "runsc": "EINVAL"},
        ),
        Attempt("signal a process of the host", "os.kill(host.pid, 9)", "ESRCH"),
        Attempt("signal the service", "os.kill(host.service_pid, 15)", "ESRCH"),
        Attempt(
            "open a descriptor of a process of the host",
            "syscall('pidfd_open', host.pid, 0)",
            {"runc": "ESRCH", "runsc": "ENOSYS"},
        ),
        Attempt(
            "have a process of the host signalled by a socket",
            "one = socket.socket()\nfcntl.fcntl(one, fcntl.F_SETOWN, host.pid)",
            "ESRCH",
        ),
        Attempt("renice a process of the host", "os.setpriority(os.PRIO_PROCESS, host.pid, 19)", "ESRCH"),
        Attempt("limit a process of the host", "resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (4, 4))", "ESRCH"),
        Attempt(
            "connect to the service", "socket.create_connection(('127.0.0.1', host.service_port), 3)", "ECONNREFUSED"
        ),
        Attempt(
            "connect to a port of the host", "socket.create_connection(('127.0.0.1', host.port), 3)", "ECONNREFUSED"
        ),
        Attempt(
            "connect to a port of the host by its address",
            "socket.create_connection((host.address, host.port), 3)",
            {"runc": "ENETUNREACH", "runsc": "EHOSTUNREACH"},
        ),
        Attempt(
            "connect to a port of the host by version 6",
            "socket.create_connection(('::1', host.port), 3)",
            "ECONNREFUSED",
        ),
        Attempt(
            "connect to an abstract socket of the host",
            "socket.socket(socket.AF_UNIX).connect('\\0' + host.abstract)",
            "ECONNREFUSED",
        ),
        Attempt(
            "take the place of an abstract socket of the host",
            "one = socket.socket(socket.AF_UNIX)\n"
            "one.bind('\\0' + host.abstract)\n"
            "one.listen()\n"
            "one.settimeout(0.3)\n"
            "one.accept()",
            "TimeoutError",
        ),
        Attempt(
            "list what the service put beside the sockets",
            "print(sorted(os.listdir('/run/sandcell')))",
            "said: ['egress', 'guest', 'kernel']",
        ),
        Attempt("list the guest's sockets", "os.listdir('/run/sandcell/guest')", "EACCES"),
        Attempt("list the ways out", "os.listdir('/run/sandcell/egress')", "EACCES"),
        Attempt("put a file beside the sockets", "open('/run/sandcell/new', 'w')", "EACCES"),
        Attempt(
            "see the host's users",
            "print([line.split(':')[0] for line in open('/etc/passwd') if int(line.split(':')[2]) >= "
            "1000 and line.split(':')[0] != 'nobody'])",
            "said: ['user']",
        ),
        Attempt(
            "see the host's mounts",
            "print([line.split(' - ')[1].split()[0] for line in open('/proc/self/mountinfo') if "
            "line.split(' - ')[1].split()[0] in ('nfs', 'cifs', 'virtiofs', 'fuse', 'xfs', 'btrfs', "
            "'zfs')])",
            "said: []",
        ),
    ),
)
