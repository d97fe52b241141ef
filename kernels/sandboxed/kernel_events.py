"""What happens to a live sandbox and its kernels by themselves, as their owner hears of it.

Events come on the loop, from a callback that is given when the sandbox is launched or adopted and that returns at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from kernels.errors import Death
from kernels.execution.hub import Hub


class KernelConnected(msgspec.Struct, frozen=True):
    """The next Python kernel is connected; nothing runs in it yet."""

    hub: Hub


class KernelReplaced(msgspec.Struct, frozen=True):
    """The Python kernel was replaced by a blank one, and why the old one is gone."""

    generation: int
    death: Death | None


class SecondConnected(msgspec.Struct, frozen=True):
    """A kernel for another language is connected; no code of a caller's runs in it yet."""

    hub: Hub
    runtime: str


class SecondDied(msgspec.Struct, frozen=True):
    """The kernel for `title` ended while nothing ran in it; otherwise the outcome of the run says so."""

    title: str
    death: Death


class SandboxLost(msgspec.Struct, frozen=True):
    """The sandbox itself is no more; said once, and last."""

    death: Death


KernelEvent: TypeAlias = KernelConnected | KernelReplaced | SecondConnected | SecondDied | SandboxLost
OnKernelEvent: TypeAlias = Callable[[KernelEvent], None]


def ignore_events(_event: KernelEvent) -> None:
    """For a sandbox whose owner asks instead of listening."""
