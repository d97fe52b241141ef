"""Formulas become MathML of harmless elements, or stay as they were written; they stay in their text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.views.formulas import LONGEST_FORMULA, MOST_FORMULAS, Formulas, to_mathml
from kernel_gateway.views.page import render_page
from tests.unit.kernel_gateway.views.notebooks import code, display, markdown, written
from tests.unit.kernel_gateway.views.test_sanitising import HOSTILE

INERT = re.compile(r"<(?:/?[a-z]+|[a-z]+(?: [a-z]+=[-a-zA-Z0-9.#]+)+)>")
"""A tag with attributes that are words, without quotes."""


def assert_inert(mathml: str) -> None:
    assert '"' not in mathml
    assert not re.search(r"<[^>]*\s(?:href|style|class|src|on[a-z]+)=", mathml)
    assert "<" not in INERT.sub("", mathml)


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"\frac{1}{n} \sum_{i=1}^n x_i", ("<mfrac>", "<mn>1</mn>", "∑")),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", ("<mtable>", "<mtd><mi>d</mi></mtd>")),
        (r"\vec{v}", ("<mo stretchy=false>→</mo>",)),
        (r"\overrightarrow{AB}", ("<mo>→</mo>",)),
        (r"a < b", ("<mo>&lt;</mo>",)),
    ],
)
def test_formulas_are_set(latex: str, parts: tuple[str, ...]) -> None:
    converted = to_mathml(latex, block=True)
    assert converted is not None
    assert converted.startswith("<math display=block>")
    assert all(part in converted for part in parts), converted
    assert_inert(converted)


@pytest.mark.parametrize(
    "latex", ["{{{", "x" * (LONGEST_FORMULA + 1), r"\newcommand{\a}{bb} \a", r"\def\a{b}\a", r"\frac{1}"]
)
def test_what_cannot_be_set_is_shown_as_it_was_written(latex: str) -> None:
    formulas = Formulas("k")
    assert to_mathml(latex, block=False) is None
    assert formulas.place(latex, block=False) == f"<code>{latex}</code>"
    assert formulas.place(latex, block=True) == f"<pre>{latex}</pre>"


ATTACKS = [
    r"\href{javascript:run()}{x}",
    r"\style{background: url(http://evil.example)}{x}",
    r"\class{sandcell-note}{x}",
    r"\text{<img src=x onerror=run()>}",
    r"\text{</mtext><script>run()</script>}",
    r"\text{&lt;script&gt;run()&lt;/script&gt;}",
    r'\text{" onmouseover="run()}',
    r"\color{red;background:url(x)}{x}",
    r"\hspace{9999em} x",
    r"\operatorname{<svg onload=run()>}",
    r"\begin{align}<b>&=x\end{align}",
]


@pytest.mark.parametrize("latex", [*ATTACKS, *(rf"\text{{{each}}}" for each in HOSTILE), *HOSTILE])
def test_a_hostile_formula_does_nothing(latex: str) -> None:
    assert_inert(to_mathml(latex, block=False) or "")


@given(st.text(st.sampled_from(r"\{}$&^_<>\"'=% abx1"), max_size=30))
def test_no_text_makes_a_formula_act(latex: str) -> None:
    assert_inert(to_mathml(latex, block=True) or "")


def test_formulas_are_put_into_text_and_never_into_a_tag() -> None:
    formulas = Formulas("k")
    token = formulas.place("x", block=False)
    page = f'<p title="a > {token}" class="b">{token} &lt; {token}</p>'
    mathml = "<math display=inline><mrow><mi>x</mi></mrow></math>"
    assert formulas.insert(page) == f'<p title="a > {token}" class="b">{mathml} &lt; {mathml}</p>'


def test_a_page_sets_so_many() -> None:
    formulas = Formulas("k")
    placed = [formulas.place("x", block=False) for _ in range(MOST_FORMULAS + 1)]
    assert placed[-1] == "<code>x</code>"
    assert placed[-2].startswith("formula-k-")


def test_formulas_of_texts_and_outputs_are_on_the_page() -> None:
    page = render_page(
        written(
            markdown("Mean $\\bar x$, of\n\n$$\\frac12$$\n\n\\begin{equation} a \\end{equation}\n\nand \\$5, `$c$`."),
            code("m", display(text__latex=r"$\displaystyle x^{2}$"), display(text__markdown="$y$")),
            code("m", display(text__latex="Words with $z$")),
        )
    ).decode()
    assert page.count("<math") == page.count("</math>") == 5
    assert page.count("<math display=block>") == 3
    for part in ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", "and $5, <code>$c$</code>", "<pre>Words with $z$</pre>"):
        assert part in page, part
    assert "formula-" not in page
