"""gVisor's own checkpoints: what of a sandbox is saved with it, and what keeps it from being saved."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from kernels.environment import Environment
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxSpec
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from tests.integration.kernels.sandboxed.stage import Stage, nothing
from tests.shared_guest import share_guest

HOLD = """
import mmap, os, subprocess, threading, time
held, counted, memory, output = [1], 0, mmap.mmap(-1, 4096), open("/tmp/output", "w+")
def count():
    global counted
    while True:
        counted += 1
        time.sleep(0.02)
thread = threading.Thread(target=count, daemon=True)
thread.start()
echo = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
memory[:4], before = b"kept", os.getpid()
output.write("one ")
output.flush()
"""
USE = """
seen = counted
while counted == seen:
    time.sleep(0.01)
echo.stdin.write(b"said\\n")
echo.stdin.flush()
output.write("two")
output.flush()
bytes(memory[:4]), echo.stdout.readline(), os.getpid() == before, open("/tmp/output").read(), held
"""
USED = "(b'kept', b'said\\n', True, 'one two', [1])"
LISTEN = "import socket; one = socket.socket(); one.bind(('127.0.0.1', 5000)); one.listen()"
BIND = "one.close(); one = socket.socket(socket.AF_UNIX); one.bind('/workspace/socket')"
DELETE = "one.close(); import tempfile; one = tempfile.TemporaryFile()"


@pytest.mark.long
def test_threads_open_files_and_processes_are_saved_and_what_cannot_be_is_left_running(
    tmp_path: Path, short_directory: Path, environment: Environment
) -> None:
    settings = RuntimeSettings(
        "runsc", share_guest(tmp_path / "data", short_directory), short_directory, checkpoints=True
    )
    asyncio.run(one_sandbox(OciRuntime(settings), environment))


async def one_sandbox(runtime: OciRuntime, environment: Environment) -> None:
    launcher = KernelLauncher(runtime, KernelLimits())
    kernel = await launcher.launch(SandboxSpec(str(uuid.uuid4()), environment), before_first_code=nothing)
    stage, sandbox_id = Stage(launcher, kernel), kernel.info.sandbox_id
    try:
        await stage.python(HOLD)
        for _ in range(2):  # what was restored can be saved again
            cpu = (await runtime.usage(sandbox_id)).cpu_seconds
            assert (await kernel.save()).moved_bytes > 1_000_000
            saved = await runtime.usage(sandbox_id)
            assert (saved.memory_bytes, saved.pids) == (0, 0)
            assert saved.cpu_seconds >= cpu
            assert await runtime.running(sandbox_id)
            assert await stage.python("thread.is_alive(), counted > 0") == "(True, True)"
        assert await stage.python(USE) == USED
        assert await stage.shell("echo there") == "there\n"
        assert (await runtime.usage(sandbox_id)).cpu_seconds >= saved.cpu_seconds
        assert kernel.generation == 1
        await stage.python(LISTEN)
        assert "listens at TCP port 5000" in (await kernel.save()).why
        await stage.python(BIND)
        assert "Unix socket at /workspace/socket" in (await kernel.save()).why
        await stage.python(DELETE)
        assert "a deleted file is open, /tmp/" in (await kernel.save()).why
        assert await stage.python("held") == "[1]"
    finally:
        await kernel.destroy()
        assert await runtime.list() == ()
        await runtime.aclose()
