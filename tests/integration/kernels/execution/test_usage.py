"""What a run used, as a real kernel tells it: processor time, memory, bytes, its children's included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.execution.run_usage import RunUsage
from tests.integration.kernels.execution.running_kernel import Runner

OnKernel = Callable[[Callable[[Runner], Any]], Any]
MEGABYTE = 1_000_000


def used(on_kernel: OnKernel, code: str) -> RunUsage:
    async def scenario(runner: Runner) -> RunUsage:
        outcome = await runner.run(code)
        assert outcome.usage is not None, outcome
        return outcome.usage

    usage: RunUsage = on_kernel(scenario)
    return usage


def test_processor_time_is_that_of_the_cell_and_of_the_children_it_waited_for(on_kernel: OnKernel) -> None:
    busy = "import time; until = time.process_time() + 0.3\nwhile time.process_time() < until: pass"
    assert used(on_kernel, busy).cpu_seconds >= 0.3
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    assert used(on_kernel, child).cpu_seconds >= 0.3
    assert used(on_kernel, "import time; time.sleep(0.5)").cpu_seconds < 0.3


def test_the_memory_of_one_cell_is_not_told_of_the_next(on_kernel: OnKernel) -> None:
    large = used(on_kernel, "block = bytearray(b'1') * 300_000_000; del block").memory_peak_bytes
    small = used(on_kernel, "1").memory_peak_bytes
    assert large is not None
    assert small is not None
    assert large > 300 * MEGABYTE > small > MEGABYTE


def test_bytes_read_and_written_are_counted_with_those_of_children(on_kernel: OnKernel) -> None:
    before = used(on_kernel, "1")
    writing = used(on_kernel, "with open('f', 'wb') as f: f.write(bytes(5_000_000))")
    assert before.written_bytes is not None
    assert writing.written_bytes is not None
    assert before.written_bytes < MEGABYTE
    assert 5 * MEGABYTE <= writing.written_bytes < 6 * MEGABYTE
    reading = used(on_kernel, "import subprocess; subprocess.run('cat f > g', shell=True, check=True)")
    assert reading.read_bytes is not None
    assert 5 * MEGABYTE <= reading.read_bytes < 7 * MEGABYTE


def test_an_error_and_an_interrupt_have_their_usage_too(on_kernel: OnKernel) -> None:
    assert used(on_kernel, "1/0").cpu_seconds >= 0

    async def scenario(runner: Runner) -> None:
        outcome = await runner.run("import time; time.sleep(60)", timeout=0.5)
        assert outcome.status == "timeout"
        assert outcome.usage is not None

    on_kernel(scenario)


def test_code_that_takes_the_means_away_gets_its_answer_all_the_same(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        outcome = await runner.run("import resource; kept = resource.getrusage; resource.getrusage = None")
        assert (outcome.status, outcome.usage) == ("ok", None)
        outcome = await runner.run("resource.getrusage = kept")
        assert outcome.status == "ok"
        assert (await runner.run("1")).usage is not None

    on_kernel(scenario)


def test_a_lie_has_the_form_of_a_truth_or_is_dropped(on_kernel: OnKernel) -> None:
    async def scenario(runner: Runner) -> None:
        assert (await runner.run("k = get_ipython().kernel; kept = k._meter.read")).status == "ok"
        for lie in ("{'cpu_seconds': -1}", "{'cpu_seconds': 'x' * 100_000}", "{'cpu_seconds': 1, 'read_bytes': 2**70}"):
            assert (await runner.run(f"k._meter.read = lambda: {lie}")).usage is None
        assert (await runner.run("k._meter.read = kept")).status == "ok"

    on_kernel(scenario)
