"""A traceback has colours by what its lines are, and all of its text."""

from __future__ import annotations

import re
from html import unescape

import pytest

from kernel_gateway.views.tracebacks import MOST_COLOURED_BYTES, colour_traceback
from tests.unit.kernel_gateway.views.test_sanitising import HOSTILE

IPYTHON = """---------------------------------------------------------------------------
ZeroDivisionError                         Traceback (most recent call last)
Cell In[4], line 8
      5 def outer(k):
----> 8 outer("<3>")

File /usr/lib/python3/x.py:6434, in Frame.get(self, name)
-> 6434 return 1 / n

ZeroDivisionError: division by <zero>"""
PYTHON = 'Traceback (most recent call last):\n  File "/workspace/a.py", line 1, in <module>\n    1/0\nx.Error: why'
DENO = "TypeError: Cannot read <null>\n    at <anonymous>:2:5"


def text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize(
    "traceback", [IPYTHON, PYTHON, DENO, "", "\n", *HOSTILE, *(f"---> 1 {each}" for each in HOSTILE)]
)
def test_nothing_is_lost_and_nothing_becomes_markup(traceback: str) -> None:
    html = colour_traceback(traceback)
    assert text(html) == re.sub(r"[\x00-\x08\x0b-\x1f]", "", traceback) or "\x1b" in traceback
    assert set(re.findall(r"</?([a-z]+)", html)) <= {"span"}


def test_lines_have_the_colour_of_their_kind() -> None:
    html = colour_traceback(IPYTHON)
    for part in (
        '<span class="sandcell-raised">ZeroDivisionError</span><span class="sandcell-quiet">    ',
        '<span class="sandcell-place">Cell In[4], line 8</span>',
        '<span class="sandcell-quiet">      5</span> <span class="k">def</span>',
        '<span class="sandcell-arrow">----&gt; 8</span> <span class="n">outer</span>',
        '<span class="sandcell-place">File /usr/lib/python3/x.py:6434</span>, in Frame.get(self, name)',
        '<span class="sandcell-raised">ZeroDivisionError</span>: division by &lt;zero&gt;',
    ):
        assert part in html, part
    assert '<span class="sandcell-raised">x.Error</span>: why' in colour_traceback(PYTHON)
    assert '<span class="sandcell-quiet">    at &lt;anonymous&gt;:2:5</span>' in colour_traceback(DENO)


def test_one_with_colours_keeps_them_and_a_long_one_has_none() -> None:
    assert colour_traceback("\x1b[31mValueError\x1b[0m: x") == '<span class="ansi-red-fg">ValueError</span>: x'
    assert "<span" not in colour_traceback("ValueError: x\n" * MOST_COLOURED_BYTES)
