"""Executions on a real kernel: what they show, how they end, what they leave for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import DeadlineExceeded
from kernels.execution.execution import Outcome
from kernels.execution.outputs import Event, OutputCaps
from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OnKernel = Callable[[Callable[[Runner], Any]], Any]
SOON_SECONDS = 2
"""A deadline that code reaches its loop before, also where the kernel has to wait for its turn."""


def run(on_kernel: OnKernel, *codes: str, **options: Any) -> Outcome:
    """The outcome of the last of these."""

    async def scenario(runner: Runner) -> Outcome:
        for code in codes[:-1]:
            await runner.run(code)
        return await runner.run(codes[-1], **options)

    outcome: Outcome = on_kernel(scenario)
    return outcome


def test_globals_live_on_and_a_result_is_shown(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "x = 41", "x + 1")
    assert outcome.status == "ok"
    (result,) = outcome.outputs
    assert result["output_type"] == "execute_result"
    assert result["data"] == {"text/plain": "42"}
    assert result["execution_count"] == outcome.execution_count


def test_code_finds_the_garbage_collector_at_work(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "import gc; gc.isenabled()")
    assert outcome.outputs[0]["data"] == {"text/plain": "True"}


def test_jupyters_clients_are_imported_by_code_that_asks_for_them(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "import sys; [name for name in sys.modules if 'jupyter_client.manager' in name]")
    assert outcome.outputs[0]["data"] == {"text/plain": "[]"}
    outcome = run(
        on_kernel,
        "import jupyter_client\n"
        "assert not hasattr(jupyter_client, 'nothing') and 'run_kernel' in dir(jupyter_client)\n"
        "from jupyter_client import *\n"
        "client = get_ipython().kernel.parent.blocking_client()\n"
        "KernelManager is jupyter_client.manager.KernelManager, type(client).__name__",
    )
    assert outcome.outputs[0]["data"] == {"text/plain": "(True, 'BlockingKernelClient')"}, outcome.error


def test_events_come_in_order_and_say_what_the_outcome_says(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run(
            "import sys\nfrom IPython.display import display\n"
            "print('one', flush=True); print('two', file=sys.stderr, flush=True)\ndisplay({'a': 1}); 7"
        )
        # ipykernel may send what one print wrote in more than one message; an outcome has it in one piece.
        shown = [event.data.get("name", event.kind) for event in runner.events]
        assert [each for each, _ in itertools.groupby(shown)] == ["stdout", "stderr", "display", "result"]
        written = [event.data["text"] for event in runner.events if event.data.get("name") == "stdout"]
        assert "".join(written) == "one\n"
        assert [each["output_type"] for each in outcome.outputs] == [
            "stream",
            "stream",
            "display_data",
            "execute_result",
        ]
        assert (outcome.stdout, outcome.stderr) == ("one\n", "two\n")

    on_kernel(scenario)


def test_an_exception_is_an_outcome_with_a_traceback_without_colours(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "def f():\n    return 1 / 0\nf()")
    assert outcome.status == "error"
    assert outcome.error is not None
    assert (outcome.error.name, outcome.error.value) == ("ZeroDivisionError", "division by zero")
    assert "\x1b" not in "".join(outcome.error.traceback)
    assert any("return 1 / 0" in line for line in outcome.error.traceback)
    assert all("\n" not in line for line in outcome.error.traceback)
    assert outcome.outputs[-1]["output_type"] == "error"


@pytest.mark.parametrize("code", ["for x in", "x = = 1", "\x00", "return 5"])
def test_code_that_is_none_is_an_outcome(on_kernel: OnKernel, code: str) -> None:
    outcome = run(on_kernel, code)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.name in {"SyntaxError", "ValueError"}


@pytest.mark.parametrize("code", ["input('name? ')", "import getpass; getpass.getpass()"])
def test_input_is_refused_at_once_with_a_sentence(on_kernel: OnKernel, code: str) -> None:
    outcome = run(on_kernel, code, timeout=120)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.value.startswith("input is not available")


def test_an_error_that_code_shows_and_handles_is_not_its_end(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()")
    assert (outcome.status, outcome.error) == ("ok", None)
    assert outcome.outputs[0]["ename"] == "ZeroDivisionError"


def test_a_question_mark_shows_its_page(on_kernel: OnKernel) -> None:
    (page,) = run(on_kernel, "len?").outputs
    assert "number of items" in page["data"]["text/plain"]


def test_a_display_is_updated_in_place(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run(
            "from IPython.display import display\nh = display('before', display_id=True)\nprint('x')\nh.update('after')"
        )
        assert [each.get("data") for each in outcome.outputs] == [{"text/plain": "'after'"}, None]
        later = await runner.run("h.update('much later')")
        assert later.outputs == []
        shown = [kind for kind, _ in itertools.groupby(event.kind for event in runner.events)]
        assert shown == ["display", "stream", "update"]
        displays = [event.data["display_id"] for event in runner.events if event.kind in ("display", "update")]
        assert len(displays) == 3
        assert len(set(displays)) == 1

    on_kernel(scenario)


def test_clearing_forgets_what_was_shown(on_kernel: OnKernel) -> None:
    code = "from IPython.display import clear_output\nfor i in range(5):\n    clear_output(wait=True); print(i)"
    assert run(on_kernel, code).stdout == "4\n"


def test_an_image_is_shown_as_one(on_kernel: OnKernel) -> None:
    code = f"from IPython.display import Image, display\nimport base64\ndisplay(Image(base64.b64decode('{DOT}')))"
    (image,) = run(on_kernel, code).outputs
    assert image["data"]["image/png"].startswith("iVBOR")


@pytest.mark.parametrize(
    "sabotage",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import os; os.close(1); os.close(2)",
        "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 1)",
        "import sys; sys.stdout = None; sys.stderr = None",
        "import io, sys; sys.stdout = io.StringIO(); sys.stderr = sys.stdout",
        "import sys; del sys.stdout",
    ],
)
def test_output_works_after_code_that_broke_it(on_kernel: OnKernel, sabotage: str) -> None:
    outcome = run(on_kernel, sabotage, "import os, sys; print('a'); os.system('echo b'); print('c', file=sys.stderr)")
    assert (outcome.stdout, outcome.stderr) == ("a\nb\n", "c\n")


def test_output_of_subprocesses_and_descriptors_comes_in_order(on_kernel: OnKernel) -> None:
    code = (
        "import os, subprocess\n"
        "for i in range(20):\n    print('py', i); subprocess.run(['echo', 'sub', str(i)]); os.write(1, b'fd\\n')\n"
    )
    expected = "".join(f"py {i}\nsub {i}\nfd\n" for i in range(20))
    assert run(on_kernel, code).stdout == expected


def test_a_subprocess_may_be_given_our_streams(on_kernel: OnKernel) -> None:
    code = "import subprocess, sys; print('a'); subprocess.run('echo b; echo c >&2', shell=True, stdout=sys.stdout); 0"
    outcome = run(on_kernel, code)
    assert (outcome.stdout, outcome.stderr) == ("a\nb\n", "c\n")


def test_a_flood_of_images_arrives_whole_and_in_order_and_the_kernel_stays_small(on_kernel: OnKernel) -> None:
    code = (
        "from IPython.display import display\n"
        "for i in range(150): display({'image/png': f'{i:03}' + 'A' * 1_000_000}, raw=True)\n"
        "rows = dict(row.split(':') for row in open('/proc/self/status'))\n"
        "int(rows['VmHWM'].split()[0]) // 1000"  # getrusage counts what the parent had before the exec
    )
    outcome = run(on_kernel, code, caps=OutputCaps(rich_bytes=1_000_000_000))
    *images, peak = outcome.outputs
    assert [each["data"]["image/png"][:3] for each in images] == [f"{i:03}" for i in range(150)]
    assert int(peak["data"]["text/plain"]) < 220, "megabytes"


def test_a_forked_child_prints_and_nothing_comes_twice(on_kernel: OnKernel) -> None:
    code = (
        "import os, multiprocessing as m\nprint('parent')\n"
        "p = m.get_context('fork').Process(target=print, args=('child',)); p.start(); p.join(); print('end')"
    )
    outcome = run(on_kernel, code)
    assert sorted(outcome.stdout.splitlines()) == ["child", "end", "parent"]


def test_nothing_comes_into_a_line_of_a_forked_child(on_kernel: OnKernel) -> None:
    code = (
        "import multiprocessing, time\nm = multiprocessing.get_context('fork'); begun, go = m.Event(), m.Event()\n"
        "def lines():\n    print('the child begins', end=''); begun.set(); go.wait(60); print(' and ends')\n"
        "    print('its last line', end='')\n"
        "p = m.Process(target=lines); p.start(); begun.wait(60); time.sleep(0.1)\n"
        "print('parent', flush=True); go.set(); p.join()"
    )
    outcome = run(on_kernel, code)
    assert outcome.stdout == "parent\nthe child begins and ends\nits last line"


def test_text_that_utf8_cannot_carry_is_replaced(on_kernel: OnKernel) -> None:
    outcome = run(on_kernel, "import os; print('\\ud800 ä'); os.write(1, 'ö\\n'.encode() + b'\\xff\\n'); None")
    assert outcome.stdout == "? ä\nö\n\ufffd\n"
    outcome.stdout.encode()


def test_what_a_thread_prints_after_its_cell_is_not_part_of_the_next(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        over, said = Path(runner.kernel.directory, "over"), Path(runner.kernel.directory, "said")
        started = await runner.run(
            "import os, threading, time\ndef late():\n"
            f"    while not os.path.exists({str(over)!r}): time.sleep(0.01)\n"
            f"    print('late', flush=True); open({str(said)!r}, 'x').close()\n"
            "t = threading.Thread(target=late); t.start()"
        )
        over.touch()
        async with asyncio.timeout(120):
            while not said.exists():
                await asyncio.sleep(0.01)
        assert (started.stdout, (await runner.run("t.join(); print('mine')")).stdout) == ("", "mine\n")

    on_kernel(scenario)


def test_past_its_deadline_code_is_interrupted_and_the_kernel_goes_on(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run("print('begun')\nwhile True: pass", timeout=SOON_SECONDS)
        assert (outcome.status, outcome.needs_kill, outcome.stdout) == ("timeout", False, "begun\n")
        assert outcome.error is not None
        assert outcome.error.name == "KeyboardInterrupt"
        assert (await runner.run("1")).status == "ok"

    on_kernel(scenario)


def test_code_that_catches_one_interrupt_gets_a_second(on_kernel: OnKernel) -> None:
    code = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(60)"
    outcome = run(on_kernel, code, timeout=0.2, grace=3)
    assert (outcome.status, outcome.needs_kill) == ("timeout", False)


def test_code_that_swallows_interrupts_needs_a_kill(start: Callable[..., RunningKernel]) -> None:
    async def scenario(runner: Runner) -> None:
        code = "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('no'))\nwhile True: time.sleep(0.01)"
        outcome = await runner.run(code, timeout=SOON_SECONDS, grace=3)
        assert (outcome.status, outcome.needs_kill) == ("timeout", True)
        assert outcome.stdout.startswith("no")

    asyncio.run(with_hub(start(), scenario))


@pytest.mark.parametrize("failing", ["hangs", "refuses"])
def test_an_interrupt_that_fails_does_not_hold_up_the_outcome(on_kernel: OnKernel, failing: str) -> None:
    async def scenario(runner: Runner) -> None:
        async def interrupt() -> None:
            if failing == "refuses":
                raise DeadlineExceeded("the guest does not answer")
            await asyncio.sleep(3600)

        outcome = await runner.run("import time; time.sleep(1)", timeout=0.1, grace=0.2, interrupt=interrupt)
        assert (outcome.status, outcome.needs_kill) == ("timeout", True)

    on_kernel(scenario)


def test_an_interrupt_that_someone_asked_for_is_told_from_one_that_code_raised(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        def interrupt(_event: Event) -> None:
            runner.hub.note_interrupt()
            runner.kernel.process.send_signal(signal.SIGINT)  # also for the event of the first one's error

        for _ in range(5):
            asked = await runner.run("print('go', flush=True)\nimport time; time.sleep(60)", emit=interrupt)
            assert asked.status == "interrupted"
        raised = await runner.run("raise KeyboardInterrupt")
        assert raised.status == "error"

    on_kernel(scenario)


AWAITED = """
import asyncio
async def compute():
    print("go", flush=True)
    while True:
        pass
