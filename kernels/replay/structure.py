"""HTML, SVG and JSON as lines that say everything a reader sees: text, attributes, style sheets, scripts, values. Pure.

Not a browser: a scanner that looks at each character once, so that hostile markup costs no more than honest one.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from kernels.json_values import values_in

_TAG: Final = re.compile(r"</?([a-zA-Z][\w:-]{0,40})")
_ATTRIBUTE: Final = re.compile(
    r"""([^\s=<>"'/][^\s=<>"'/]{0,80})(?:\s{0,4}=\s{0,4}(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?"""
)
_SPACE: Final = re.compile(r"\s++")
_LINES: Final = frozenset(
    [
        *("p", "div", "br", "li", "ul", "ol", "dl", "dt", "dd", "pre", "hr", "blockquote", "details", "summary"),
        *(
            "table",
            "caption",
            "thead",
            "tbody",
            "tfoot",
            "tr",
            "section",
            "article",
            "svg",
            "g",
            "path",
            "text",
            "rect",
        ),
        *(
            "circle",
            "ellipse",
            "line",
            "polyline",
            "polygon",
            "use",
            "image",
            "defs",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
        ),
    ]
)
_RAW: Final = frozenset({"script", "style", "template", "noscript", "title", "textarea"})
_LONG_VALUE: Final = 2_000
"""Characters from which on the data of a picture in an attribute are shown by their digest."""
_MOST_PIECES: Final = 60_000
"""Tags and texts between them that are taken apart: a quarter of a second."""
_MOST_VALUES: Final = 200_000
CELL_MARK: Final = " | "


def lines_of_json(value: Any) -> list[str]:
    """A JSON value as indented lines, an object's members in the order of their names."""
    indent = 1 if values_in(value) <= _MOST_VALUES else None
    return json.dumps(value, indent=indent, sort_keys=True, default=str, ensure_ascii=False).split("\n")


def lines_of_markup(text: str) -> list[str] | None:
    """A line for each block, row or shape, with the attributes of its tags; then style sheets and scripts.

    None when it has too many tags.
    """
    lines: list[str] = []
    raw: list[str] = []
    words: list[str] = []
    exact = 1 if "white-space" in text else 0

    def end_line() -> None:
        joined = "".join(words)
        kept = (
            joined.split("\n") if exact else [_SPACE.sub(" ", joined).strip().removesuffix(CELL_MARK.strip()).strip()]
        )
        lines.extend(line.rstrip() for line in kept if line.strip())
        words.clear()

    for number, (kind, value) in enumerate(_pieces(text)):
        if number > _MOST_PIECES:
            return None
        if kind == "text":
            words.append(html.unescape(value))
        elif kind in _RAW:
            raw.extend(f"<{kind}> {line.rstrip()}" for line in value.split("\n") if line.strip())
        elif kind in ("/td", "/th"):
            words.append(CELL_MARK)
        else:
            name = kind.lstrip("/")
            if name in _LINES:
                end_line()
            if name == "pre":
                exact += -1 if kind != name else 1
                exact = max(exact, 0)
            if kind == name and (attributes := _attributes(value)):
                words.append(f"<{name} {attributes}> ")
                if name in ("pre", "table", "div", "svg", "g"):
                    end_line()
    end_line()
    return [*lines, *raw]


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """`text` and its text; a tag's name, after `/` when it closes, and the tag; a raw element's name and its text."""
    lower, at = text.lower() if text.isascii() else _ascii_lower(text), 0
    while at < len(text):
        start = text.find("<", at)
        if start < 0:
            yield "text", text[at:]
            return
        if start > at:
            yield "text", text[at:start]
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            at = len(text) if end < 0 else end + 3
            continue
        tag = _TAG.match(text, start)
        if tag is None:
            yield "text", "<"
            at = start + 1
            continue
        at = _end_of_tag(text, tag.end())
        name = tag[1].lower()
        closes = text[start + 1] == "/"
        yield ("/" if closes else "") + name, text[tag.end() : at]
        if not closes and name in _RAW and not text.endswith("/>", start, at):
            body, at = _until_closed(text, lower, name, at)
            yield name, body


def _end_of_tag(text: str, at: int) -> int:
    """Behind the `>` that ends a tag: one in a quoted value is none."""
    quote = _QUOTED.match(text, at)
    return quote.end() if quote else len(text)


_QUOTED: Final = re.compile(r"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>?""")


def _until_closed(text: str, lower: str, name: str, at: int) -> tuple[str, int]:
    """What stands before an element's end, and where it ends."""
    end = lower.find(f"</{name}", at)
    if end < 0:
        return text[at:], len(text)
    closed = text.find(">", end)
    return text[at:end], len(text) if closed < 0 else closed + 1


def _ascii_lower(text: str) -> str:
    """Lower case without a change of length."""
    return text.translate({upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)})


def _attributes(tag: str) -> str:
    """A tag's attributes by their names; of long values, such as pictures, their digest."""
    found: dict[str, str] = {}
    for name, one, other, third in _ATTRIBUTE.findall(tag.rstrip("/>")):
        value = html.unescape(one or other or third)
        if len(value) > _LONG_VALUE and value.startswith("data:"):
            value = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
        found.setdefault(name.lower(), _SPACE.sub(" ", value).strip())
    return " ".join(f'{name}="{value}"' for name, value in sorted(found.items()))
