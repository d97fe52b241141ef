"""HTML as what it shows: lines of text, with a line for each row of a table; the rest is no content. Pure.

Not a browser: a scanner that looks at each character once, so that hostile markup costs no more than honest one.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator
from typing import Final

from kernels.replay.volatile import without_identifiers

_TAG: Final = re.compile(r"</?([a-zA-Z][\w:-]{0,40})")
_SOURCE: Final = re.compile(
    r"""\b(?:src|srcdoc|data|href)\s{0,4}=\s{0,4}(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""", re.I
)
_SPACE: Final = re.compile(r"\s++")
_LINES: Final = frozenset(
    [
        *("p", "div", "br", "li", "ul", "ol", "dl", "dt", "dd", "pre", "hr", "blockquote", "details", "summary"),
        *("table", "caption", "thead", "tbody", "tfoot", "tr", "section", "article", "svg"),
        *("h1", "h2", "h3", "h4", "h5", "h6"),
    ]
)
_SHOWN_BY_SOURCE: Final = frozenset({"img", "iframe", "embed", "object", "video", "audio", "source", "image"})
_UNSEEN: Final = frozenset({"style", "template", "noscript", "title", "head"})
CELL_MARK: Final = " | "


def lines_of_html(text: str) -> list[str]:
    """What a reader would see, a line for each block or row; then scripts, which may draw anything."""
    lines: list[str] = []
    scripts: list[str] = []
    words: list[str] = []

    def end_line() -> None:
        if line := _SPACE.sub(" ", "".join(words)).strip().removesuffix(CELL_MARK.rstrip()).rstrip():
            lines.append(line)
        words.clear()

    for kind, value in _pieces(text):
        if kind == "text":
            words.append(html.unescape(value))
        elif kind == "script":
            scripts.extend(without_identifiers(line.strip()) for line in value.split("\n") if line.strip())
        elif kind in ("/td", "/th"):
            words.append(CELL_MARK)
        elif kind.lstrip("/") in _LINES:
            end_line()
        elif kind in _SHOWN_BY_SOURCE and (shown := _source(value)):
            words.append(f"[{kind} {shown}]")
    end_line()
    return [*lines, *scripts]


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """`text` and its text; a tag's name, after `/` when it closes, and the tag; `script` and its source."""
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
        end = text.find(">", start)
        at = len(text) if end < 0 else end + 1
        name = tag[1].lower()
        if text[start + 1] != "/" and (name == "script" or name in _UNSEEN):
            body, at = _until_closed(text, lower, name, at)
            if name == "script":
                yield "script", body
            continue
        yield ("/" if text[start + 1] == "/" else "") + name, text[start:at]


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


def _source(tag: str) -> str:
    found = next((one or other or third for one, other, third in _SOURCE.findall(tag)), "")
    if len(found) <= 200 and not found.startswith("data:"):
        return found
    return hashlib.sha256(found.encode("utf-8", "replace")).hexdigest()[:16]
