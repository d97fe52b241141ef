"""Attempts to use up, or to speak through, what the host's kernel has once for all sandboxes.

`docs/explanation/kernel-objects.md` is the list. What an attempt could take is shown by the refusal of a few, never by
filling what others on this host need. `hold` takes all that there is of everything that is bounded, at once, and keeps
it while another principal's session is started: it must start, and all of this must work in it.
"""

from __future__ import annotations

from sandcell import Session
from tests.escape.attempt import Attempt, Family
from tests.escape.position import Scene

FILTER = """
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow))
syscall({})
"""

OPTIONS = {
    "a program on a socket": (2, 2, 1, 26),
    "a program of the new kind on a socket": (2, 2, 1, 50),
    "a program that shares out connections": (2, 2, 1, 51),
    "a program of the new kind that shares out connections": (2, 2, 1, 52),
    "copies of what is sent": (2, 2, 1, 37),
    "copies of what is sent by the new number": (2, 2, 1, 65),
    "notes of what was sent without a copy": (2, 1, 1, 60),
    "notes of what was sent too late": (2, 2, 1, 61),
    "errors that are kept": (2, 2, 0, 11),
    "errors that are kept, of version 6": (10, 2, 41, 25),
    "a group of the network": (2, 2, 0, 35),
    "a group of the network by the new number": (2, 2, 0, 42),
    "a group of the network, of version 6": (10, 2, 41, 20),
    "an address of many": (10, 2, 41, 27),
    "options kept for later": (10, 2, 41, 6),
    "a label of flows": (10, 2, 41, 32),
    "a protocol on top, which is a module": (2, 1, 6, 31),
    "a key of a peer": (2, 1, 6, 14),
    "a group of netlink": (16, 3, 270, 1),
}
PROTOCOLS = {"SCTP": 132, "DCCP": 33, "UDP-Lite": 136, "MPTCP": 262, "SMC": 256, "L2TP": 115}

NETLINK = """
held = []
try:
    while True:
        held.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
        held[-1].bind((0, 0))
        if len(held) > 100:
            print("without number"); break
except OSError as error:
    assert len(held) == 16, len(held)
    assert socket.getaddrinfo("localhost", 80)
    held.pop().close()
    assert socket.if_nameindex()
    raise
"""
UNBOUND = """
held = [socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) for _ in range(100)]
print("without number")
"""
TERMINALS = """
held = []
while len(held) < 200:
    held += os.openpty()
print("without number")
"""
COPIES = """
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(8):
    one.sendmsg([bytes(4096)], [(1, 37, struct.pack("I", 2))], 0, ("127.0.0.1", 9))
print(struct.unpack("9I", one.getsockopt(1, 55, 36))[0])
"""
LOCKS = """
taken = []
for path in neighbour.shared:
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        taken.append(path)
print(taken)
"""
WATCH = """
watch = libc.inotify_init1(os.O_NONBLOCK)
for path in neighbour.shared:
    assert libc.inotify_add_watch(watch, path.encode(), 0xfff) > 0
subprocess.run(["true"])
time.sleep(0.3)
os.read(watch, 4096)
"""
FOREGROUND = """
import pty
child, terminal = pty.fork()
if child == 0:
    for number in {numbers}:
        try:
            syscall("ioctl", 0, number, b"x")
            os.write(1, b"typed ")
        except OSError as error:
            os.write(1, errno.errorcode[error.errno].encode() + b" ")
    os.write(1, b"\\n")
    time.sleep(5)
    os._exit(0)
said = b""
while b"\\n" not in said:
    said += os.read(terminal, 100)
os.kill(child, 9)
print(set(said.decode().split()))
"""

HOLD = """
held = []
def until_refused(take, most):
    made = 0
    try:
        while made < most:
            held.append(take()); made += 1
    except OSError:
        pass
    return made
def fill(make):
    one = make()
    one.setblocking(False)
    return one
def netlink():
    one = socket.socket(16, 3, 0)
    one.setsockopt(1, 8, 1 << 22)
    one.setblocking(False)
    for _ in range(2000):
        try: one.send(struct.pack("IHHIIBxHiII", 32, 18, 0x301, 1, 0, 0, 0, 0, 0, 0))
        except OSError: break
    return one
def udp():
    one = socket.socket(2, 2)
    one.setsockopt(1, 8, 1 << 22)
    one.bind(("127.0.0.1", 0))
    sender = socket.socket(2, 2)
    sender.setblocking(False)
    for _ in range(100):
        try: sender.sendto(bytes(32000), one.getsockname())
        except BlockingIOError: break
    return one
listening = socket.create_server(("127.0.0.1", 0), backlog=200)
def tcp():
    ours = socket.create_connection(listening.getsockname())
    theirs, _ = listening.accept()
    ours.setblocking(False)
    try:
        while True: ours.send(bytes(65536))
    except BlockingIOError: pass
    return ours, theirs
def pipe():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    return reader, writer
def inotify():
    number = libc.inotify_init1(0)
    if number < 0: raise OSError(ctypes.get_errno(), "")
    return number
def queue():
    many = struct.pack("8q", 0, 10, 8192, 0, 0, 0, 0, 0)
    number = syscall("mq_open", b"held", os.O_CREAT | os.O_RDWR, 0o600, many)
    syscall("mq_unlink", b"held")
    return number
def timer():
    if libc.timer_create(1, None, ctypes.create_string_buffer(8)): raise OSError(ctypes.get_errno(), "")
def lock(path):
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
ready, tell = os.pipe()
if os.fork():
    os.close(tell)
    taken = eval(os.read(ready, 4096))
    print("holds all but", [name for name, made in taken.items() if not made])
else:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    taken = {
        "terminals": until_refused(os.openpty, 100),
        "netlink": until_refused(netlink, 40),
        "tcp": until_refused(tcp, 20),
        "udp": until_refused(udp, 40),
        "pipes": until_refused(pipe, 200),
        "inotify": until_refused(inotify, 1000),
        "queues": until_refused(queue, 500),
        "timers": until_refused(timer, 20_000),
        "locks": sum(until_refused(lambda: lock(path), 1) for path in neighbour.shared) == len(neighbour.shared),
    }
    open("/tmp/holder", "w").write(str(os.getpid()))
    os.write(tell, repr(taken).encode())
    os.close(tell)
    time.sleep(120)
    os._exit(0)
"""

