"""Deno's way: what it needs at its start, and at the end of a run. Pure.

Its kernel says that it is idle while what the code printed still waits to be published, loses what is written past
`console`, does not say what is wrong with code that cannot be parsed, and asks for input that never comes. Code of
ours in `deno_prelude.js` mends each; nothing in it is secret from user code, which shares its globals.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, Final

from kernels.execution.dialect import Dialect
from kernels.execution.outputs import UserError

PRELUDE: Final = Path(__file__).with_name("deno_prelude.js").read_text()
"""Run once in each new kernel; again, it does nothing."""

_END: Final = "application/vnd.sandcell.end"
_UNEXPLAINED: Final = "Execution failed"
"""What the kernel says of code that it could not parse or load, and of code that was terminated."""
_INTERRUPTED: Final = UserError("Interrupted", "the code was interrupted; what it had set by then is still set", [])
_EXPLAINED_BYTES: Final = 1_000_000
"""The longest code that is parsed again to say what is wrong with it."""


class DenoDialect(Dialect):
    """One run's."""

    def __init__(self) -> None:
        self._marker = uuid.uuid4().hex

    def closing(self, code: str, reply: dict[str, Any], *, interrupted: bool) -> str | None:
        """Code that publishes a marker behind everything else, and before it what is wrong with code that never ran."""
        unexplained = reply.get("evalue") == _UNEXPLAINED and not reply.get("traceback") and not interrupted
        unparsed = code if unexplained and len(code) < _EXPLAINED_BYTES else None
        return f"await globalThis.__sandcell.close({json.dumps(self._marker)}, {json.dumps(unparsed)})"

    def closes(self, msg_type: str, content: dict[str, Any]) -> bool:
        data = content.get("data")
        return msg_type == "display_data" and isinstance(data, dict) and data.get(_END) == self._marker

    def says_interrupted(self, error: UserError) -> bool:
        return error.name == _INTERRUPTED.name or (error.value == _UNEXPLAINED and not error.traceback)

    def describe_error(self, error: UserError) -> UserError:
        return _INTERRUPTED if self.says_interrupted(error) else error
