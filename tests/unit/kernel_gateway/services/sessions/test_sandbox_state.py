"""The table of a sandbox's states: nothing is out of reach, and what it does not have is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from kernel_gateway.services.sessions.sandbox_state import ALIVE, GIVEN_UP, MOVES, IllegalMove, SandboxState, State


def within_reach(state: State) -> set[State]:
    """`state`, and all that may come after it."""
    found, left = {state}, [state]
    while left:
        new = MOVES[left.pop()] - found
        found |= new
        left += new
    return found


def path_to(state: State) -> list[State]:
    """The moves that lead from the beginning to `state`."""
    paths: list[list[State]] = [[]]
    for path in paths:
        now = path[-1] if path else State.ABSENT
        if now is state:
            return path
        paths += [[*path, each] for each in sorted(MOVES[now], key=lambda one: one.value) if each not in path]
    raise AssertionError(f"nothing leads to {state}")


def sandbox_in(state: State) -> SandboxState:
    sandbox = SandboxState()
    for each in path_to(state):
        sandbox.move(each)
    return sandbox


def test_every_state_has_a_row_and_is_reached() -> None:
    assert set(MOVES) == set(State)
    assert within_reach(State.ABSENT) == set(State)


def test_the_only_end_is_closed_and_every_state_may_come_to_it() -> None:
    assert {state for state, following in MOVES.items() if not following} == {State.CLOSED}
    assert all(State.CLOSED in within_reach(state) for state in State)


def test_what_is_given_up_stays_so() -> None:
    assert within_reach(State.CLOSING) == GIVEN_UP
    assert not ALIVE & GIVEN_UP


def test_code_runs_only_after_the_workspace_is_there() -> None:
    """A launch leads to READY by RESTORING alone; what skips it is the adoption of a sandbox that was ready before."""
    assert State.READY not in MOVES[State.LAUNCHING]
    before = {state for state, following in MOVES.items() if State.READY in following}
    assert before == {State.ABSENT, State.RESTORING, State.LEAVING}
    assert {state for state, following in MOVES.items() if State.LEAVING in following} == {State.READY}


def test_a_lost_sandbox_is_cleared_away_before_another_is_launched() -> None:
    assert {state for state, following in MOVES.items() if State.LAUNCHING in following} == {State.ABSENT}
    assert MOVES[State.LOST] == {State.ABSENT, State.CLOSING}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(State, State)), ids=lambda each: str(each.value))
def test_a_move_is_made_or_refused_as_the_table_has_it(state: State, to: State) -> None:
    sandbox = sandbox_in(state)
    if to in MOVES[state]:
        sandbox.move(to)
        assert sandbox.now is to
        return
    with pytest.raises(IllegalMove, match=state.value):
        sandbox.move(to)
    assert sandbox.now is state


def test_the_picture_in_the_docs_is_the_table() -> None:
    page = (Path(__file__).parents[5] / "docs" / "explanation" / "architecture.md").read_text()
    picture = page.partition("stateDiagram-v2")[2].partition("```")[0]
    arrows = {(one, other) for one, other in re.findall(r"(\w+) --> (\w+)", picture)}
    assert arrows == {(state.value, to.value) for state, following in MOVES.items() for to in following}
