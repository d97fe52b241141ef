"""What the process that listens on the network may do on its host, tried by a process with exactly its privileges."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.oci.places import HostPlaces
from kernels.sandbox import RuntimeSettings
from tests import leftovers
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.running_service import RunningService

SERVICE_UID = 1_199_999_999
NONE = "0" * 16


@pytest.fixture(scope="module")
def session(service: RunningService) -> Iterator[LiveSession]:
    with Rest(service) as rest, rest.session() as session:
        session.run("open('/workspace/mine', 'w').write('the user wrote this')")
        yield session


def status(process: int) -> dict[str, list[str]]:
    rows = (line.partition(":") for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {name: value.split() for name, _, value in rows}


def test_the_service_has_a_user_of_its_own_and_no_privileges(service: RunningService) -> None:
    serving = status(service.service_pid)
    assert serving["Uid"] == serving["Gid"] == [str(SERVICE_UID)] * 4
    assert serving["Groups"] == []
    assert {serving[kind][0] for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {NONE}
    assert serving["NoNewPrivs"] == ["1"]
    assert status(service.pid)["Uid"] == ["0"] * 4
    files = Path(f"/proc/{service.service_pid}/limits").read_text().partition("Max open files")[2].split()
    assert files[0] == files[1]
    assert serving["PPid"] == [str(service.pid)]


def test_the_launcher_knows_no_http_no_sql_and_no_s3() -> None:
    program = "import sys, kernels.launcher.process, kernels.launcher.confine; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"tornado", "httpx", "h11", "sqlalchemy", "boto3", "botocore", "kernel_gateway"} & set(loaded) == set()


def test_no_secret_is_on_a_command_line_or_in_the_data_directory_for_all_to_read(service: RunningService) -> None:
    for process in (service.pid, service.service_pid):
        assert service.token.encode() not in Path(f"/proc/{process}/cmdline").read_bytes()
    state = service.data_dir / "state"
    assert (state.stat().st_uid, state.stat().st_mode & 0o777) == (SERVICE_UID, 0o700)
    top = service.data_dir.stat()
    assert (top.st_uid, top.st_mode & 0o777) == (0, 0o711)


def as_the_service(service: RunningService, program: str, *arguments: object) -> Any:
    """Run Python in the service's mount namespace with its user and without capabilities, as an attacker would."""
    done = subprocess.run(
        [
            *("nsenter", f"--mount=/proc/{service.service_pid}/ns/mnt"),
            *("setpriv", f"--reuid={SERVICE_UID}", f"--regid={SERVICE_UID}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"),
            *(sys.executable, "-c", HELPERS + program, *map(str, arguments)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


HELD = """
pid = int(sys.argv[1])
pidfd = os.pidfd_open(pid)
print(json.dumps({
    "environ": refused(lambda: open(f"/proc/{pid}/environ", "rb").read().decode(errors="replace")),
    "memory": refused(lambda: open(f"/proc/{pid}/mem", "rb")),
    "maps": refused(lambda: open(f"/proc/{pid}/maps").read()),
    "descriptors": refused(lambda: os.listdir(f"/proc/{pid}/fd")),
    "a descriptor": refused(lambda: call(libc.syscall, 438, pidfd, 3, 0)),
    "standard error": refused(lambda: call(libc.syscall, 438, pidfd, 2, 0)),
    "trace": refused(lambda: call(libc.ptrace, 16, pid, None, None)),
}))
"""


def test_nothing_can_be_taken_from_the_service_by_others_of_its_user(service: RunningService) -> None:
    seen = as_the_service(service, HELD, service.service_pid)
    allowed = {"Permission denied", "Operation not permitted"}
    assert {name: said for name, said in seen.items() if said not in allowed} == {}


def test_the_service_holds_no_file_of_roots_and_was_started_with_no_secret(service: RunningService) -> None:
    held = Path(f"/proc/{service.service_pid}/fd")
    files = {each.readlink(): each.stat() for each in held.iterdir()}
    roots = [name for name, found in files.items() if stat.S_ISREG(found.st_mode) and found.st_uid == 0]
    assert (roots, len(files) > 5) == ([], True)
    environment = Path(f"/proc/{service.service_pid}/environ").read_bytes()
    assert b"PATH=" in environment
    for secret in (service.token, "SANDCELL_", "SECRET_OF_THE_HOST", "not-for-neighbours"):
        assert secret.encode() not in environment


OUTPUTS = """
import subprocess, sys
from contextlib import ExitStack
from kernels.launcher.outputs import open_outputs

with ExitStack() as opened:
    output, errors = open_outputs(opened)
    subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=output, stderr=errors, check=True)
"""
OVERWRITING = """
import os
for descriptor in (1, 2):
    for attempt in (lambda: os.ftruncate(descriptor, 0), lambda: os.pwrite(descriptor, b"forged", 0)):
        try:
            attempt()
        except OSError:
            os.write(descriptor, b"refused\\n")
"""


def test_a_log_file_of_roots_is_written_by_the_launcher_alone(tmp_path: Path) -> None:
    for name in ("output", "errors"):
        (tmp_path / name).write_text("what was there\n")
    with (tmp_path / "output").open("a") as output, (tmp_path / "errors").open("a") as errors:
        subprocess.run(
            [sys.executable, "-c", OUTPUTS, OVERWRITING], stdout=output, stderr=errors, timeout=120, check=True
        )
    for name in ("output", "errors"):
        assert (tmp_path / name).read_text() == "what was there\nrefused\nrefused\n"


HELPERS = """
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def refused(attempt):
    try:
        found = attempt()
    except OSError as error:
        return os.strerror(error.errno)
    return f"done: {found!r}"

def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "done"
"""

HOST = """
data, launcher = sys.argv[1:3]
print(json.dumps({
    "shadow": refused(lambda: open("/etc/shadow").read()),
    "sandboxes": refused(lambda: os.listdir(data + "/sandboxes")),
    "guest": refused(lambda: os.listdir(data + "/guest")),
    "lock": refused(lambda: open(data + "/lock", "w")),
    "beside": refused(lambda: open(data + "/planted", "w")),
    "environ": refused(lambda: open(f"/proc/{launcher}/environ").read()),
    "memory": refused(lambda: open(f"/proc/{launcher}/mem", "rb")),
    "descriptors": refused(lambda: os.listdir(f"/proc/{launcher}/fd")),
    "kill": refused(lambda: os.kill(int(launcher), 9)),
    "trace": refused(lambda: call(libc.ptrace, 16, int(launcher), None, None)),
    "namespace": refused(lambda: call(libc.setns, os.open(f"/proc/{launcher}/ns/mnt", os.O_RDONLY), 0)),
    "root": refused(lambda: os.setuid(0)),
    "groups": refused(lambda: os.setgroups([0])),
    "mount": refused(lambda: call(libc.mount, b"x", b"/tmp", b"tmpfs", 0, None)),
    "unmount": refused(lambda: call(libc.umount2, b"/proc", 2)),
    "device": refused(lambda: os.mknod(data + "/state/disk", 0o60600, os.makedev(254, 0))),
    "chroot": refused(lambda: os.chroot(data + "/state")),
    "raw": refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "low port": refused(lambda: socket.socket().bind(("127.0.0.1", 81))),
    "hostname": refused(lambda: call(libc.sethostname, b"x", 1)),
    "cgroup": refused(lambda: os.mkdir("/sys/fs/cgroup/memory/planted")),
    "priority": refused(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)),
}))
"""


def test_the_hosts_things_are_out_of_the_services_reach(service: RunningService) -> None:
    seen = as_the_service(service, HOST, service.data_dir, service.pid)
    allowed = {"Permission denied", "Operation not permitted"}
    assert {name: said for name, said in seen.items() if said not in allowed} == {}


SANDBOX = """
transport, view, image, storage = sys.argv[1:5]

def connect(path):
    socket.socket(socket.AF_UNIX).connect(path)

print(json.dumps({
    "mine": open(view + "/mine").read(),
    "owner": os.stat(view + "/mine").st_uid,
    "guest": refused(lambda: connect(transport + "/guest/http.sock")),
    "kernel": refused(lambda: connect(transport + "/kernel/g1-1")),
    "sockets": refused(lambda: os.listdir(transport + "/kernel")),
    "image": refused(lambda: open(image, "rb")),
    "disk": refused(lambda: os.listdir(storage)),
    "views": refused(lambda: os.listdir(os.path.dirname(view))),
    "device": refused(lambda: os.mknod(view + "/disk", 0o60600, os.makedev(254, 0))),
}))
"""


def test_of_a_sandbox_the_service_has_the_view_of_its_workspace_and_nothing_else(
    service: RunningService, session: LiveSession
) -> None:
    places = HostPlaces(RuntimeSettings("runc", service.data_dir, leftovers.RUN_DIR)).of(session.id)
    seen = as_the_service(service, SANDBOX, places.transport, places.view, places.image, places.storage)
    assert (seen.pop("mine"), seen.pop("owner")) == ("the user wrote this", SERVICE_UID)
    allowed = {"Permission denied", "Operation not permitted"}
    assert {name: said for name, said in seen.items() if said not in allowed} == {}


def test_other_sandboxes_mounts_are_not_held_by_the_service(service: RunningService, session: LiveSession) -> None:
    mounted = Path(f"/proc/{service.service_pid}/mountinfo").read_text()
    assert f"/views/{session.id}" in mounted
    assert f"sandboxes/{session.id}/storage" not in mounted.replace(f"sandboxes/{session.id}/storage.img", "")


KEYS = """
import ctypes, sys
from kernels.launcher import confine

libc, number = ctypes.CDLL(None, use_errno=True), ctypes.c_long
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[confine.platform.machine()]
libc.syscall(number(keyctl), number(1), None)
key = libc.syscall(number(add_key), b"user", b"sandcell-test", b"secret", number(6), number(-3))

def read():
    found = ctypes.create_string_buffer(6)
    return found.raw.decode() if libc.syscall(number(keyctl), number(11), number(key), found, number(6)) == 6 else None

before = read()
confine.give_up_privileges(int(sys.argv[1]))
print(before, read())
"""


def test_the_keys_in_roots_session_are_closed_to_the_service() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEYS, str(SERVICE_UID)], capture_output=True, text=True, timeout=120, check=False
    )
    if done.stdout == "None None\n":
        pytest.skip("this kernel keeps no keys, or gives us none")
    assert done.stdout == "secret None\n", done.stderr
