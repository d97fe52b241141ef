"""The profile as user code meets it: run inside a real sandbox, asserted from there and from the host."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings
from tests.integration.kernels.oci.conftest import Sandboxes, Test
from tests.shared_guest import share_guest

LOOK = """
import ctypes, json, os, re, socket
libc = ctypes.CDLL(None)
status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines() if ':' in line)
print(json.dumps({
    'ids': [os.getuid(), os.geteuid(), os.getgid(), os.getgroups()],
    'capabilities': [status[name].strip() for name in ('CapEff', 'CapPrm', 'CapInh')],
    'ambient': [number for number in range(41) if libc.prctl(47, 1, number, 0, 0) > 0],
    'no_new_privs': libc.prctl(39, 0, 0, 0, 0), 'seccomp': libc.prctl(21),
    'interfaces': [name for _, name in socket.if_nameindex()],
    'environment': sorted(os.environ), 'hostname': socket.gethostname(),
    'root': sorted(os.listdir('/')), 'sys': os.listdir('/sys'),
    'devices': sorted(os.listdir('/dev')),
    'processes': sorted(int(name) for name in os.listdir('/proc') if name.isdigit()),
    'kcore': os.path.getsize('/proc/kcore') if os.path.exists('/proc/kcore') else 0,
}))
"""

REFUSED = {
    "mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "unshare a user namespace": "libc.unshare(0x10000000)",
    "unshare mounts": "libc.unshare(0x20000)",
    "clone into a user namespace": "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "join a namespace": "libc.setns(os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
    "chroot": "libc.chroot(b'/tmp')",
    "pivot_root": "libc.syscall(155, b'/tmp', b'/tmp')",
    "ptrace": "libc.ptrace(0, 0, 0, 0)",
    "read another's memory": "libc.syscall(310, 1, 0, 0, 0, 0, 0)",
    "bpf": "libc.syscall(321, 0, 0, 0)",
    "perf": "libc.syscall(298, 0, 0, -1, -1, 0)",
    "io_uring": "libc.syscall(425, 1, 0)",
    "userfaultfd": "libc.syscall(323, 0)",
    "keyring": "libc.syscall(250, 0, -3, 0)",
    "kexec": "libc.syscall(246, 0, 0, 0, 0)",
    "load a module": "libc.syscall(175, 0, 0, b'')",
    "set the clock": "libc.syscall(227, 0, 0)",
    "set the host name": "libc.sethostname(b'x', 1)",
    "raw socket": "libc.socket(2, 3, 1)",
    "packet socket": "libc.socket(17, 3, 0)",
    "vsock": "libc.socket(40, 1, 0)",
    "crypto socket": "libc.socket(38, 5, 0)",
    "become root": "libc.setuid(0)",
    "become root by setresuid": "libc.setresuid(0, 0, 0)",
    "a device node": "libc.mknod(b'/tmp/disk', 0o60666, 0x700)",
    "kill the guest": "libc.kill(1, 9)",
    "lower the chance to be killed": "os_write('/proc/self/oom_score_adj', '-1000')",
    "write the core pattern": "os_write('/proc/sys/kernel/core_pattern', '|/tmp/x')",
    "write sysrq": "os_write('/proc/sysrq-trigger', 'b')",
    "write the root": "os_write('/etc/passwd', 'x')",
    "write the guest's code": "os_write('/opt/sandcell/guest/__main__.py', 'x')",
    "replace the guest's socket": "os_write('/run/sandcell/guest/x', 'x')",
    "read the guest's memory": "os.open('/proc/1/mem', os.O_RDONLY)",
    "enter the guest's root": "os.open('/proc/1/root/etc/passwd', os.O_RDONLY)",
}

ATTEMPTS = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def os_write(path, text):
    with open(path, 'w') as file:
        file.write(text)
    return 0
for name, call in json.loads({calls!r}).items():
    if os.fork() == 0:  # what one of them changes is not the next one's
        try:
            result = eval(call)
        except OSError as error:
            result = -error.errno
        print(json.dumps([name, 'REFUSED' if result < 0 else f'DONE {{result}}']), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module", params=("runc", "crun", "runsc"))
def runtime_name(request: pytest.FixtureRequest) -> str:
    """Every runtime in turn, with one sandbox for all tests of it."""
    return str(request.param)


Python = Callable[[str], str]


@pytest.fixture(scope="module")
def python(
    runtime_name: str, tmp_path_factory: pytest.TempPathFactory, short_directory: Path, environment: Environment
) -> Iterator[Python]:
    """What a program prints that the user runs in a sandbox, which the module's tests share; it is alive at the end."""
    data = share_guest(tmp_path_factory.mktemp("profile"), short_directory)
    with asyncio.Runner() as runner:
        runtime = OciRuntime(RuntimeSettings(runtime_name, data, short_directory))
        sandboxes = Sandboxes(runtime, environment)
        try:
            info = runner.run(sandboxes.create())
            try:
                yield lambda code: runner.run(sandboxes.python(info, code))
                assert runner.run(runtime.running(info.sandbox_id))
            finally:
                runner.run(runtime.destroy(info.sandbox_id))
        finally:
            runner.run(runtime.aclose())


