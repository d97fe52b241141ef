"""How a run of code ended: what a kernel's user hears of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernels.errors import Death
from kernels.execution.outputs import Outputs, Truncated, UserError
from kernels.execution.run_usage import RunUsage


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `status` is one of ok, error, timeout, interrupted, died.

    `needs_kill`: the kernel still runs the code, or cannot be reached, and has to be killed and replaced. `note` says
    in a sentence what is doubtful about this outcome, if anything. `displays` and `updates` are as of `Outputs`.
    `usage` is what the kernel said of it, if it did. `heard` is where in the kernel's `stream` it ended,
    and `request` the id and the session of the message that carried the code.
    """

    status: str
    execution_count: int | None = None
    stdout: str = ""
    stderr: str = ""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    error: UserError | None = None
    truncated: Truncated = field(default_factory=Truncated)
    death: Death | None = None
    needs_kill: bool = False
    note: str = ""
    usage: RunUsage | None = None
    displays: dict[str, list[int]] = field(default_factory=dict)
    updates: dict[str, dict[str, Any]] = field(default_factory=dict)
    stream: str = ""
    heard: int = 0
    request: tuple[str, str] = ("", "")


def whole_outputs(shown: Outputs, error: UserError | None) -> list[dict[str, Any]]:
    """The outputs, with an error that only the reply spoke of at their end."""
    if error is None or shown.error is not None:
        return shown.outputs
    output = {"output_type": "error", "ename": error.name, "evalue": error.value, "traceback": error.traceback}
    return [*shown.outputs, output]
