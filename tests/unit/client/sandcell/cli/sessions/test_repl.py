"""When what is typed at the prompt is a whole input, and what completes it."""

from __future__ import annotations

import pytest

from sandcell.cli.sessions.repl import find_words, is_complete
from sandcell.models.inspection import CompletionMatch, Completions


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


@pytest.mark.parametrize(
    ("line", "word", "first", "texts", "words"),
    [
        ("df.gro", 3, 3, ["groupby", "groups"], ["groupby", "groups"]),
        ("df.gro", 3, 2, [".groupby", "other"], ["groupby"]),
        ("tempe", 0, 0, ["temperature"], ["temperature"]),
        ("%ti", 1, 0, ["%time", "%timeit"], ["time", "timeit"]),
        ("%ti", 0, 0, ["%time"], ["%time"]),
        ("open('da/fi", 9, 6, ["da/file.csv", "da/fi le"], ["file.csv", "fi le"]),
        ("open('da/fi", 6, 9, ["file.csv"], ["da/file.csv"]),
        ("a\x1b", 0, 0, ["a\x1b]0;title\x07", "a\u202e", "a\nb", "ab"], ["ab"]),
    ],
)
def test_matches_of_the_kernel_as_a_line_takes_them(
    line: str, word: int, first: int, texts: list[str], words: list[str]
) -> None:
    above = len("for n in x:\n")
    matches = [CompletionMatch(text) for text in texts]
    assert find_words(Completions(1, matches, above + first, above + len(line)), above, word, line) == words


def test_matches_that_begin_in_an_earlier_line_change_none_of_it() -> None:
    found = Completions(1, [CompletionMatch("ab"), CompletionMatch("xab")], 3, 9)
    assert find_words(found, 5, 0, "abcd") == []
