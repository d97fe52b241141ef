"""The states that a session's sandbox goes through, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """What a session has of a sandbox now."""

    ABSENT = "absent"
    """There is none; the next use launches one."""
    LAUNCHING = "launching"
    """One is being started."""
    RESTORING = "restoring"
    """Its kernel lives, and files of its workspace are still on their way: no code runs yet."""
    READY = "ready"
    """Its kernel takes code, and all of its workspace is there."""
    LEAVING = "leaving"
    """What is to outlive it is being made durable, and nobody gets at its kernel; then it goes, or is READY again."""
    LOST = "lost"
    """It is dead; what it left is still to be saved and removed."""
    CLOSING = "closing"
    """The session gives it up for good: it ends, or another process is to go on with it."""
    CLOSED = "closed"
    """Given up."""


MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.ABSENT: frozenset({State.LAUNCHING, State.READY, State.CLOSING}),  # READY: adopted, its files are there
    State.LAUNCHING: frozenset({State.RESTORING, State.ABSENT, State.CLOSING}),  # ABSENT: it did not start
    State.RESTORING: frozenset({State.READY, State.LOST, State.CLOSING}),
    State.READY: frozenset({State.LEAVING, State.LOST, State.CLOSING}),
    State.LEAVING: frozenset({State.READY, State.ABSENT, State.LOST, State.CLOSING}),  # READY: it was not to be
    State.LOST: frozenset({State.ABSENT, State.CLOSING}),
    State.CLOSING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}
ALIVE: Final = frozenset({State.RESTORING, State.READY})
"""There is a kernel, and nothing is known against it."""
GIVEN_UP: Final = frozenset({State.CLOSING, State.CLOSED})


class IllegalMove(RuntimeError):
    """A defect of the service: a sandbox was to get into a state that cannot follow the one that it is in."""


class SandboxState:
    """One sandbox's, from ABSENT on; `move` is the only way to change it."""

    def __init__(self) -> None:
        self.now = State.ABSENT

    def move(self, to: State) -> None:
        """Raises IllegalMove for what `MOVES` does not have."""
        if to not in MOVES[self.now]:
            raise IllegalMove(f"a sandbox that is {self.now.value} cannot be {to.value} next")
        self.now = to
