"""The kernel of a guest: started, spoken to, interrupted, replaced; its end is noticed at once, with its cause."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session

from kernels.errors import GuestRefused
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test

Runner = Callable[[Test], None]


WAIT = """
import time
open("running", "w").close()
try: time.sleep(600)
except MemoryError: open("guarded", "w").close()
"""


class Notebook:
    """A client of one kernel on raw, blocking sockets."""

    def __init__(self, guest: RunningGuest, generation: int) -> None:
        content = json.loads((guest.kernel_directory / f"g{generation}.json").read_text())
        self._session = Session(key=content["key"].encode())
        self._context = zmq.Context()
        self._shell = self._context.socket(zmq.DEALER)
        self._iopub = self._context.socket(zmq.SUB)
        self._iopub.subscribe(b"")
        for socket, port in ((self._shell, "shell_port"), (self._iopub, "iopub_port")):
            socket.linger = 0
            socket.connect(f"ipc://{content['ip']}-{content[port]}")
        while not self._iopub.poll(200):
            self._session.send(self._shell, "kernel_info_request", {})

    def run(self, code: str) -> tuple[str, dict[str, Any]]:
        """What it prints, and the reply's content."""
        sent = self.send(code)
        printed = ""
        while True:
            message = self._receive(self._iopub, sent)
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            if message["content"].get("execution_state") == "idle":
                return printed, self._receive(self._shell, sent)["content"]

    def send(self, code: str) -> str:
        sent = self._session.send(self._shell, "execute_request", {"code": code, "silent": False})
        return str(sent["header"]["msg_id"])

    def _receive(self, socket: zmq.Socket[bytes], parent: str) -> dict[str, Any]:
        while True:
            assert socket.poll(20_000)
            message: dict[str, Any] = self._session.recv(socket, mode=0)[1]
            if message["parent_header"].get("msg_id") == parent:
                return message

    def close(self) -> None:
        self._context.destroy()


async def notebook(guest: RunningGuest, generation: int) -> Notebook:
    return await asyncio.to_thread(Notebook, guest, generation)


