"""The list of contents leads to every heading and to every cell with code."""

from __future__ import annotations

from kernel_gateway.views.contents import MOST_ENTRIES, render_contents
from tests.unit.kernel_gateway.views.notebooks import code, markdown


def numbered(*cells: dict[str, object]) -> list[dict[str, object]]:
    return [{**cell, "id": f"c{number}"} for number, cell in enumerate(cells)]


def test_headings_and_cells_are_listed_in_order() -> None:
    text = "# The `data` <b>\n\n```python\n# no heading\n```\n## See [here](https://a.example) ##\n#### too deep\n#none"
    listed = render_contents(
        numbered(
            markdown(text), code("# a comment\n\nx = '<'"), code("1/0", status="error"), code("%%bash\nls"), code("")
        )
    )
    for part in (
        '<li class="sandcell-level-a"><a href="#cell-c0">The data &lt;b&gt;</a></li>',
        '<li class="sandcell-level-b"><a href="#cell-c0">See here</a></li>',
        '<li><a href="#cell-c1"><span class="sandcell-count">[1]</span> <code>x = &#x27;&lt;&#x27;</code></a></li>',
        '<li class="sandcell-failed"><a href="#cell-c2">',
        "<code>ls</code>",
    ):
        assert part in listed, part
    assert listed.count("<li") == 5


def test_a_short_notebook_has_none_and_a_long_one_says_what_is_missing() -> None:
    assert render_contents(numbered(code(), code(), code())) == ""
    listed = render_contents(numbered(*(code(f"x = {number}") for number in range(MOST_ENTRIES + 7))))
    assert listed.count("<a ") == MOST_ENTRIES
    assert "<li>and 7 more</li>" in listed


def test_a_long_line_is_cut() -> None:
    listed = render_contents(numbered(*(code("y" * 100_000) for _ in range(4))))
    assert "…</code>" in listed
    assert len(listed) < 2_000