async def compute_elsewhere():
    await asyncio.gather(asyncio.sleep(600), compute())
async def count():
    while True:
        yield 1
async def count_all():
    print("go", flush=True)
    async for each in count():
        async for other in count():
            pass
async def wait():
    print("go", flush=True)
    await asyncio.sleep(600)
async def wait_silently():
    await asyncio.sleep(600)
"""


@pytest.mark.parametrize(
    "code",
    [
        "await compute()",
        "await wait()",
        "await asyncio.gather(wait(), wait_silently())",
        "await compute_elsewhere()",
        "await asyncio.gather(wait_silently(), asyncio.wait_for(compute(), 600))",
        "await count_all()",
        "asyncio.get_running_loop().call_soon(lambda: compute().send(None)); await wait_silently()",
    ],
)
def test_an_interrupt_ends_a_cell_that_awaits(on_kernel: OnKernel, code: str) -> None:
    async def scenario(runner: Runner) -> None:
        def interrupt(event: Event) -> None:
            if event.kind == "stream" and "go" in event.data["text"]:
                runner.hub.note_interrupt()
                runner.kernel.process.send_signal(signal.SIGINT)

        await runner.run(AWAITED)
        outcome = await runner.run(code, emit=interrupt)
        assert outcome.status == "interrupted"
        assert outcome.error is not None
        assert outcome.error.name in ("KeyboardInterrupt", "CancelledError"), "by where it is as the signal comes"
        assert "interrupt_awaiting" not in "\n".join(outcome.error.traceback)
        after = await runner.run("await asyncio.sleep(0); print(len(asyncio.all_tasks()) < 9)")
        assert (after.status, after.stdout) == ("ok", "True\n")

    on_kernel(scenario)


LIBRARY = """
import asyncio, types
library = types.ModuleType("library")
exec('''
import asyncio, os, signal
begin = asyncio.Event()
async def compute():
    await begin.wait()
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
''', vars(library))
task = asyncio.create_task(library.compute())
"""


def test_an_interrupt_ends_what_an_earlier_cell_has_left_running_in_a_library(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        assert (await runner.run(LIBRARY)).status == "ok"
        runner.hub.note_interrupt()
        outcome = await runner.run("library.begin.set(); await asyncio.sleep(600)")
        assert outcome.error is not None
        assert outcome.error.name == "CancelledError"
        after = await runner.run("await asyncio.sleep(0); print(task.cancelled())")
        assert (after.status, after.stdout) == ("ok", "True\n")

    on_kernel(scenario)


def test_an_interrupt_while_the_kernel_makes_ready_ends_the_code(start: Callable[..., RunningKernel]) -> None:
    signal_itself = """
