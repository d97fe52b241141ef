"""Attempts on another principal's session beside: its files, sockets, processes, memory, signals, ids."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

FAMILY = Family(
    "neighbours",
    "other sessions' files, sockets, processes, memory, signals",
    (
        Attempt(
            "read the neighbour's workspace beside one's own",
            "read(f'/workspace/../{neighbour.session_id}/workspace/secret')",
            "ENOENT",
        ),
        Attempt(
            "read the neighbour's workspace in the service's data",
            "read(f'{host.data_dir}/sandboxes/{neighbour.session_id}/storage/workspace/secret')",
            "ENOENT",
        ),
        Attempt(
            "read the neighbour's workspace in the store",
            "read(f'{host.data_dir}/store/workspaces/{neighbour.workspace_id}/workspace/secret')",
            "ENOENT",
        ),
        Attempt("read the neighbour's home", "read('/home/user/secret')", "ENOENT"),
        Attempt("read the neighbour's temporary files", "read('/tmp/secret')", "ENOENT"),
        Attempt("read the neighbour's shared memory as a file", "read('/dev/shm/secret')", "ENOENT"),
        Attempt(
            "read the neighbour's files through a process",
            "for pid in neighbour.host_pids: read(f'/proc/{pid}/root/workspace/secret')",
            "ENOENT",
        ),
        Attempt("open the neighbour's shared memory by its key", "syscall('shmget', neighbour.key, 0, 0)", "ENOENT"),
        Attempt(
            "open anybody's shared memory by its number",
            "found = []\n"
            "for number in range(4096):\n"
            "    try: syscall('shmat', number, None, 0o10000)\n"
            "    except OSError: continue\n"
            "    found.append(number)\n"
            "print(found)",
            "said: []",
        ),
        Attempt(
            "list shared memory",
            "print(len(open('/proc/sysvipc/shm').read().splitlines()))",
            {"runc": "said: 1", "runsc": "ENOENT"},
        ),
        Attempt("open the neighbour's semaphores", "syscall('semget', neighbour.key, 0, 0)", "ENOENT"),
        Attempt("open the neighbour's messages", "syscall('msgget', neighbour.key, 0)", "ENOENT"),
        Attempt("open the neighbour's queue", "syscall('mq_open', b'neighbour', 0, 0, None)", "ENOENT"),
        Attempt(
            "connect to the neighbour's abstract socket",
            "socket.socket(socket.AF_UNIX).connect('\\0' + neighbour.abstract)",
            "ECONNREFUSED",
        ),
        Attempt("connect to the neighbour's socket", "socket.socket(socket.AF_UNIX).connect(neighbour.path)", "ENOENT"),
        Attempt(
            "connect to the neighbour's port",
            "socket.create_connection(('127.0.0.1', neighbour.port), 3)",
            "ECONNREFUSED",
        ),
        Attempt(
            "call for the neighbour on the loopback",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "one.settimeout(0.3)\n"
            "one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
            "one.sendto(b'x', ('127.255.255.255', 5556))\n"
            "one.recv(10)",
            "TimeoutError",
        ),
        Attempt(
            "take the neighbour's port",
            "one = socket.create_server(('127.0.0.1', neighbour.port))\none.settimeout(0.3)\none.accept()",
            "TimeoutError",
        ),
        Attempt("signal the neighbour's processes", "for pid in neighbour.host_pids: os.kill(pid, 9)", "ESRCH"),
        Attempt("signal the neighbour's group", "for pid in neighbour.host_pids: os.killpg(pid, 9)", "ESRCH"),
        Attempt(
            "queue a signal for the neighbour",
            "for pid in neighbour.host_pids: syscall(129, pid, 10, struct.pack('3i', 10, 0, -1) + bytes(116))",
            "ESRCH",
        ),
        Attempt("signal a thread of the neighbour", "for pid in neighbour.host_pids: syscall(200, pid, 9)", "ESRCH"),
        Attempt(
            "hold the neighbour's process",
            "for pid in neighbour.host_pids: syscall('pidfd_open', pid, 0)",
            {"runc": "ESRCH", "runsc": "ENOSYS"},
        ),
        Attempt("trace the neighbour", "for pid in neighbour.host_pids: syscall('ptrace', 16, pid, 0, 0)", "EPERM"),
        Attempt(
            "read the neighbour's memory",
            "for pid in neighbour.host_pids: syscall('process_vm_readv', pid, bytes(16), 1, bytes(16), 1, 0)",
            "EPERM",
        ),
        Attempt(
            "renice the neighbour", "for pid in neighbour.host_pids: os.setpriority(os.PRIO_PROCESS, pid, 19)", "ESRCH"
        ),
        Attempt(
            "renice all of the user's processes",
            "os.setpriority(os.PRIO_USER, os.getuid(), 19)\nprint(os.getpriority(os.PRIO_PROCESS, 0))",
            "said: 19",
        ),
        Attempt(
            "put the neighbour on one processor",
            "for pid in neighbour.host_pids: os.sched_setaffinity(pid, {0})",
            "ESRCH",
        ),
        Attempt(
            "see how the neighbour is scheduled", "for pid in neighbour.host_pids: os.sched_getscheduler(pid)", "ESRCH"
        ),
        Attempt("see the neighbour's session", "for pid in neighbour.host_pids: os.getsid(pid)", "ESRCH"),
        Attempt(
            "limit the neighbour",
            "for pid in neighbour.host_pids: resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, 4))",
            "ESRCH",
        ),
        Attempt(
            "find the neighbour among processes",
            "print([path for path in glob.glob('/proc/[0-9]*/cmdline') if b'10000' in open(path, 'rb').read()])",
            "said: []",
        ),
        Attempt(
            "become the neighbour's user",
            "os.setresuid(neighbour.uid, neighbour.uid, neighbour.uid)",
            {"runc": "EINVAL", "runsc": "EPERM"},
        ),
        Attempt(
            "give a file to the neighbour",
            "open('/tmp/gift', 'w').close()\nos.chown('/tmp/gift', neighbour.uid, -1)",
            {"runc": "EINVAL", "runsc": "EPERM"},
        ),
        Attempt(
            "send credentials of the neighbour",
            "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            "ours.sendmsg([b'x'], [(socket.SOL_SOCKET, 2, struct.pack('iII', os.getpid(), "
            "neighbour.uid, neighbour.uid))])",
            {"runc": "EINVAL", "runsc": "EPERM"},
        ),
        Attempt(
            "watch what the neighbour opens in the image",
            "watch = libc.inotify_init1(os.O_NONBLOCK)\n"
            "libc.inotify_add_watch(watch, neighbour.opens.encode(), 0xfff)\n"
            "time.sleep(0.5)\n"
            "os.read(watch, 4096)",
            "EAGAIN",
        ),
        Attempt(
            "see a lock of the neighbour's on a file of the image",
            "fcntl.flock(os.open(neighbour.locks, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('nobody')",
            "said: nobody",
        ),
        Attempt(
            "see a lock of the neighbour's on a range of a file of the image",
            "one = os.open(neighbour.locks, os.O_RDONLY)\n"
            "print(struct.unpack('hhqqi4x', fcntl.fcntl(one, fcntl.F_GETLK, struct.pack('hhqqi4x', "
            "fcntl.F_WRLCK, 0, 0, 0, 0)))[0] == fcntl.F_UNLCK)",
            "said: True",
        ),
        Attempt(
            "see a lock of the neighbour's on the null device",
            "fcntl.flock(os.open('/dev/null', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('nobody')",
            {"runc": "said: nobody", "runsc": "ENOLCK"},
        ),
        Attempt(
            "watch who opens the null device",
            "watch = libc.inotify_init1(os.O_NONBLOCK)\n"
            "libc.inotify_add_watch(watch, b'/dev/null', 0xfff)\n"
            "time.sleep(0.3)\n"
            "os.read(watch, 4096)",
            "EAGAIN",
        ),
        Attempt(
            "see locks of others",
            "print([line for line in open('/proc/locks')])",
            {"runc": "said: []", "runsc": "ENOENT"},
        ),
        Attempt(
            "see by the times of files what the neighbour read",
            "print(os.stat(neighbour.opens).st_atime == os.stat('/etc/debian_version').st_atime or "
            "time.time() - os.stat(neighbour.opens).st_atime > 5)",
            "said: True",
        ),
        Attempt(
            "use up the locks of memory for all",
            "import mmap\nresource.getrlimit(resource.RLIMIT_MEMLOCK)\nlibc.mlockall(3)\nprint(True)",
            "said: True",
        ),
        Attempt("kill all there is", "os.kill(-1, signal.SIGKILL)", "died: signal SIGKILL"),
    ),
)
