"""What is struck out of an execution before its last row is written: in its code, its texts and its errors. Pure.

Images stay as they are, and so do the texts that callers are sent while and shortly after it runs: it is the record
that keeps no secrets. A secret of which one half fell to a cut is no longer what its pattern matches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, StoredUpdate
from kernels.notebook.transcript import BINARY
from sandcell.models.executions import ExecutionError, LargeVariable, MemoryShortage


class Redaction:
    """The patterns of the settings, on rows."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns

    @property
    def wanted(self) -> bool:
        """Whether there is any pattern; without one nothing need be asked."""
        return bool(self._patterns)

    def text(self, text: str) -> str:
        return self._patterns.redact(text)

    def row(self, row: ExecutionRow) -> ExecutionRow:
        """The row as it may be stored."""
        if not self.wanted:
            return row
        outcome = None if row.outcome is None else self.outcome(row.outcome)
        return replace(row, code=self.text(row.code), outcome=outcome)

    def outcome(self, outcome: StoredOutcome) -> StoredOutcome:
        """The outcome without what the patterns match."""
        error = outcome.error
        if error is not None:
            error = ExecutionError(self.text(error.name), self.text(error.value), self._lines(error.traceback))
        return msgspec.structs.replace(
            outcome,
            stdout=self.text(outcome.stdout),
            stderr=self.text(outcome.stderr),
            outputs=[self._output(each) for each in outcome.outputs],
            error=error,
            updates=[self._update(each) for each in outcome.updates],
            memory=None if outcome.memory is None else self._memory(outcome.memory),
        )

    def _memory(self, shortage: MemoryShortage) -> MemoryShortage:
        named = [
            LargeVariable(self.text(each.name), self.text(each.type), each.size_bytes) for each in shortage.largest
        ]
        return msgspec.structs.replace(shortage, largest=named)

    def _update(self, update: StoredUpdate) -> StoredUpdate:
        shown = self._output({"data": update.data, "metadata": update.metadata})
        return msgspec.structs.replace(update, data=shown["data"], metadata=shown["metadata"])

    def _output(self, output: dict[str, Any]) -> dict[str, Any]:
        data = output.get("data")
        if not isinstance(data, dict):
            kept = {name: each for name, each in output.items() if name in {"output_type", "name"}}
            if isinstance(lines := output.get("traceback"), list):
                kept["traceback"] = self._lines(lines)
            return {name: kept[name] if name in kept else self._values(each) for name, each in output.items()}
        shown = {kind: value if kind in BINARY else self._values(value) for kind, value in data.items()}
        return {**output, "data": shown, "metadata": self._values(output.get("metadata", {}))}

    def _lines(self, lines: list[str]) -> list[str]:
        """Lines of one text: what a pattern matches may begin in one of them and end in another."""
        return self.text("\n".join(lines)).split("\n") if lines else lines

    def _values(self, value: Any) -> Any:
        """Every text in a JSON value, names included; a text of several lines may be a list of them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._values(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self._values(each) for name, each in value.items()}
        return value
