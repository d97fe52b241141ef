"""Code that says that it has ended: the kernel's own word for it counts, and what comes later is kept apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.wire.message import Message
from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

OnKernel = Callable[[Callable[[Runner], Any]], Any]

SAY_IDLE = "get_ipython().kernel._publish_status('idle', 'shell')\n"
AWAITED = "import asyncio\n" + SAY_IDLE + "await asyncio.sleep(1.3)\nprint('after')"
SLEPT = "import time\n" + SAY_IDLE + "time.sleep(1.3)\nprint('after')"
AT_ONCE = SAY_IDLE + "for number in range(100): print(number, flush=True)\n'done'"
UNHEARD = SAY_IDLE + "import time\ntime.sleep(0.2)\nNone"


def test_idle_that_code_says_ends_nothing(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        for code in (SLEPT, AWAITED):
            outcome = await runner.run(code)
            assert (outcome.status, outcome.stdout) == ("ok", "after\n")
            assert "idle and then showed more" in outcome.note
        outcome = await runner.run(AT_ONCE)
        assert outcome.stdout == "".join(f"{number}\n" for number in range(100))
        assert outcome.outputs[-1]["data"] == {"text/plain": "'done'"}
        assert (await runner.run(UNHEARD)).note == ""
        assert (await runner.run("'as ever'")).note == ""

    on_kernel(scenario)


def test_idle_that_code_says_does_not_outlast_the_deadline(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run(SAY_IDLE + "import time\ntime.sleep(60)", timeout=1.5)
        assert (outcome.status, outcome.needs_kill) == ("timeout", False)

    on_kernel(scenario)


LOSE_THE_END = """
session = get_ipython().kernel.session
send = session.send
def lose(stream, what, content=None, *arguments, **options):
    ends = what == "status" and content["execution_state"] == "idle"
    if ends:
        session.send = send
    if not ends and what != "execute_reply":
        return send(stream, what, content, *arguments, **options)
session.send = lose
"""


def test_an_error_after_which_nothing_comes_is_an_end(on_kernel: OnKernel) -> None:
    """As when a second interrupt meets the kernel after it has shown what the first one did."""

    async def scenario(runner: Runner) -> None:
        outcome = await runner.run(LOSE_THE_END + "1/0")
        assert (outcome.status, outcome.error and outcome.error.name) == ("error", "ZeroDivisionError")
        assert outcome.note == "the kernel sent no reply; the end of the output may be missing"
        assert (await runner.run("'as ever'")).note == ""
        shown = "try:\n    1/0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\n"
        outcome = await runner.run(shown + "import time\ntime.sleep(1.5)\nprint('goes on')")
        assert (outcome.status, outcome.stdout, outcome.note) == ("ok", "goes on\n", "")

    on_kernel(scenario)


THREAD = """
import os, threading, time
def wait_and_print(file, text):
    while not os.path.exists(file):
        time.sleep(0.01)
    print(text)
threading.Thread(target=wait_and_print, args=("now", "late")).start()
threading.Thread(target=wait_and_print, args=("while it runs", "in time")).start()
"""
TASK = """
import asyncio
async def wait_and_display():
    while not os.path.exists("now"):
        await asyncio.sleep(0.01)
    display("later")
task = asyncio.create_task(wait_and_display())
"""
RUNS = "open('while it runs', 'w')\ntime.sleep(0.5)\nprint('mine')"


def test_what_comes_after_the_end_names_the_execution_that_began_it(start: Callable[[], RunningKernel]) -> None:
    kernel = start()

    async def scenario(runner: Runner) -> None:
        late: dict[str, str] = {}

        def deliver(channel: str, message: Message) -> None:
            whose = runner.hub.runs.late_of(message, runner.hub.position) if channel == "iopub" else None
            if whose is not None:
                late[whose] = late.get(whose, "") + str(message.content.get("text") or message.content["data"])

        runner.hub.subscribe(deliver)
        assert (await runner.run(THREAD, execution_id="first")).stdout == ""
        assert (await runner.run(TASK, execution_id="second")).outputs == []
        assert (await runner.run(RUNS, execution_id="third")).stdout == "in time\nmine\n"
        Path(kernel.directory, "home", "now").touch()
        async with asyncio.timeout(120):
            while set(late) != {"first", "second"} or not late["first"].endswith("\n"):
                await asyncio.sleep(0.01)
        assert late == {"first": "late\n", "second": "{'text/plain': \"'later'\"}"}

    asyncio.run(with_hub(kernel, scenario))
