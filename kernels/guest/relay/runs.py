"""The runs that a gateway asked for and is not done with: none is begun twice, each ends at its deadline."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable

MOST_RUNS = 1_000
"""Remembered, the latest ones; a gateway has one for each kernel."""
MARGIN_SECONDS = 15.0
"""How much later than a gateway that is there the guest ends code: it may hang."""
_DELIMITER = b"<IDS|MSG>"
_MOST_HEADER_BYTES = 16 * 1024


class Run:
    """One of them; in JSON it is `{id, msg_id, session, seconds, grace_seconds}`."""

    def __init__(self, described: bytes, kernel: str, generation: int, key: str = "") -> None:
        """Raises ValueError."""
        fields = json.loads(described)
        if not isinstance(fields, dict):
            raise ValueError("a run is an object")
        self.id, self.msg_id, self.session = (str(fields.get(name, "")) for name in ("id", "msg_id", "session"))
        self.seconds, self.grace_seconds = float(fields.get("seconds", 0)), float(fields.get("grace_seconds", 0))
        self.kernel, self.generation, self.key = kernel, generation, key
        self.ended = False
        self.noted: set[str] = set()
        """Why its kernel was interrupted, of what is on record."""
        self.timer: asyncio.TimerHandle | None = None

    def describe(self) -> dict[str, object]:
        """For a gateway that comes back."""
        return {
            "id": self.id,
            "msg_id": self.msg_id,
            "session": self.session,
            "kernel": self.kernel,
            "generation": self.generation,
            "key": self.key,
        }

    def end(self) -> None:
        """Its code has ended, or its kernel: nothing has to be ended any more."""
        self.ended = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Runs:
    """Those of all kernels of the sandbox."""

    def __init__(self, forgotten: Callable[[], None] = lambda: None) -> None:
        """`forgotten` is called when a gateway is done with one."""
        self._forgotten = forgotten
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def add(self, run: Run) -> bool:
        """Remember it; False when it was taken before, and is not to be begun again."""
        if run.id in self._runs:
            return False
        self._runs[run.id] = run
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)[1].end()
        return True

    def forget(self, run_id: str) -> None:
        """Its outcome is durable."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.end()
            self._forgotten()

    def remembers(self, kernel: str, generation: int) -> bool:
        """Whether a gateway is not done yet with something that ran in that kernel."""
        return any((each.kernel, each.generation) == (kernel, generation) for each in self._runs.values())

    def of(self, kernel: str, generation: int) -> list[Run]:
        """Those of one kernel that have not ended."""
        return [
            each
            for each in self._runs.values()
            if not each.ended and (each.kernel, each.generation) == (kernel, generation)
        ]

    def describe(self) -> list[dict[str, object]]:
        return [each.describe() for each in self._runs.values()]


class Deadline:
    """Ends one run: interrupts it twice, then has its kernel killed. `say` hears of each stage."""

    def __init__(
        self,
        run: Run,
        *,
        attended: Callable[[], bool],
        interrupt: Callable[[], object],
        kill: Callable[[], object],
        say: Callable[[str, str], None],
    ) -> None:
        self._run = run
        self._attended = attended
        self._stages = (("interrupt", interrupt), ("interrupt", interrupt), ("kill", kill))
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + run.seconds
        self._later(run.seconds, self._check)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._run.timer = self._loop.call_later(max(seconds, 0), call)

    def _check(self) -> None:
        """A gateway that is there has a deadline of its own for it, which comes first."""
        last = self._due + self._run.grace_seconds + MARGIN_SECONDS
        if self._attended() and self._loop.time() < last:
            self._later(min(1.0, last - self._loop.time()), self._check)
        else:
            self._act(0)

    def _act(self, stage: int) -> None:
        if self._run.ended:
            return
        name, act = self._stages[stage]
        self._say(self._run.id, name)
        act()
        if stage + 1 < len(self._stages):
            self._later(self._run.grace_seconds / 2, lambda: self._act(stage + 1))


def replied_to(piece: bytes) -> str:
    """The request that a message on shell answers as `execute_reply`, by its first piece; empty if it answers none."""
    parts: list[bytes] = []
    position = 0
    try:
        while position < len(piece) and len(parts) < 16:
            long = piece[position] & 2
            size = int.from_bytes(piece[position + 1 : position + 9], "big") if long else piece[position + 1]
            position += 9 if long else 2
            parts.append(piece[position : position + min(size, _MOST_HEADER_BYTES + 1)])
            position += size
        start = parts.index(_DELIMITER) + 2
        if max(len(parts[start]), len(parts[start + 1])) > _MOST_HEADER_BYTES:
            return ""
        header, parent = json.loads(parts[start]), json.loads(parts[start + 1])
        return str(parent["msg_id"]) if header["msg_type"] == "execute_reply" else ""
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return ""
