"""A kernel in a real sandbox: it dies in every way, is replaced, and says why; the sandbox dies too."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kernels.environment import Environment, Resources
from kernels.errors import Death, SandboxFailed, SandboxGone
from kernels.execution.execution import Event, Outcome
from kernels.guest_client import client as guest_client
from kernels.guest_client.client import KernelStarted
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo, SandboxSpec
from kernels.sandboxed import sandboxed_kernel
from kernels.sandboxed.kernel_events import KernelEvent, KernelReplaced, SandboxLost
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from tests.shared_guest import share_guest


@dataclass
class Stage:
    """A live kernel and what its owner was told."""

    runtime: OciRuntime
    launcher: KernelLauncher
    kernel: SandboxedKernel
    happened: list[KernelEvent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def replaced(self) -> list[KernelReplaced]:
        return [each for each in self.happened if isinstance(each, KernelReplaced)]

    @property
    def gone(self) -> list[Death]:
        return [each.death for each in self.happened if isinstance(each, SandboxLost)]

    async def run(self, code: str, timeout_seconds: float = 120, **how: Any) -> Outcome:
        return await self.kernel.execute(code, timeout_seconds=timeout_seconds, emit=self.events.append, **how)

    async def text(self, code: str) -> str:
        outcome = await self.run(code)
        assert outcome.status == "ok", outcome
        return str(outcome.outputs[-1]["data"]["text/plain"])

    def first_process(self) -> int:
        process = self.runtime.places.of(self.kernel.info.sandbox_id).first_process()
        assert process is not None
        return process


Test = Callable[[Stage], Awaitable[None]]


async def nothing(_info: SandboxInfo) -> None:
    """No workspace to restore."""


LITTLE_MEMORY = Resources(memory_mb=768)
"""For tests that fill it: most of what they cost is the writing."""


@pytest.fixture
def resources(environment: Environment) -> Resources:
    """What a stage's sandbox may use; a test that needs less has a parameter of this name."""
    return environment.resources


@pytest.fixture
def on_stage(
    runtime_name: str, tmp_path: Path, short_directory: Path, environment: Environment, resources: Resources
) -> Callable[[Test], None]:
    """Runs a coroutine function with a live kernel; its sandbox is destroyed afterwards."""

    async def run(test: Test) -> None:
        runtime = OciRuntime(
            RuntimeSettings(runtime_name, share_guest(tmp_path / "data", short_directory), short_directory)
        )
        launcher = KernelLauncher(runtime, KernelLimits(interrupt_grace_seconds=3))
        try:
            spec = SandboxSpec(str(uuid.uuid4()), dataclasses.replace(environment, resources=resources))
            happened: list[KernelEvent] = []
            kernel = await launcher.launch(spec, before_first_code=nothing, on_event=happened.append)
            stage = Stage(runtime, launcher, kernel, happened)
            try:
                await test(stage)
            finally:
                await stage.kernel.destroy()
            assert await runtime.list() == ()
        finally:
            await runtime.aclose()

    return lambda test: asyncio.run(run(test))


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.02)


