r"""Formulas in LaTeX to MathML, which browsers show by themselves: no script, no font and no network.

What a notebook holds is hostile, so the converter's elements are rebuilt from lists of harmless ones.
The cleaner knows no MathML, so a token stands for each formula until the page has been cleaned. No author can write
such a token into a notebook, because its key is the notebook's own digest.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import re
from html import escape, unescape
from typing import Final
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element

LONGEST_FORMULA: Final = 4_000
"""Characters of one that is converted; a longer one is shown as it was written."""
MOST_FORMULAS: Final = 1_000
"""Converted on one page."""

_NAMES: Final = (
    "math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt "
    "mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none"
)
_TAGS: Final = frozenset(_NAMES.split())
_PARTS: Final = {
    **dict.fromkeys(("mfrac", "mover", "mroot", "msub", "msup", "munder"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
}
_LENGTH: Final = re.compile(r"-?\d{0,2}(?:\.\d{1,4})?(?:em|ex|pt)|0")
_WORD: Final = re.compile(r"[a-z-]{1,24}|#[0-9a-fA-F]{3,6}")
_ATTRIBUTES: Final = {
    **dict.fromkeys(
        ("height", "linethickness", "lspace", "maxsize", "minsize", "rspace", "rowspacing", "width"), _LENGTH
    ),
    **dict.fromkeys(
        ("accent", "accentunder", "columnalign", "display", "displaystyle", "fence", "form", "largeop"), _WORD
    ),
    **dict.fromkeys(("mathcolor", "mathvariant", "movablelimits", "notation", "separator", "stretchy"), _WORD),
    "scriptlevel": re.compile(r"[0-3]"),
}
_MACROS: Final = re.compile(r"\\(?:new|renew|provide)command|\\[egx]?def\b|\\let\b")
"""A few of these can make a text of any length out of a short one."""
_WHOLE: Final = re.compile(r"(\$\$?)([^$]+)\1|(\\begin\{([a-z]+\*?)\}.*\\end\{\4\})", re.DOTALL)


class Formulas:
    """The formulas of one page, from where they stand in the text to where they stand on the page."""

    def __init__(self, key: str) -> None:
        """`key` has only letters and digits, and none that wrote the notebook could know it."""
        self._key = key
        self._converted: list[str] = []

    def place(self, latex: str, *, block: bool) -> str:
        """HTML for a formula: a token, or the formula's source when there is no showing it otherwise."""
        converted = to_mathml(latex, block=block) if len(self._converted) < MOST_FORMULAS else None
        if converted is None:
            return f"<pre>{escape(latex)}</pre>" if block else f"<code>{escape(latex)}</code>"
        self._converted.append(converted)
        return f"formula-{self._key}-{len(self._converted) - 1}-"

    def place_output(self, text: str) -> str:
        """HTML for a `text/latex` output: those that are one formula are shown as one, others as they were written."""
        found = _WHOLE.fullmatch(text.strip())
        return self.place(found[2] or found[3], block=True) if found else f"<pre>{escape(text)}</pre>"

    def insert(self, html: str) -> str:
        """The cleaned page with its formulas, which are put into text and never into a tag."""
        if not self._converted:
            return html
        # The cleaner writes every `<` of a text as `&lt;` and every attribute in double quotes: this finds each tag.
        return re.sub(
            rf'<(?:[^">]|"[^"]*")*>|formula-{self._key}-(\d+)-',
            lambda match: match[0] if match[1] is None else self._converted[int(match[1])],
            html,
        )


def to_mathml(latex: str, *, block: bool) -> str | None:
    """MathML without a double quote in it, or None when the formula cannot be read or is too long."""
    if len(latex) > LONGEST_FORMULA or _MACROS.search(latex):
        return None
    try:
        return _write(convert_to_element(latex, display="block" if block else "inline"))
    except MemoryError:
        raise
    except Exception:  # the converter has a dozen ways to say that it cannot read a text
        return None


def _write(element: Element) -> str:
    """The element as text, with the tags and attributes of our lists; raises ValueError when a part is missing."""
    if len(element) != _PARTS.get(element.tag, len(element)):
        raise ValueError(element.tag)
    if element.tag == "mover" and len(unescape("".join(element[0].itertext()))) == 1:
        element[1].set("stretchy", "false")  # the arrow of a vector, which browsers draw wider than a letter is
    inside = _escape(element.text) + "".join(_write(child) + _escape(child.tail) for child in element)
    if element.tag not in _TAGS:
        return f"<mrow>{inside}</mrow>"
    attributes = "".join(
        f" {name}={value}"
        for name, value in element.attrib.items()
        if (legal := _ATTRIBUTES.get(name)) and legal.fullmatch(value)
    )
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


def _escape(text: str | None) -> str:
    """The converter writes some characters as entities, and what stands for itself as it is."""
    return escape(unescape(text)) if text else ""