def test_a_kernel_lives_is_interrupted_and_is_replaced(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(python=sys.executable, user=0)
        await guest.client.interrupt_kernel()  # long before it can handle it: no harm done
        first = await notebook(guest, 1)
        content = json.loads((guest.kernel_directory / "g1.json").read_text())
        assert (content["key"], content["ip"]) == (guest.first.key, str(guest.kernel_directory / "g1"))

        printed, _ = await asyncio.to_thread(first.run, "import os; print(os.getcwd(), os.environ['OMP_NUM_THREADS'])")
        assert printed.strip() == f"{guest.workspace} 2"
        failed = (await asyncio.to_thread(first.run, "import cell_usage"))[1]
        assert failed["ename"] == "ModuleNotFoundError"  # our modules are none of the user's
        running = asyncio.create_task(asyncio.to_thread(first.run, WAIT))
        while not (guest.workspace / "running").exists():
            await asyncio.sleep(0.02)
        late = {"held_bytes": 1, "limit_bytes": 2, "until_ms": round(time.time() * 1000) - 1}
        await guest.client._json("POST", "/v1/kernel/guard", late)  # meant for code that has ended
        await guest.client.interrupt_kernel()
        interrupted = (await running)[1]
        assert (interrupted["ename"], "MemoryGuard" in str(interrupted["traceback"])) == ("KeyboardInterrupt", False)
        assert not (guest.workspace / "guarded").exists()

        await asyncio.to_thread(first.run, "import subprocess; subprocess.Popen(['setsid', 'sleep', '7654321'])")
        task = await guest.client.run_command("sleep 7654322", timeout_seconds=60, output_bytes=10, background=True)
        started = await guest.client.start_kernel(2)
        assert (started.generation, started.key != guest.first.key) == (2, True)
        assert (await guest.exit_of(1)).signal == "SIGKILL"
        assert not guest.alive("7654321")
        assert guest.alive("7654322")
        assert (await guest.client.stop_task(task.id)).status == "stopped"
        first.close()

        second = await notebook(guest, 2)
        sockets = {f"g2-{n}" for n in range(1, 6)}
        while not (guest.kernel_directory / "g2-5").exists():  # the heartbeat's, which a thread makes
            await asyncio.sleep(0.02)
        assert {path.name for path in guest.kernel_directory.iterdir()} == sockets | {"g2.json", "ipython"}
        assert await guest.client.start_kernel(2) == started
        with pytest.raises(GuestRefused) as refused:
            await guest.client.start_kernel(1)
        assert refused.value.code == "stale_generation"
        await asyncio.to_thread(second.send, "import os; os._exit(3)")
        assert (await guest.exit_of(2)).exit_code == 3
        assert (await guest.client.start_kernel(3, key=guest.first.key)).key == guest.first.key
        await guest.client.kill_kernel()
        assert (await guest.exit_of(3)).signal == "SIGKILL"
        with pytest.raises(GuestRefused) as refused:
            await guest.client.interrupt_kernel()
        assert refused.value.code == "no_kernel"
        second.close()

    with_guests(test)


FAKE = """#!/bin/sh
case "$*" in
  *g1.json) echo "no such thing" >&2; kill -SEGV $$;;
  *) exec sleep 7654323;;
esac
"""


def test_an_end_is_told_with_its_cause(with_guests: Runner, tmp_path: Path) -> None:
    fake = Path("/tmp") / f"{tmp_path.name}-{os.getpid()}-fake"
    fake.write_text(FAKE)
    fake.chmod(0o755)

    async def test(guests: Guests) -> None:
        guest = await guests.start(python=str(fake))
        ended = await guest.exit_of(1)
        assert (ended.exit_code, ended.signal, ended.last_words) == (None, "SIGSEGV", "no such thing\n")
        await guest.client.start_kernel(2)
        await guest.client.kill_kernel()
        assert (await guest.exit_of(2)).signal == "SIGKILL"

    try:
        with_guests(test)
    finally:
        fake.unlink()


def test_a_kernel_that_cannot_be_started_has_ended(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start(python="/nonexistent/python")
        ended = await guest.exit_of(1)
        assert (ended.exit_code, ended.signal) == (None, None)
        assert "No such file" in ended.last_words

    with_guests(test)


@pytest.mark.skipif("coverage" in sys.modules, reason="what measures coverage imports more into every process")
def test_a_guest_serves_without_openssl_and_the_transport_directory_has_a_part_for_each(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        found = {
            name: (stat.S_IMODE(at.st_mode), at.st_uid)
            for name in ("guest", "guest/http.sock", "kernel", "kernel/g1.json")
            for at in [(guest.directory / "t" / name).stat()]
        }
        assert found == {
            "guest": (0o700, 0),
            "guest/http.sock": (0o600, 0),
            "kernel": (0o700, guest.user),
            "kernel/g1.json": (0o600, guest.user),
        }
        loaded = Path(f"/proc/{guest.pid}/maps").read_text()
        assert "libc.so" in loaded
        assert "libssl" not in loaded
        assert "libcrypto" not in loaded
        home = guest.directory / "h"
        assert (home / ".link/fonts").read_text() == "prebuilt"
        assert {path.lstat().st_uid for path in home.rglob("*")} == {guest.user}

    with_guests(test)


def test_the_watch_tells_that_the_guest_is_gone(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await guest.exit_of(1)
        os.kill(guest.pid, signal.SIGKILL)
        await guest.told(lambda one: one == "gone")
        assert guest.story.count("gone") == 1

    with_guests(test)


def test_a_guest_that_is_silent_is_gone(with_guests: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.guest_client.client.SILENCE_SECONDS", 6.5)
    monkeypatch.setattr("kernels.guest_client.client.PROBE_SECONDS", 1.0)

    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await asyncio.sleep(7)  # heartbeats carry it over
        assert "gone" not in guest.story
        os.kill(guest.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(60):
                await guests.tasks[0]
            assert guest.story[-1] == "gone"
        finally:
            os.kill(guest.pid, signal.SIGCONT)

    with_guests(test)