STUBBORN = """
while True:
    try:
        while True:
            pass
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.parametrize("start_seconds", [0.5, 600])
def test_code_that_did_not_stop_has_ended_although_no_kernel_follows_it(
    on_stage: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch, start_seconds: float
) -> None:
    async def test(stage: Stage) -> None:
        asked = asyncio.Event()

        async def start_kernel(*_generation: object, **_how: object) -> KernelStarted:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        monkeypatch.setattr(sandboxed_kernel, "_KILL_SECONDS", 0.1)
        monkeypatch.setattr(stage.kernel.guest, "start_kernel", start_kernel)
        stage.kernel._limits = replace(stage.kernel._limits, start_seconds=start_seconds)
        outcome = await stage.run(STUBBORN, timeout_seconds=1)
        assert (outcome.status, outcome.death and outcome.death.cause) == ("timeout", "deadline")
        assert asked.is_set()
        if start_seconds == 600:
            assert not stage.gone
            return
        await eventually(lambda: bool(stage.gone))
        assert "no kernel started in it within 0.5 s" in stage.gone[0].detail
        with pytest.raises(SandboxGone, match="no kernel started"):
            await stage.run("1")

    on_stage(test)


def test_globals_stay_until_the_kernel_dies(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        await stage.run("x = 41")
        assert await stage.text("x + 1") == "42"
        outcome = await stage.run("import os; os._exit(3)")
        assert (outcome.status, outcome.death and outcome.death.exit_code) == ("died", 3)
        assert (await stage.run("x")).error.name == "NameError"  # type: ignore[union-attr]
        assert [(each.generation, each.death and each.death.cause) for each in stage.replaced] == [(2, "exit")]

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_commands_of_code_have_no_terminal_to_ask_on(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        asked = await stage.run("!read x; read x </dev/tty; (read x <&2); echo on")
        assert (asked.status, asked.stdout.split()[-1]) == ("ok", "on"), asked
        asked = await stage.run("!python3 -c 'import getpass; getpass.getpass()'; test -t 1 && echo coloured")
        assert (asked.status, "EOFError" in asked.stdout, asked.stdout.split()[-1]) == ("ok", True, "coloured"), asked

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_kernel_that_dies_while_idle_is_replaced_at_once(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        await stage.run("import os, threading; threading.Timer(0.2, os.kill, (os.getpid(), 11)).start()")
        await eventually(lambda: bool(stage.replaced))
        assert stage.replaced[0].death is not None
        assert stage.replaced[0].death.signal == "SIGSEGV"
        assert await stage.text("6 * 7") == "42"

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_code_that_ignores_interrupts_is_killed_at_its_deadline(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        outcome = await stage.run("import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)", 3)
        assert (outcome.status, outcome.death and outcome.death.cause) == ("timeout", "deadline")
        assert stage.kernel.generation == 2
        assert await stage.text("6 * 7") == "42"

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_restarts_at_once_from_many_sides_are_one_restart_each(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        await stage.run("x = 1")
        generations = await asyncio.gather(*(stage.kernel.restart() for _ in range(3)))
        assert max(generations) == stage.kernel.generation
        assert [each.generation for each in stage.replaced] == list(range(2, stage.kernel.generation + 1))
        assert (await stage.run("x")).status == "error"

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_restart_ends_what_runs(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        running = asyncio.create_task(stage.run("print('begun')\nimport time; time.sleep(60)"))
        await eventually(lambda: any("begun" in event.data.get("text", "") for event in stage.events))
        await stage.kernel.restart()
        outcome = await running
        assert (outcome.status, outcome.death and outcome.death.cause) == ("died", "restart")

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_sandbox_killed_from_outside_is_gone_for_good(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        running = asyncio.create_task(stage.run("print('begun')\nimport time; time.sleep(60)"))
        await eventually(lambda: any("begun" in event.data.get("text", "") for event in stage.events))
        os.kill(stage.first_process(), signal.SIGKILL)
        outcome = await running
        assert (outcome.status, outcome.death and outcome.death.cause) == ("died", "sandbox")
        await eventually(lambda: bool(stage.gone))
        with pytest.raises(SandboxGone):
            await stage.run("1")
        with pytest.raises(SandboxGone):
            await stage.kernel.restart()
        assert len(stage.gone) == 1

    on_stage(test)


@pytest.fixture
def short_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest counts as silent after a moment."""
    monkeypatch.setattr(guest_client, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(guest_client, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(sandboxed_kernel, "_SILENCE_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize("runtime_name", ["runc"])
@pytest.mark.usefixtures("short_silences")
def test_a_guest_that_gets_no_turn_is_waited_for(
    on_stage: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork bomb on a busy host may take all of the sandbox's processor time, for half a minute and more."""

    async def test(stage: Stage) -> None:
        running, silences = stage.runtime.running, []

        async def look(sandbox_id: str) -> bool:
            silences.append(await running(sandbox_id))
            return silences[-1]

        monkeypatch.setattr(stage.runtime, "running", look)
        await stage.run("x = 41")
        os.kill(stage.first_process(), signal.SIGSTOP)
        try:
            await eventually(lambda: len(silences) > 10 or bool(stage.gone))
        finally:
            os.kill(stage.first_process(), signal.SIGCONT)
        assert stage.gone == []
        assert await stage.text("x + 1") == "42"

    on_stage(test)


@pytest.mark.parametrize("runtime_name", ["runc"])
@pytest.mark.usefixtures("short_silences")
def test_a_guest_that_never_answers_again_is_given_up_and_it_is_said_that_it_ran(
    on_stage: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxed_kernel, "_SILENT_SECONDS", 1.0)

    async def test(stage: Stage) -> None:
        code = asyncio.create_task(stage.run("print('begun')\nimport time; time.sleep(600)"))
        await eventually(lambda: any("begun" in event.data.get("text", "") for event in stage.events))
        os.kill(stage.first_process(), signal.SIGSTOP)
        outcome = await code
        assert outcome.death is not None
        assert outcome.death.cause == "sandbox"
        assert "runs but did not answer" in outcome.death.detail
        assert stage.gone == [outcome.death]

    on_stage(test)


@pytest.mark.sample("sandboxed")
@pytest.mark.parametrize("runtime_name", ["runc"])
@pytest.mark.parametrize("resources", [LITTLE_MEMORY])
def test_memory_that_outlives_its_processes_does_not_keep_the_next_kernel_from_starting(
    on_stage: Callable[[Test], None],
) -> None:
    """System V segments are there until somebody removes them."""
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
while True:
    ctypes.memset(libc.shmat(libc.shmget(0, 64 << 20, 0o1600), None, 0), 1, 64 << 20)
"""

    async def test(stage: Stage) -> None:
        outcome = await stage.run(code)
        assert (outcome.status, outcome.death and outcome.death.cause) == ("died", "oom")
        assert await stage.text("6 * 7") == "42"
        assert stage.kernel.generation == 2
        assert (await stage.kernel.usage()).memory_bytes < 512 << 20
        assert await stage.text("len(open('/proc/sysvipc/shm').readlines())") == "1"

    on_stage(test)


@pytest.mark.sample("sandboxed")
@pytest.mark.parametrize("resources", [LITTLE_MEMORY])
def test_a_sandbox_that_runs_out_of_memory_as_a_whole_says_so(on_stage: Callable[[Test], None]) -> None:
    """As under gVisor, where all of a sandbox is one process to the host."""

    async def test(stage: Stage) -> None:
        Path(f"/proc/{stage.first_process()}/oom_score_adj").write_text("1000")
        outcome = await stage.run("import os\nwhile True: os.write(os.memfd_create('held'), bytes(1 << 20))")
        limit = (await stage.kernel.usage()).memory_limit_bytes
        await eventually(lambda: bool(stage.gone))
        for death in (outcome.death, stage.gone[0]):
            assert death is not None
            assert (death.cause, death.memory_limit_bytes) == ("oom", limit)
            assert 0.95 * limit < (death.memory_peak_bytes or 0) <= limit + (1 << 20)  # pages charged ahead
        with pytest.raises(SandboxGone, match="768 MB of memory"):
            await stage.run("1")

    on_stage(test)


FILL = "python3 -c 'held = bytearray(2 << 30); held[:] = bytes(2 << 30)'"


@pytest.mark.sample("sandboxed")
@pytest.mark.parametrize("runtime_name", ["runc"])
@pytest.mark.parametrize("resources", [LITTLE_MEMORY])
def test_only_what_memory_has_cost_is_said_to_be_memory(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        died = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        await stage.kernel.memory.open((85, 95))  # from then on kills are counted only where memory came near its limit
        stage.kernel.memory.begin(lambda _usage, _began: None)
        assert await stage.text("1") == "1"
        assert await stage.text(f"import os; os.system({FILL!r}) >> 8") == "137"
        assert (await stage.kernel.usage()).oom_kills == 1
        outcome = await stage.run(died)
        assert (outcome.death and outcome.death.cause) == "signal"
        command = await stage.kernel.guest.run_command(FILL, timeout_seconds=120, output_bytes=1000)
        assert command.exit_code == 137
        stage.kernel.note_life()
        outcome = await stage.run(died)
        assert (outcome.death and outcome.death.cause) == "signal"
        outcome = await stage.run("held = bytearray(2 << 30)\nfor at in range(0, 2 << 30, 4096): held[at] = 1")
        assert (outcome.death and outcome.death.cause) == "oom"

    on_stage(test)


BOMB = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.001)
"""


@pytest.mark.sample("sandboxed")
@pytest.mark.parametrize("runtime_name", ["runc"])
@pytest.mark.parametrize("resources", [Resources(pids=150)])
def test_a_command_finds_room_where_another_has_left_a_fork_bomb(
    on_stage: Callable[[Test], None], resources: Resources
) -> None:
    """What nobody waits for is killed when no process fits; the kernel, its globals and what it started stay."""

    async def test(stage: Stage) -> None:
        await stage.run("import subprocess; child = subprocess.Popen(['sleep', '1000'])")
        guest = stage.kernel.guest
        await guest.run_command(f"python3 -c '{BOMB}'", timeout_seconds=600, output_bytes=1000)
        while (await stage.kernel.usage()).pids < resources.pids - 1:
            await asyncio.sleep(0.05)
        command = await guest.run_command("echo there is room", timeout_seconds=600, output_bytes=1000)
        assert command.stdout == "there is room\n"
        assert (await stage.kernel.usage()).pids < 50
        assert await stage.text("str(child.poll())") == "'None'"

    on_stage(test)


def test_a_sandbox_is_taken_up_again_with_its_globals(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        await stage.run("x = 41")
        await stage.kernel.aclose()
        stage.kernel = await stage.launcher.adopt(stage.kernel.info)
        assert await stage.text("x + 1") == "42"
        assert stage.kernel.generation == 1

    on_stage(test)


COUNT_INTERRUPTS = """
import pathlib, signal, time
caught = 0
def catch(*_signal):
    global caught
    caught += 1
signal.signal(signal.SIGINT, catch)
print('begun', flush=True)
while not pathlib.Path('enough').exists():
    time.sleep(0.01)
caught
"""


@pytest.mark.sample("sandboxed")
def test_an_interrupt_of_code_that_has_ended_meets_none_that_runs_after_it(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        async def say(line: str) -> None:
            await stage.kernel.guest.run_command(line, timeout_seconds=120, output_bytes=1_000)

        await stage.run("1", execution_id="first")
        running = asyncio.create_task(stage.run(COUNT_INTERRUPTS, execution_id="second"))
        await eventually(lambda: any("begun" in event.data.get("text", "") for event in stage.events))
        for late in ("first", "first", "second"):
            await stage.kernel.interrupt(late)
            await say("sleep 0.2")  # two that come at the same time count as one
        await say("touch enough")
        outcome = await running
        assert (outcome.status, outcome.outputs[-1]["data"]["text/plain"]) == ("ok", "1")

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_busy_sandbox_is_taken_up_while_it_is_busy(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        code = "y = 0\ntry:\n  print('begun')\n  while True: y += 1\nexcept KeyboardInterrupt: pass"
        running = asyncio.create_task(stage.run(code))
        await eventually(lambda: any("begun" in event.data.get("text", "") for event in stage.events))
        await stage.kernel.aclose()
        with pytest.raises(SandboxGone):
            await running
        async with asyncio.timeout(120):
            stage.kernel = await stage.launcher.adopt(stage.kernel.info)
        await stage.kernel.interrupt()
        assert await stage.text("y > 0") == "True"

    on_stage(test)


@pytest.mark.long
@pytest.mark.parametrize("runtime_name", ["runc", "crun"])
def test_what_was_flushed_right_before_the_end_of_a_kernel_is_there(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        for end in ("os._exit(0)", "os.kill(os.getpid(), 9)") * 10:
            outcome = await stage.run(f"import os; print('last words', flush=True); {end}")
            assert (outcome.status, outcome.stdout) == ("died", "last words\n"), end

    on_stage(test)


@pytest.mark.sample("sandboxed")
@pytest.mark.parametrize("end", ["deadline", "death"])
def test_what_a_replaced_kernel_said_is_there_for_who_takes_up_the_sandbox_before_it_was_stored(
    on_stage: Callable[[Test], None], end: str
) -> None:
    """The process ends when the next kernel is there, and has not written down how the code ended."""
    deaf = "while True:\n  try: time.sleep(100)\n  except KeyboardInterrupt: pass"
    dies = "while not os.path.exists('/tmp/heard'): time.sleep(0.01)\nos._exit(7)"

    async def test(stage: Stage) -> None:
        code = f"import os, time\nprint('shown', flush=True)\n{deaf if end == 'deadline' else dies}"
        seconds = 2.0 if end == "deadline" else 120.0
        running = asyncio.create_task(stage.run(code, seconds, execution_id="one"))
        # What a process has not sent yet when it ends is lost with it.
        await eventually(lambda: bool(stage.events))
        await stage.kernel.guest.run_command("touch /tmp/heard", timeout_seconds=60, output_bytes=100)
        told = await running
        await eventually(lambda: stage.kernel.generation == 2 and stage.kernel.hub is not None)
        await stage.kernel.aclose()
        stage.kernel = await stage.launcher.adopt(stage.kernel.info, heard={})
        assert stage.kernel.find_taken("one") is not None
        again = await stage.run("raise RuntimeError('not sent again')", seconds, execution_id="one", elapsed_seconds=50)
        assert (again.status, again.stdout) == (told.status, "shown\n")
        assert again.death is not None
        if end == "deadline":
            assert (again.status, again.death) == ("timeout", told.death)
        stage.kernel.settle(again, "one")
        assert await stage.text("6 * 7") == "42"
        await stage.kernel.aclose()
        stage.kernel = await stage.launcher.adopt(stage.kernel.info)
        assert stage.kernel.find_taken("one") is None

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_kernel_that_cannot_start_any_more_says_so_and_recovers_when_it_can(on_stage: Callable[[Test], None]) -> None:
    """A background task of the user's own, which outlives kernels, spoils what each kernel reads first."""
    spoil = (
        "import contextlib, glob, time\nwhile True:\n"
        "    for path in glob.glob('/run/sandcell/kernel/g*.json'):\n"
        "        with contextlib.suppress(OSError): open(path, 'w').write('{')\n"
        "    time.sleep(0.001)"
    )

    async def test(stage: Stage) -> None:
        guest = stage.kernel.guest
        task = await guest.run_command(
            f'exec python3 -c "{spoil}"', timeout_seconds=600, output_bytes=1000, background=True
        )
        await stage.run("import time\nwhile open('/run/sandcell/kernel/g1.json').read() != '{': time.sleep(0.01)")
        with pytest.raises(SandboxFailed, match="no kernel starts"):
            await stage.kernel.restart()
        with pytest.raises(SandboxFailed):
            await stage.run("1")
        assert (await guest.stop_task(task.id)).status == "stopped"
        assert await stage.text("6 * 7") == "42"

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_kernel_starts_also_where_code_has_closed_its_directory(on_stage: Callable[[Test], None]) -> None:
    async def test(stage: Stage) -> None:
        died = await stage.run("import os\nos.chmod('/run/sandcell/kernel', 0)\nos._exit(0)")
        assert died.status == "died"
        assert await stage.text("6 * 7") == "42"
        assert stage.kernel.generation == 2

    on_stage(test)


@pytest.mark.sample("sandboxed")
def test_a_preparation_that_fails_leaves_no_sandbox(
    runtime_name: str, tmp_path: Path, short_directory: Path, environment: Environment
) -> None:
    async def fail(_info: SandboxInfo) -> None:
        raise ValueError("the workspace could not be restored")

    async def test() -> None:
        runtime = OciRuntime(
            RuntimeSettings(runtime_name, share_guest(tmp_path / "data", short_directory), short_directory)
        )
        try:
            with pytest.raises(ValueError, match="restored"):
                await KernelLauncher(runtime, KernelLimits()).launch(
                    SandboxSpec(str(uuid.uuid4()), environment), before_first_code=fail
                )
            assert await runtime.list() == ()
        finally:
            await runtime.aclose()

    asyncio.run(test())


@pytest.mark.sample("sandboxed")
def test_a_sandbox_that_ends_while_it_starts_is_said_at_once(
    runtime_name: str, tmp_path: Path, short_directory: Path, environment: Environment
) -> None:
    """A root in which the guest cannot run: its interpreter is another program."""
    broken = dataclasses.replace(environment, python="/bin/true")

    async def test() -> None:
        runtime = OciRuntime(
            RuntimeSettings(runtime_name, share_guest(tmp_path / "data", short_directory), short_directory)
        )
        launcher = KernelLauncher(runtime, KernelLimits(start_seconds=100))
        try:
            async with asyncio.timeout(120):
                with pytest.raises(SandboxFailed, match="ended while it started"):
                    await launcher.launch(SandboxSpec(str(uuid.uuid4()), broken), before_first_code=nothing)
            assert await runtime.list() == ()
        finally:
            await runtime.aclose()

    asyncio.run(test())
