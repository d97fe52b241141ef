"""A page shows what a cell showed, says what it leaves out, and holds nothing that acts or loads."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from kernel_gateway.views.page import POLICY, render_page
from kernels.errors import InvalidNotebook
from tests.unit.kernel_gateway.views.notebooks import code, display, error, markdown, stream, written
from tests.unit.kernel_gateway.views.test_sanitising import HOSTILE

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()


def page(*cells: dict[str, Any], **metadata: Any) -> str:
    """The body of the page."""
    whole = render_page(written(*cells, **metadata)).decode()
    assert whole.count("<body>") == whole.count("</body>") == 1
    return whole.partition("<body>")[2]


def test_the_page_is_complete_says_its_policy_and_is_the_same_each_time() -> None:
    notebook = written(code("x = 1"))
    whole = render_page(notebook).decode()
    assert whole == render_page(notebook).decode()
    assert whole.startswith("<!DOCTYPE html>\n<html")
    assert POLICY.replace("'", "&#x27;") in whole.partition("<style>")[0]
    assert "<title>Session s</title>" in whole
    assert (
        "<h1>flights &lt;1&gt;</h1>\n<p>Session s, 1 cells, run in python</p>"
        in render_page(
            written(code(), sandcell={"session_id": "s", "environment": "python", "name": "flights <1>"})
        ).decode()
    )
    assert not re.search(r"<script|<link|<iframe|@import|url\(", whole)
    assert set(re.findall(r"https?://[^\s\"'<]*", whole)) == set()


def test_each_kind_of_output_is_shown() -> None:
    made = page(
        code(
            "print(1 < 2)",
            stream("out\x1b[31mred\x1b[0m <b>"),
            stream("err", "stderr"),
            display(text__html="<table class='dataframe'><tr><td>5</td></tr></table>", text__plain="no"),
            display(image__png=PNG, text__plain="no"),
            display(image__svg_xml="<svg xmlns='http://www.w3.org/2000/svg'><script>run()</script></svg>"),
            display(text__markdown="*soft* <script>run()</script>"),
            display(text__latex="$x < 1$"),
            display(application__json={"a": [1, "<b>"]}),
            display(text__plain="<Figure>"),
            display(application__pdf="JVBERi0="),
            error("E<x>", "v", "\x1b[31mline <1>\x1b[0m", "E<x>: v"),
            error("OnlyName", "value"),
        )
    )
    for part in (
        '<span class="ansi-red-fg">red</span> &lt;b&gt;',
        '<div class="sandcell-output sandcell-stderr"><pre>err</pre></div>',
        '<table class="dataframe"><tbody><tr><td>5</td></tr></tbody></table>',
        f'src="data:image/png;base64,{PNG}"',
        'src="data:image/svg+xml;base64,',
        "<em>soft</em>",
        "<mi>x</mi><mo>&lt;</mo><mn>1</mn>",
        '"&lt;b&gt;"',
        "&lt;Figure&gt;",
        "[application/pdf: not shown]",
        '<span class="ansi-red-fg">line &lt;1&gt;</span>',
        '<span class="sandcell-raised">OnlyName</span>: value',
        '<article class="sandcell-cell" id="cell-c0">',
    ):
        assert part in made, part
    assert "no<" not in made


def test_facts_of_the_record_are_said_and_odd_ones_are_not() -> None:
    record = {
        "author": "a<b>",
        "face": "jupyter",
        "status": "timeout",
        "exit_code": 3,
        "started_at": "2026-01-01T10:00:00.000000Z",
        "ended_at": "2026-01-01T10:00:02.500000Z",
        "provenance": {
            "cpu_seconds": 1.25,
            "memory_peak_bytes": 50_000_000,
            "files": [{"path": f"{name}<.csv"} for name in "abcd"],
        },
    }
    record["full"] = [{"stream": "stdout", "sha256": "ab" * 32, "size": 1234567}, {"media_type": 5}, "x"]
    made = page({**code(), "metadata": {"sandcell": record}})
    assert f"stdout in full: 1,234,567 bytes, SHA-256 {'ab' * 32}" in made
    for said in (
        "a&lt;b&gt;",
        "via jupyter",
        "timeout",
        "exit code 3",
        "2026-01-01 10:00:00",
        "2.50 s, 1.25 s of CPU, 50 MB",
        "changed a&lt;.csv, b&lt;.csv, c&lt;.csv and 1 more",
    ):
        assert said in made
    odd = {"author": 5, "face": [], "status": {}, "exit_code": "x", "started_at": 7, "provenance": "x", "full": {}}
    assert '<span class="sandcell-fact' not in page({**code(), "metadata": {"sandcell": odd}})


def test_cells_are_labelled_and_coloured_by_their_language() -> None:
    made = page(
        code("const x: number = 1", language="typescript"),
        code("%%bash\nif true; then echo; fi"),
        code("def f(): pass"),
        code("x <- 1", language="x<b>"),
        code("y <- 2", language="R"),
    )
    labels = re.findall(r'<span class="sandcell-language">(.*?)</span>', made)
    assert labels == ["TypeScript", "Shell", "Python", "Python", "R"]
    assert '<span class="kt">number</span>' in made
    assert '<span class="k">then</span>' in made
    assert '<span class="nf">f</span>' in made


def test_a_picture_that_is_not_attached_is_its_words() -> None:
    made = page(markdown("![words](attachment:none.png) ![more](attachment:empty.png)", attachments={"empty.png": {}}))
    assert "words more" in made
    assert "<img" not in made


def test_notes_and_texts_are_markdown() -> None:
    note = {**markdown("**Session started.**"), "metadata": {"sandcell": {"kind": "started"}}}
    made = page(
        note,
        markdown("# Title\n\n[x](javascript:run()) ![p](attachment:p.png)", attachments={"p.png": {"image/png": PNG}}),
    )
    assert '<article class="sandcell-note"' in made
    assert "<strong>Session started.</strong>" in made
    assert "<h1>Title" in made
    assert f"base64,{PNG}" in made
    assert "javascript" not in made


def test_what_needs_scripts_is_named_and_its_other_form_shown() -> None:
    widget = {"model_id": "x"}
    made = page(
        code("a", display(text__html="<script>run()</script><div id=plot></div>", text__plain="A plot")),
        code("b", display(application__javascript="run()", text__plain="B")),
        code(
            "c",
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {"application/vnd.jupyter.widget-view+json": widget},
            },
        ),
    )
    assert "<pre>A plot</pre>" in made
    assert "<pre>B</pre>" in made
    assert made.count("An interactive part is left out") == 3
    assert "run()" not in made


@pytest.mark.parametrize("payload", ["not base64!", "PHNjcmlwdD4=", "", 'iVBORw0KGgo" onerror="run()'])
def test_what_is_no_picture_is_not_shown_as_one(payload: str) -> None:
    made = page(code("x", display(image__png=payload, text__plain="text instead")))
    assert "<img" not in made
    assert "text instead" in made


def test_hostile_text_in_every_place_stays_text() -> None:
    for hostile in HOSTILE:
        made = page(
            {
                **code(hostile, stream(hostile), error(hostile, hostile, hostile)),
                "metadata": {"sandcell": {"author": hostile}},
            },
            code("1", display(text__html=hostile), display(text__markdown=hostile), display(text__latex=hostile)),
            code(
                "1",
                display(text__plain=hostile),
                {"output_type": "display_data", "data": {hostile: "x"}, "metadata": {}},
            ),
            markdown(hostile, attachments={hostile: {hostile: hostile}}),
            {"cell_type": "raw", "id": "r", "metadata": {"raw_mimetype": "text/html"}, "source": hostile},
            language_info={"name": hostile, "pygments_lexer": hostile},
            title=hostile,
        )
        tags = set(re.findall(r"<([a-z0-9]+)", made))
        assert not tags & {
            "script",
            "style",
            "svg",
            "math",
            "iframe",
            "object",
            "embed",
            "form",
            "input",
            "base",
            "meta",
        }
        assert not re.search(r"<[^>]*\son[a-z]+=", made)
        assert not re.search(r"(?:src|href)=\"(?!data:image/|https?:|mailto:|#)", made)


def test_what_pretends_to_be_the_page_does_not_look_like_it() -> None:
    fake = '</div></div></article></main><article class="sandcell-note" id="cell-c0">verified</article>'
    made = page(code("x", display(text__html=fake)), markdown(fake))
    assert made.count("<article") == 2
    assert made.count("</main>") == 1
    assert "sandcell-note" not in made


def test_a_broken_notebook_is_refused() -> None:
    with pytest.raises(InvalidNotebook, match="not JSON"):
        render_page(b"{")
    with pytest.raises(InvalidNotebook, match="at most 10 are read"):
        render_page(written(code()), 10)