import os, signal
kernel = get_ipython().kernel
publish = kernel._publish_execute_input
def publish_and_signal(*arguments):
    publish(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
kernel._publish_execute_input = publish_and_signal
"""

    async def scenario(runner: Runner) -> None:
        await runner.run(signal_itself)
        running = asyncio.ensure_future(runner.run("import time; time.sleep(60)"))
        await asyncio.sleep(0)
        runner.hub.note_interrupt()
        outcome = await running
        assert (outcome.status, outcome.note) == ("interrupted", "")
        assert outcome.error is not None
        assert outcome.error.name == "KeyboardInterrupt"

    asyncio.run(with_hub(start(), scenario))


def test_an_interrupt_that_meets_ipython_before_the_code_ends_the_code(on_kernel: OnKernel) -> None:
    interrupt_once = """
import os, signal
def interrupt(_info):
    get_ipython().events.unregister("pre_run_cell", interrupt)
    os.kill(os.getpid(), signal.SIGINT)
get_ipython().events.register("pre_run_cell", interrupt)
"""

    async def scenario(runner: Runner) -> None:
        await runner.run(interrupt_once)
        running = asyncio.ensure_future(runner.run("ran = True"))
        await asyncio.sleep(0)
        runner.hub.note_interrupt()
        outcome = await running
        assert (outcome.status, outcome.error and outcome.error.name) == ("interrupted", "KeyboardInterrupt")
        assert (await runner.run("assert 'ran' not in globals()")).status == "ok"

    on_kernel(scenario)


def test_interrupted_code_that_the_kernel_gives_no_reply_to_is_interrupted(start: Callable[..., RunningKernel]) -> None:
    give_up = """
async def give_up(*request):
    raise KeyboardInterrupt
get_ipython().kernel.shell_handlers["execute_request"] = give_up
"""

    async def scenario(runner: Runner) -> None:
        await runner.run(give_up)
        running = asyncio.ensure_future(runner.run("1"))
        await asyncio.sleep(0)
        runner.hub.note_interrupt()
        outcome = await running
        assert (outcome.status, "no reply" in outcome.note) == ("interrupted", True)

    asyncio.run(with_hub(start(), scenario))


def test_an_interrupt_from_before_the_code_began_is_not_lost(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        running = asyncio.create_task(runner.run("import time; time.sleep(60)"))
        await asyncio.sleep(0)  # the request is out, and the kernel has not said anything yet
        runner.hub.note_interrupt()  # its signal found a kernel that ran nothing
        assert (await running).status == "interrupted"
        assert (await runner.run("'not met by it'")).status == "ok"

    on_kernel(scenario)


def test_a_shell_escape_has_no_input_to_wait_for(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        reading = await runner.run("name = 'x'\n!read {name}; echo ended $?; test -t 1 && echo coloured", timeout=120)
        assert (reading.status, reading.stdout.split()) == ("ok", ["ended", "1", "coloured"])
        asked = await runner.run("!python3 -c 'input()'", timeout=120)
        assert "EOFError" in asked.stdout
        assert (await runner.run("lines = !cat; echo done\nlines", timeout=120)).outputs[0]["data"]["text/plain"]
        assert (await runner.run("!exit 3\n_exit_code")).outputs[-1]["data"] == {"text/plain": "3"}

    on_kernel(scenario)


ASKED = """
import getpass
try:
    print("got", repr(getpass.getpass()))
except EOFError:
    print("nobody")
"""


def test_a_shell_escape_has_no_terminal_to_read(on_kernel: OnKernel) -> None:
    """As `ssh`, `sudo` and `passwd` do, which ask on the terminal itself, and pagers, which read where they write."""

    async def scenario(runner: Runner) -> None:
        for name in ("/dev/tty", "/proc/self/fd/1", "/proc/self/fd/2", "$(readlink /proc/$$/fd/2)"):
            reading = await runner.run(f"!sh -c 'read x <{name}'; echo ended", timeout=120)
            assert (reading.status, reading.stdout.split()[-1]) == ("ok", "ended"), name
        reading = await runner.run("!(read x <&1); (read x <&2); echo ended", timeout=120)
        assert (reading.status, reading.stdout.split()[-1]) == ("ok", "ended")
        asked = await runner.run(f"open('asks.py', 'w').write({ASKED!r})\n!python3 asks.py", timeout=120)
        assert (asked.status, asked.stdout.split()[-1]) == ("ok", "nobody")

    on_kernel(scenario)


def living(group: int) -> list[str]:
    """The processes of a group that are no zombies."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = each.read_text().rpartition(")")[2].split()[:3]
            found += [each.parent.name] if int(its_group) == group and state != "Z" else []
    return found