WORKS = """
import asyncio, concurrent.futures, ctypes, fcntl, multiprocessing, os, socket, subprocess
from multiprocessing import shared_memory
assert subprocess.run(["echo", "works"], capture_output=True, text=True).stdout == "works\\n"
assert socket.if_nameindex() and socket.getaddrinfo("localhost", 80)
held = [os.openpty() for _ in range(4)]
os.write(held[0][1], b"seen"); assert os.read(held[0][0], 4) == b"seen"
async def talk():
    async def answer(reader, writer):
        writer.write(await reader.read(1 << 20)); await writer.drain(); writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(b"x" * 100_000); writer.write_eof()
    assert await reader.read()
    server.close()
with concurrent.futures.ThreadPoolExecutor(1) as thread:
    thread.submit(asyncio.run, talk()).result(20)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(len, ["ab", "c"]) == [2, 1]
memory = shared_memory.SharedMemory(create=True, size=1 << 20); memory.unlink()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.inotify_init1(0) >= 0
assert libc.shmget(0, 4096, 0o1600) >= 0 and libc.semget(0, 8, 0o1600) >= 0
for path in SHARED:
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
reader, writer = os.pipe(); fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
import pandas
print(pandas.Series(range(10)).sum())
"""


def others_start_and_work(scene: Scene) -> None:
    """Another principal's session, made while all is held, does what sessions do; then what was held is let go."""
    client, shared = scene.neighbour.client, scene.neighbour.known()["shared"]
    session = Session(client, client.start_session())
    try:
        result = session.run(f"SHARED = {shared!r}\n{WORKS}", timeout_seconds=180)
        assert result.ok, result
        assert result.stdout.strip() == "45"
        assert session.command("cd /workspace && pwd").stdout == "/workspace\n"
    finally:
        session.stop()
        ended = scene.session.command("kill -9 $(cat /tmp/holder); rm /tmp/holder; echo over")
    assert ended.stdout == "over\n", ended


FAMILY = Family(
    "shared_kernel",
    "one host, many guests",
    (
        *(
            Attempt(
                f"have {name}",
                f"socket.socket({family}, {kind}).setsockopt({level}, {number}, bytes(64))",
                "EPERM",
            )
            for name, (family, kind, level, number) in OPTIONS.items()
        ),
        *(
            Attempt(
                f"have {name} past the low bits",
                f"one = socket.socket({family}, {kind})\n"
                f"syscall(54, one.fileno(), {level} | 1 << 32, {number} | 1 << 32, bytes(64), 64)",
                "EPERM",
            )
            for name, (family, kind, level, number) in OPTIONS.items()
            if number in (26, 11, 20)
        ),
        *(
            Attempt(f"have the host load {name}", f"socket.socket(socket.AF_INET, {kind}, {number})", "EPERM")
            for name, number in PROTOCOLS.items()
            for kind in [2 if name in ("UDP-Lite", "L2TP") else 1]
        ),
        Attempt("have a filter", FILTER.format("'seccomp', 1, 0, program"), "EPERM"),
        Attempt("have a filter for all threads", FILTER.format("'seccomp', 1, 1, program"), "EPERM"),
        Attempt("have a filter past the low bits", FILTER.format("'seccomp', 1 | 1 << 32, 0, program"), "EPERM"),
        Attempt("have a filter by the old call", FILTER.format("'prctl', 22, 2, program"), "EPERM"),
        Attempt(
            "have a filter by the old call past the low bits",
            FILTER.format("'prctl', 22 | 1 << 32, 2, program"),
            "EPERM",
        ),
        Attempt(
            "have a second filter with a listener",
            FILTER.format("'seccomp', 1, 8, program"),
            {"runc": "EBUSY", "runsc": "EINVAL"},
        ),
        Attempt("netlink sockets", NETLINK, {"runc": "EMFILE", "runsc": "said: without number"}),
        Attempt("netlink sockets that nobody has bound", UNBOUND, {"runc": "EMFILE", "runsc": "said: without number"}),
        Attempt("terminals", TERMINALS, {"runc": "ENOSPC", "runsc": "said: without number"}),
        Attempt("copies of what is sent, asked for with it", COPIES, {"runc": "said: 0", "runsc": "EINVAL"}),
        Attempt("speak by locks on files that all see", LOCKS, "said: []"),
        Attempt("watch others by files that all see", WATCH, "EAGAIN"),
        Attempt(
            "type into one's own terminal",
            FOREGROUND.format(numbers="(0x5412, 0x100005412, 0xffffffff00005412, 0x541C, 0x10000541C)"),
            "said: {'EPERM'}",
        ),
        Attempt(
            "hold all there is",
            HOLD,
            {"runc": "said: holds all but []", "runsc": "said: holds all but ['queues']"},  # gVisor has none
            check=others_start_and_work,
        ),
    ),
)
