"""Checks of the family protocol: outputs belong to who made them, memory stays bounded, neighbours are answered."""

from __future__ import annotations

import time

from tests.escape.forgery import FORGED
from tests.escape.outside import MEGABYTE, restarted, service_bytes
from tests.escape.position import Scene

MOST_BYTES = 800 * MEGABYTE
"""Of the service at its peak: several messages of the largest size at once, never a multiple of one message."""


def attributed(scene: Scene, word: str) -> None:
    """What is forged is in no other execution, also of those that come after, and the kernel goes on."""
    after = scene.session.run("print(6 * 7)", timeout_seconds=180)
    if after.death is not None:  # it asked its own kernel to end, which takes a moment
        after = scene.session.run("print(6 * 7)", timeout_seconds=180)
    assert after.stdout == "42\n", after
    for execution in scene.client.list_executions(scene.session.id, limit=1000).items[:-3]:
        told = repr((execution.stdout, execution.stderr, execution.outputs, execution.error))
        assert word not in told, execution
    bounded(scene)


def bounded(scene: Scene) -> None:
    assert service_bytes(scene) < MOST_BYTES


def neighbour_is_answered(scene: Scene, word: str) -> None:
    """While the attack goes on; the bound catches a service that is held up for half a minute at every step."""
    began = time.monotonic()
    for _ in range(5):
        scene.neighbour.unharmed()
    assert time.monotonic() - began < 150
    time.sleep(max(0.0, 1.2 - (time.monotonic() - began)))
    attributed(scene, word)


def replaced(scene: Scene, word: str = FORGED) -> None:
    """The next kernel is one."""
    restarted(scene)
    assert scene.session.run("print(6 * 7)", timeout_seconds=180).stdout == "42\n"
    bounded(scene)


def races_end(scene: Scene) -> None:
    """A task outlives kernels and replaces their sockets for a while: the start goes on until one is left alone."""
    task = scene.session.command("python3 /tmp/racer.py", background=True, timeout_seconds=10)
    time.sleep(0.3)
    restarted(scene)
    while scene.client.get_task(scene.session.id, task.id).status == "running":
        time.sleep(0.1)
    replaced(scene)