def test_what_user_code_sees(python: Python, runtime_name: str) -> None:
    seen = json.loads(python(LOOK))
    assert seen["ids"] == [1000, 1000, 1000, [1000]] or seen["ids"] == [1000, 1000, 1000, []]
    assert set(seen["capabilities"]) == {"0" * 16}
    assert seen["ambient"] == []
    assert (seen["no_new_privs"], seen["seccomp"]) == (1, 2)
    assert seen["interfaces"] == ["lo"]
    assert seen["hostname"] == "sandbox"
    assert socket.gethostname() not in seen["environment"]
    assert not [name for name in seen["environment"] if name.startswith(("SANDCELL", "AWS", "TEST"))]
    assert runtime_name == "runsc" or set(seen["sys"]) <= {"devices"}  # gVisor shows a /sys of its own
    assert not set(seen["devices"]) - {
        *("full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"),
        *("fd", "core", "console", "mqueue", "guest"),
        *(("net", "fuse") if runtime_name == "runsc" else ()),  # gVisor's own, of which user code may open none
    }
    assert max(seen["processes"]) < 1000
    assert seen["kcore"] == 0


def test_every_forbidden_call_is_refused(python: Python) -> None:
    said = python(ATTEMPTS.format(calls=json.dumps(REFUSED)))
    answers = dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
    assert answers == dict.fromkeys(REFUSED, "REFUSED"), said
    assert python("print('alive')") == "alive"


CALL_TABLES = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex('b8a5000000cd80c3'))
answer = {call}
print('DONE', answer)
"""


@pytest.mark.parametrize(
    "call",
    [
        "libc.syscall(0x40000000 + 39)",
        "ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()",
    ],
    ids=["x32", "32-bit"],
)
def test_another_call_table_is_no_way_around(python: Python, runtime_name: str, call: str) -> None:
    """The x32 bit on a call number; int 0x80 through a page of our own: 165, `mount` in the table of 64 bits."""
    answer = python(CALL_TABLES.format(call=call))
    if runtime_name == "runsc":  # gVisor has one table and no other: the number is refused like any
        assert answer == "DONE -1"
    else:
        assert "DONE" not in answer


def test_the_guest_has_nothing_to_tell_that_is_secret(python: Python, runtime_name: str) -> None:
    """gVisor lets everybody read the environment of every process in the sandbox; the host's kernel does not."""
    answer = python("print(open('/proc/1/environ').read())")
    if runtime_name == "runsc":
        assert {line.partition("=")[0] for line in answer.strip().strip("\0").split("\0")} == {"PATH", "LANG", "HOME"}
    else:
        assert "Permission denied" in answer


def test_nothing_of_the_host_can_be_reached(python: Python, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hostsecret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert "No such file" in python(f"print(open({str(secret)!r}).read())")
        connecting = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('DONE')"
        assert "refused" in python(connecting)
        answer = python("import socket; socket.create_connection(('192.0.2.1', 80), 2); print('DONE')")
        assert "unreachable" in answer or "No route to host" in answer
        assert "Name or service not known" in python("import socket; print(socket.gethostbyname('example.com'))")


def test_neighbours_have_other_ids_and_other_files(in_sandboxes: Callable[[Test], None]) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        one, two = await sandboxes.create(), await sandboxes.create()
        owners = [Path(sandboxes.runtime.places.of(each.sandbox_id).storage, "workspace").stat() for each in (one, two)]
        assert abs(owners[0].st_uid - owners[1].st_uid) >= 65_536
        await sandboxes.python(one, "open('/workspace/mine', 'w').write('x'); open('/tmp/mine', 'w').write('x')")
        assert await sandboxes.python(two, "import os; print(os.listdir('/workspace'), os.listdir('/tmp'))") == "[] []"
        assert Path(one.workspace_directory, "mine").stat().st_uid == 0  # the service's own, in its view

    in_sandboxes(test)
