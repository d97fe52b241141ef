"""What a kernel does its own way at the end of a run. Pure.

A `Dialect` is of one run. IPython's is the plain one: what it published before it says that it is idle has left before.
"""

from __future__ import annotations

from typing import Any

from kernels.execution.outputs import UserError


class Dialect:
    """IPython's way."""

    def closing(self, code: str, reply: dict[str, Any], *, interrupted: bool) -> str | None:
        """Code to run, silently, after the reply and idle: what it publishes belongs to the run, up to its end."""
        return None

    def closes(self, msg_type: str, content: dict[str, Any]) -> bool:
        """Whether this message of the closing code's is the last of the run."""
        return False

    def says_interrupted(self, error: UserError) -> bool:
        """Whether an error is what an interrupt leaves."""
        return error.name in ("KeyboardInterrupt", "CancelledError")  # the second where a cell waits in an `await`

    def says_done(self, reply: dict[str, Any]) -> bool:
        """Whether a run that was interrupted and shows no error ended by itself, or took the interrupt for its own."""
        return reply.get("status") in ("ok", "error", "aborted")

    def describe_error(self, error: UserError) -> UserError:
        """The error of a run that was interrupted, in words that say so."""
        return error
