"""Real guests on the host: as root, in a directory of their own, without a container.

Those that need to be PID 1 get a pid namespace. The user is a uid nobody else has; guests that run a real ipykernel
keep uid 0, since the interpreter of the tests may be out of reach of other users.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernels.guest_client.client import GuestClient, KernelExit, KernelStarted
from kernels.oci.sockets import dial_in
from tests.doubles.server_process import free_port

GUEST = Path(__file__).parents[4] / "kernels/guest"
USER = 61234


Told = KernelStarted | KernelExit | str


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds, for ten seconds at most."""
    async with asyncio.timeout(120):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.01)


@dataclass
class RunningGuest:
    """One guest, its directories and what its watch has told."""

    directory: Path
    process: subprocess.Popen[bytes]
    pid: int
    client: GuestClient
    first: KernelStarted
    user: int
    ports: tuple[int, int, int]
    story: list[Told] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.directory / "w"

    @property
    def kernel_directory(self) -> Path:
        return self.directory / "t/kernel"

    async def told(
        self, wanted: Callable[[KernelStarted | KernelExit | str], bool]
    ) -> KernelStarted | KernelExit | str:
        """Wait until the watch has told such a thing."""
        async with asyncio.timeout(120):
            while True:
                for one in self.story:
                    if wanted(one):
                        return one
                await asyncio.sleep(0.005)

    async def exit_of(self, generation: int) -> KernelExit:
        one = await self.told(lambda one: isinstance(one, KernelExit) and one.generation == generation)
        assert isinstance(one, KernelExit)
        return one

    def alive(self, marker: str) -> list[int]:
        """Processes, dead ones excepted, that have this in their command line."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                dead = (path / "stat").read_text().rpartition(") ")[2][0] in "ZX"
                if not dead and marker.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
        return found


@dataclass
class Guests:
    """Starts guests; each ends with the test."""

    directory: Path
    started: list[RunningGuest] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(
        self,
        *options: str,
        python: str | None = None,
        user: int = USER,
        pid_1: bool = False,
        cgroup: Path | None = None,
        own_network: bool = False,
        stdin: int | None = None,
    ) -> RunningGuest:
        """Start one, on loopback ports of its own. Without `python` its kernel ends at once, which is no bother."""
        ports = (free_port(), free_port(), free_port())
        directory = self._prepare(len(self.started), user)
        command = [
            *(("unshare", "--pid", "--fork", "--mount-proc", "--kill-child") if pid_1 else ()),
            *(("unshare", "--net", "/bin/sh", "-c", 'ip link set lo up; exec "$@"', "-") if own_network else ()),
            *(("/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', str(cgroup / "cgroup.procs")) if cgroup else ()),
            *(sys.executable, "-I", "-B", str(GUEST), "--generation", "1", "--vcpus", "1.16", "--user", str(user)),
            *("--transport", f"{directory}/t", "--workspace", f"{directory}/w", "--home", f"{directory}/h"),
            *("--skeleton", f"{directory}/s", "--python", python or "/bin/false"),
            *("--http_port", str(ports[0]), "--s3_port", str(ports[1]), "--packages_port", str(ports[2])),
            *options,
        ]
        process = subprocess.Popen(  # noqa: ASYNC220 - it forks and returns
            command, cwd="/", stdin=stdin, stderr=subprocess.DEVNULL
        )
        client = GuestClient(dial_in(f"{directory}/t"))
        try:
            first = await client.wait_ready(60)
        except BaseException:
            process.kill()
            process.wait(120)
            raise
        pid = _child_of(process.pid) if pid_1 else process.pid
        guest = RunningGuest(directory, process, pid, client, first, user, ports)
        self.started.append(guest)
        watching = client.watch(guest.story.append, guest.story.append, lambda: guest.story.append("gone"))
        self.tasks.append(asyncio.create_task(watching))
        return guest

    def _prepare(self, number: int, user: int) -> Path:
        directory = self.directory / str(number)
        for name in "twhs":
            (directory / name).mkdir(parents=True)
            os.chown(directory / name, *((0, 0) if name in "ts" else (user, user)))
        (directory / "s/.cache").mkdir()
        (directory / "s/.cache/fonts").write_text("prebuilt")
        (directory / "s/.link").symlink_to(".cache")
        return directory

    async def close(self) -> None:
        for guest in self.started:
            if guest.process.poll() is None:
                os.kill(guest.pid, signal.SIGTERM)
            await asyncio.to_thread(guest.process.wait, 60)
        for task in self.tasks:
            async with asyncio.timeout(120):
                await task
        for guest in self.started:
            await guest.client.aclose()


Test = Callable[[Guests], Awaitable[None]]


@pytest.fixture
def with_guests() -> Iterator[Callable[[Test], None]]:
    """Runs a coroutine function with guests."""
    directory = Path(tempfile.mkdtemp(prefix="sg", dir="/tmp"))
    directory.chmod(0o755)

    async def run(test: Test) -> None:
        guests = Guests(directory)
        try:
            await test(guests)
        finally:
            await guests.close()

    yield lambda test: asyncio.run(run(test))
    shutil.rmtree(directory)


def _child_of(parent: int) -> int:
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])
