"""What a note of the notebook says of variables that a kernel has lost or taken up: names, and no other text."""

from __future__ import annotations

from kernel_gateway.services.sessions.session_variables import _describe
from sandcell.models.sessions import Restored, RestoredVariable


def test_a_note_names_what_are_names_and_counts_the_rest() -> None:
    lies = ("x`\n\n# The service was sold", "![](https://tracker.test/x.png)", "two words")
    variables = [RestoredVariable(name, "lost") for name in (*lies, "größe", "frame")]
    note = _describe(Restored(2, "today", 0, variables))
    assert "Lost: `größe`, `frame` and 3 more." in note
    assert not [lie for lie in lies if lie in note]


def test_a_note_of_no_name_says_how_many_there_are() -> None:
    note = _describe(Restored(2, "today", 0, [RestoredVariable("no name", "lost")]))
    assert "Lost: none that can be named and 1 more." in note
