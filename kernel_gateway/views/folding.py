"""Long outputs, folded: what is not shown at first opens at a click, without a script. Pure."""

from __future__ import annotations

from typing import Final

SHOWN_LINES: Final = 24
"""Of a long output before it is opened."""
FOLDED_FROM_LINES: Final = 40
"""An output of fewer lines is shown whole: what would be folded is hardly more than the line that opens it."""


def fold(html: str, *, keep_end: bool = False) -> str:
    """Blocks for coloured text, of which spans do not lie in each other: its first lines, or its last, and the rest."""
    count = html.count("\n") + (not html.endswith("\n"))
    if count < FOLDED_FROM_LINES:
        return f"<pre>{html}</pre>"
    lines = html.removesuffix("\n").split("\n")
    cut = count - SHOWN_LINES if keep_end else SHOWN_LINES
    before, after = _split("\n".join(lines[:cut]), "\n".join(lines[cut:]))
    hidden = cut if keep_end else count - cut
    words = f"{hidden:,} {'earlier' if keep_end else 'more'} lines"
    folded = f'<details class="sandcell-folded"><summary>{words}</summary><pre>{{}}</pre></details>'
    if keep_end:
        return f"{folded.format(before)}<pre>{after}</pre>"
    return f"<pre>{before}</pre>{folded.format(after)}"


def _split(before: str, after: str) -> tuple[str, str]:
    """Both parts whole: a span that is open where they meet is closed in the first and opened in the second."""
    opened = before.rfind("<span")
    if opened <= before.rfind("</span>"):
        return before, after
    tag = before[opened : before.index(">", opened) + 1]
    return f"{before}</span>", f"{tag}{after}"
