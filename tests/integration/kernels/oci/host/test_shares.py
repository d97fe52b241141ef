"""What the host's kernel has for all: a sandbox uses up its own share, not its neighbours' and not the host's."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.oci import bundle
from kernels.sandbox import SandboxInfo
from tests.integration.kernels.oci.conftest import Sandboxes, Test

COUNT = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
class Queue(ctypes.Structure):
    _fields_ = [("fields", ctypes.c_long * 8)]
calls = {
    "inotify instances": lambda n: libc.inotify_init1(0),
    "timers": lambda n: libc.timer_create(1, None, ctypes.create_string_buffer(8)),
    "queues": lambda n: libc.mq_open(b"/q%d" % n, os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(Queue((0, 10, 8192)))),
}
for name, call in calls.items():
    made = 0
    while made < 200_000 and call(made) >= 0:
        made += 1
    print(name, made, flush=True)
"""
HOLD = f"{COUNT}\nimport time; time.sleep(60)"


def counts(printed: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (line.rpartition(" ") for line in printed.splitlines())}


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_greedy_sandbox_takes_nothing_of_the_host_or_of_its_neighbour(in_sandboxes: Callable[[Test], None]) -> None:
    """The kernel charges these also to the owner of the user namespace: that must not be root for all of them."""

    async def test(sandboxes: Sandboxes) -> None:
        greedy, neighbour = await sandboxes.create(), await sandboxes.create()
        holding = asyncio.create_task(
            sandboxes.run(greedy, f"cat > /tmp/hold.py <<'END'\n{HOLD}\nEND\npython3 /tmp/hold.py > /tmp/taken")
        )
        try:
            taken: dict[str, int] = {}
            async with asyncio.timeout(120):
                while len(taken) < 3:
                    taken = counts((await sandboxes.run(greedy, "cat /tmp/taken 2>/dev/null || true")).stdout)
            assert min(taken.values()) > 0
            # Signals that wait at that moment count as timers do, hence not "equal"; of a common share nothing is left.
            left = counts(await sandboxes.python(neighbour, COUNT))
            assert left == {name: pytest.approx(number, rel=0.01) for name, number in taken.items()}
            host = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", COUNT], text=True)
            assert min(counts(host).values()) > 0
        finally:
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)

    in_sandboxes(test)


SCAN = """
import json, os
found = {}
for top, directories, files in os.walk("/"):
    directories[:] = [name for name in directories if os.path.join(top, name) not in ("/proc", "/dev/guest")]
    for path in [top, *(os.path.join(top, name) for name in files[:2])]:
        status = os.lstat(path)
        found[f"{status.st_dev}:{status.st_ino}"] = path
with open("/proc/self/mountinfo") as mounts:
    for line in mounts:
        found[f"mount:{line.split()[2]}:{line.split()[3]}"] = line.split()[4]
print(json.dumps(found))
"""


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_no_file_is_the_same_inode_in_two_sandboxes(in_sandboxes: Callable[[Test], None]) -> None:
    """Or a lock on it would carry word from one to the other, and a watch tell of what the other does."""

    async def test(sandboxes: Sandboxes) -> None:
        one, other = await sandboxes.create(), await sandboxes.create()
        for info in (one, other):
            await sandboxes.run(
                info, f"cat > /tmp/scan.py <<'END'\n{SCAN}\nEND\npython3 /tmp/scan.py > /workspace/found"
            )
        found = [json.loads(Path(info.workspace_directory, "found").read_text()) for info in (one, other)]
        assert len(found[0]) > 1000
        assert {found[0][inode] for inode in found[0].keys() & found[1].keys()} == set()

    in_sandboxes(test)