def test_an_interrupt_ends_a_shell_escape_and_what_it_started(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        def interrupt(event: Event) -> None:
            if "begun" in str(event.data):
                runner.kernel.process.send_signal(signal.SIGINT)

        heeding = "!trap 'echo heard; exit 4' INT; echo begun; sleep 60 & wait"
        assert "heard" in (await runner.run(heeding, emit=interrupt)).stdout
        deaf = await runner.run("!trap '' INT; echo begun $$; (sleep 60; true); echo on", emit=interrupt)
        assert "on" not in deaf.stdout
        group = int(deaf.stdout.split()[1])
        left = await runner.run("_exit_code")
        assert left.outputs[-1]["data"]["text/plain"] == "-9"
        while living(group):
            await asyncio.sleep(0.01)

    on_kernel(scenario)


def test_a_cancelled_caller_leaves_the_hub_usable(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        running = asyncio.create_task(
            runner.run("import time\nfor i in range(20): time.sleep(0.05); print('old')\n1/0")
        )
        async with asyncio.timeout(120):
            while not any("old" in event.data.get("text", "") for event in runner.events):
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        runner.events.clear()
        outcome = await runner.run("print('new')")
        assert (outcome.status, outcome.stdout, outcome.error) == ("ok", "new\n", None)
        assert "".join(event.data.get("text", "") for event in runner.events) == "new\n"

    on_kernel(scenario)


def test_an_error_of_a_listener_ends_the_run_with_that_error(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        def emit(_event: Event) -> None:
            raise RuntimeError("the listener is broken")

        with pytest.raises(RuntimeError, match="the listener"):
            await runner.run("print(1)", emit=emit)
        assert (await runner.run("2")).status == "ok"

    on_kernel(scenario)


def test_text_beyond_the_cap_keeps_head_and_tail_and_says_how_much_went(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        caps = OutputCaps(text_bytes=1000, event_text_bytes=5000)
        outcome = await runner.run("for i in range(50_000): print(i)", caps=caps)
        assert outcome.stdout.startswith("0\n1\n2\n")
        assert outcome.stdout.endswith("49998\n49999\n")
        assert len(outcome.stdout) < 1100
        assert f"[... {outcome.truncated.stdout:,} bytes cut ...]" in outcome.stdout
        assert outcome.truncated.stdout == 288_890 - 1000
        assert [event.kind for event in runner.events].count("truncated") == 1
        assert sum(len(event.data["text"]) for event in runner.events if event.kind == "stream") <= 5000

    on_kernel(scenario)


def test_a_display_larger_than_its_bound_leaves_a_note(on_kernel: OnKernel) -> None:
    code = "from IPython.display import HTML; HTML('x' * 3_000_000)"
    assert len(run(on_kernel, code).outputs[0]["data"]["text/html"]) == 3_000_000
    outcome = run(on_kernel, code, caps=OutputCaps(rich_bytes=1_000_000))
    assert outcome.outputs[0]["data"].keys() == {"text/plain"}
    assert "text/html" in outcome.outputs[0]["data"]["text/plain"]
    assert outcome.truncated.outputs > 3_000_000
