"""What the host's kernel counts by user: a sandbox uses up its own share, not its neighbours' and not the host's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.integration.oci.conftest import Sandboxes, Test

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
    """The kernel charges these also to whoever owns the user namespace: that must not be root for all of them."""

    async def test(sandboxes: Sandboxes) -> None:
        greedy, neighbour = await sandboxes.create(), await sandboxes.create()
        holding = asyncio.create_task(
            sandboxes.run(greedy, f"cat > /tmp/hold.py <<'END'\n{HOLD}\nEND\npython3 /tmp/hold.py > /tmp/taken")
        )
        try:
            taken: dict[str, int] = {}
            async with asyncio.timeout(90):
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
