"""`on_kernel(scenario)` runs an async scenario against one real kernel shared by a module; `start` makes others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

Scenario = Callable[[Runner], Awaitable[Any]]


@pytest.fixture(scope="module")
def kernel() -> Iterator[RunningKernel]:
    running = RunningKernel()
    yield running
    running.stop()


@pytest.fixture
def on_kernel(kernel: RunningKernel) -> Callable[[Scenario], Any]:
    return lambda scenario: asyncio.run(with_hub(kernel, scenario))


@pytest.fixture
def start() -> Iterator[Callable[..., RunningKernel]]:
    """Starts kernels that end with the test."""
    started: list[RunningKernel] = []

    def one(*command: str) -> RunningKernel:
        started.append(RunningKernel(command) if command else RunningKernel())
        return started[-1]

    yield one
    for running in started:
        running.stop()