TAKE = """
import os, socket, struct
held = []
def refused(take, most):
    try:
        for _ in range(most):
            held.append(take())
    except OSError as error:
        return error.errno
def filled():
    one, sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    one.bind(("127.0.0.1", 0))
    for _ in range(100):
        sender.sendto(bytes(32_000), one.getsockname())
    return one
def stuffed():
    listening = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listening.getsockname())
    theirs, _ = listening.accept()
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(65_536))
    except BlockingIOError:
        return ours, theirs
def copied():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(8):
        one.sendmsg([bytes(4096)], [(socket.SOL_SOCKET, 37, struct.pack("I", 2))], 0, ("127.0.0.1", 9))
    return struct.unpack("9I", one.getsockopt(socket.SOL_SOCKET, 55, 36))[0]
print(refused(os.openpty, 100), len(held))
netlink = [None, len(held)]
print(refused(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), 100), len(held) - netlink[1])
print(refused(filled, 80), refused(stuffed, 10), copied(), flush=True)
open("/tmp/over").read()
"""
USUAL = """
import asyncio, multiprocessing, os, pty, socket, subprocess
from multiprocessing import shared_memory
import psutil
assert list(psutil.net_if_addrs()) == ["lo"] and psutil.net_if_stats()["lo"].isup
assert psutil.Process().open_files() == [] and psutil.cpu_count() and psutil.virtual_memory().total
assert socket.if_nameindex() == [(1, "lo")]
assert {each[4][0] for each in socket.getaddrinfo("localhost", 80)} <= {"127.0.0.1", "::1"}
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
netlink.bind((0, 0))
assert netlink.getsockname()[0] > 0 and not netlink.get_inheritable()
local = socket.socket(socket.AF_UNIX)
local.bind("/tmp/of-some-length")
os.chdir("/tmp")
short = socket.socket(socket.AF_UNIX)
short.bind("ten-of-all")  # an address as long as one of netlink
assert short.getsockname() == "ten-of-all"
async def talk():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0
    server.close()
asyncio.run(talk())
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(len, ["ab", "c"]) == [2, 1]
memory = shared_memory.SharedMemory(create=True, size=1 << 20)
memory.close(); memory.unlink()
assert pty.spawn(["true"], lambda descriptor: os.read(descriptor, 100), lambda _: b"") == 0
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
assert status["CapBnd"].strip() == "0" * 16, status["CapBnd"]
print("works")
"""


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_what_one_takes_of_sockets_and_terminals_is_bounded_and_the_other_works(
    in_sandboxes: Callable[[Test], None],
) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        greedy, neighbour = await sandboxes.create(), await sandboxes.create()
        holding = asyncio.create_task(
            sandboxes.run(
                greedy, f"mkfifo /tmp/over; cat > /tmp/take.py <<'END'\n{TAKE}\nEND\npython3 /tmp/take.py > /tmp/taken"
            )
        )
        try:
            taken: list[str] = []
            async with asyncio.timeout(120):
                while len(taken) < 3:
                    taken = (await sandboxes.run(greedy, "cat /tmp/taken 2>/dev/null || true")).stdout.splitlines()
            terminals, netlink, sockets = taken
            assert terminals == f"{errno.ENOSPC} {bundle.TERMINALS}"
            most = bundle.NETLINK_SOCKETS  # of the sandbox: what starts in it may have one for a moment
            assert netlink in (f"{errno.EMFILE} {most}", f"{errno.EMFILE} {most - 1}")
            assert sockets.split()[2] == "0", "a copy of what was sent is kept"
            most = bundle.socket_bytes(sandboxes.environment.resources.memory_bytes)
            assert 0 < _socket_bytes(sandboxes, greedy) < most + (4 << 20)  # the last ones are let through
            assert await sandboxes.python(neighbour, USUAL) == "works"
        finally:
            await sandboxes.run(greedy, "timeout 5 sh -c ': > /tmp/over'")
            await asyncio.gather(holding, return_exceptions=True)

    in_sandboxes(test)


def _socket_bytes(sandboxes: Sandboxes, info: SandboxInfo) -> int:
    """What the host's kernel has counted: v1 by itself, v2 as a part of the memory."""
    groups = [Path(top) for top, _, _ in os.walk("/sys/fs/cgroup") if Path(top).name == info.sandbox_id]
    if sandboxes.runtime.cgroups.unified:
        lines = [line.split() for group in groups for line in (group / "memory.stat").read_text().splitlines()]
        return next(int(number) for name, number in lines if name == "sock")
    counted = [group / "memory.kmem.tcp.usage_in_bytes" for group in groups]
    return next(int(file.read_text()) for file in counted if file.exists())
