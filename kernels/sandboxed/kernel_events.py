"""What happens to a live sandbox and its kernels by themselves, as their owner hears of it.

Events come on the loop, from a callback that is given when the sandbox is launched or adopted and that returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kernels.errors import Death
from kernels.execution.hub import Hub


@dataclass(frozen=True)
class KernelConnected:
    """The next Python kernel is connected; nothing runs in it yet."""

    hub: Hub


@dataclass(frozen=True)
class KernelReplaced:
    """The Python kernel was replaced by a blank one, and why the old one is gone."""

    generation: int
    death: Death | None


@dataclass(frozen=True)
class SecondConnected:
    """A kernel for another language is connected; no code of a caller's runs in it yet."""

    hub: Hub
    runtime: str


@dataclass(frozen=True)
class SecondDied:
    """The kernel for `title` ended while nothing ran in it; otherwise the outcome of the run says so."""

    title: str
    death: Death


@dataclass(frozen=True)
class SandboxLost:
    """The sandbox itself is no more; said once, and last."""

    death: Death


KernelEvent: TypeAlias = KernelConnected | KernelReplaced | SecondConnected | SecondDied | SandboxLost
OnKernelEvent: TypeAlias = Callable[[KernelEvent], None]


def ignore_events(_event: KernelEvent) -> None:
    """For a sandbox whose owner asks instead of listening."""
