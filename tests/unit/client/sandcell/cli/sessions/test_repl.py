"""When what is typed at the prompt is a whole input."""

from __future__ import annotations

import pytest

from sandcell.cli.sessions.repl import is_complete


@pytest.mark.parametrize(
    "source", ["", "1 + 1", "x = [1,\n2]", "for n in x:\n    print(n)\n", "%time x", "!ls", "x = = 1", "\0"]
)
def test_whole_inputs(source: str) -> None:
    assert is_complete(source)


@pytest.mark.parametrize(
    "source", ["for n in x:", "for n in x:\n    print(n)", "f(", "print('a'", '"""', "if x: pass\nelse:"]
)
def test_inputs_that_go_on(source: str) -> None:
    assert not is_complete(source)
