"""Which requests of a kernel carry out which execution, and which of them are under way. Pure.

A kernel names the request in everything that it publishes, long after it has answered it: a thread prints, a task of an
event loop goes on. What comes under a request that is under way belongs to its run; everything else is *late*.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from kernels.execution.widgets import COMMS
from kernels.wire.message import Message

MOST_RUNS: Final = 1_000
"""Requests whose execution is remembered, the latest ones."""
OUTPUTS: Final = frozenset({"stream", "display_data", "execute_result", "update_display_data", "error", "clear_output"})

_Request = tuple[str, str]


class PastRun(NamedTuple):
    """A request that an earlier process sent: what it said up to `number` is durable, with its late output."""

    execution_id: str
    msg_id: str
    session: str
    number: int


class Durable(NamedTuple):
    """What is durable of one stream: all up to `number`, and more of some runs, the latest of which are named."""

    number: int = 0
    runs: Sequence[PastRun] = ()


class Runs:
    """The requests to execute that one kernel has been sent, by their id and their session."""

    def __init__(self) -> None:
        self._executions: OrderedDict[_Request, str] = OrderedDict()
        self._durable: dict[str, int] = {}
        """By execution, of what comes once more after a restart: up to which number it is on record."""
        self._open: dict[str, str] = {}
        """Sessions of the requests that are under way, by their ids: one request, or two."""

    def remember(self, past: Sequence[PastRun]) -> None:
        """Requests of earlier processes, oldest first, so that what they still say is known and not taken twice."""
        for each in past:
            if each.msg_id:
                self._executions[each.msg_id, each.session] = each.execution_id
            if each.number:
                self._durable[each.execution_id] = max(each.number, self._durable.get(each.execution_id, 0))

    def begin(self, msg_id: str, session: str, execution_id: str) -> None:
        """This request runs for that execution; what it shows is its own until `end`."""
        self.attribute(msg_id, session, execution_id)
        self._open[msg_id] = session

    def attribute(self, msg_id: str, session: str, execution_id: str) -> None:
        """What comes of this request is late output of that execution: of a move of a widget that it shows."""
        self._executions[msg_id, session] = execution_id
        while len(self._executions) > MOST_RUNS:
            self._executions.popitem(last=False)

    def is_known(self, message: Message) -> bool:
        """Whether it came of a request that is some execution's."""
        return (message.parent_id, message.parent_session) in self._executions

    def end(self, msg_id: str, session: str) -> None:
        """Nobody listens to this request any more."""
        if self._open.get(msg_id) == session:
            del self._open[msg_id]

    @property
    def under_way(self) -> tuple[str, ...]:
        """Ids of the requests that are under way."""
        return tuple(self._open)

    def is_under_way(self, execution_id: str) -> bool:
        """Whether a request is that runs for this execution."""
        return any(self._executions.get(each) == execution_id for each in self._open.items())

    def late_of(self, message: Message, number: int) -> str | None:
        """The execution whose late output a published message is, empty when unknown; None when it is none.

        None too when it is on record already: `number` is where in the stream it ended, 0 without a relay.
        """
        if message.msg_type not in OUTPUTS and message.msg_type not in COMMS:
            return None
        if message.parent_type not in ("", "execute_request") and not self.is_known(message):
            return self._unless_durable("", number)
        session = self._open.get(message.parent_id)
        if session is not None and message.parent_session in ("", session):
            return None
        return self._unless_durable(self._executions.get((message.parent_id, message.parent_session), ""), number)

    def late_of_skipped(self, parent_id: str, number: int) -> str | None:
        """The same of a message that was too large to be read, of which only the parent's id is known."""
        if parent_id in self._open:
            return None
        found = (name for (msg_id, _), name in reversed(self._executions.items()) if msg_id == parent_id)
        return self._unless_durable(next(found, ""), number)

    def _unless_durable(self, execution_id: str, number: int) -> str | None:
        return execution_id if number > self._durable.get(execution_id, -1) else None
