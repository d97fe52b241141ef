"""What bounds the kernels of a sandbox."""

from __future__ import annotations

import msgspec

from kernels.execution.outputs import OutputCaps


class KernelLimits(msgspec.Struct, frozen=True):
    """Bounds on one kernel: its outputs, the grace after an interrupt, how long a start may take."""

    caps: OutputCaps = msgspec.field(default_factory=OutputCaps)
    interrupt_grace_seconds: float = 5.0
    start_seconds: float = 60.0
