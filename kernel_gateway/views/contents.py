"""The list of contents of a page: headings of texts, and the first line of each cell's code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from kernel_gateway.views.facts import has_failed

MOST_ENTRIES: Final = 500
"""Of one list; a longer session is read by searching in the page."""
FEWEST_ENTRIES: Final = 4
"""A page with fewer is seen at one look."""

_HEADING: Final = re.compile(r"(#{1,3})[ \t]+(\S[^\n]{0,200})")
_FENCE: Final = re.compile(r"[ ]{0,3}(?:```|~~~)")
_MARKS: Final = re.compile(r"\[([^\]\n]{0,100})\]\([^)\n]{0,500}\)|[*`_]{1,3}|[ \t]#+[ \t]*$")
_LINE_CHARACTERS: Final = 60


def render_contents(cells: list[dict[str, Any]]) -> str:
    """A `nav` with links to cells, or nothing for a short notebook."""
    entries = list(_render_entries(cells))
    if len(entries) < FEWEST_ENTRIES:
        return ""
    shown, more = entries[:MOST_ENTRIES], len(entries) - MOST_ENTRIES
    if more > 0:
        shown.append(f"<li>and {more:,} more</li>")
    items = "\n".join(shown)
    return (
        '<nav class="sandcell-contents"><details open><summary>Contents</summary>\n'
        f"<ul>\n{items}\n</ul>\n</details></nav>\n"
    )


def _render_entries(cells: list[dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        link = f'<a href="#cell-{escape(cell["id"])}">'
        if cell["cell_type"] == "markdown":
            for level, text in _find_headings(cell["source"]):
                yield f'<li class="sandcell-level-{"abc"[level - 1]}">{link}{escape(text)}</a></li>'
        elif cell["cell_type"] == "code" and (line := _find_first_line(cell["source"])):
            count = cell["execution_count"]
            number = f'<span class="sandcell-count">[{" " if count is None else count}]</span> '
            bad = ' class="sandcell-failed"' if has_failed(cell) else ""
            yield f"<li{bad}>{link}{number}<code>{escape(line)}</code></a></li>"


def _find_headings(source: str) -> Iterator[tuple[int, str]]:
    """Level and words of each heading; what stands in a block of code is none."""
    fenced = False
    for line in source.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (found := _HEADING.fullmatch(line.rstrip()[:210])):
            yield len(found[1]), _MARKS.sub(lambda mark: mark[1] or "", found[2]).strip()


def _find_first_line(source: str) -> str:
    """The first line that does something, or the first comment."""
    lines = [line.strip() for line in source[:2_000].split("\n") if line.strip()]
    line = next((each for each in lines if not each.startswith(("#", "//", "%%"))), lines[0] if lines else "")
    return line if len(line) <= _LINE_CHARACTERS else line[: _LINE_CHARACTERS - 1] + "…"
