"""The outputs of a cell as a page shows them: of each one representation, cleaned, or a note of what is left out. Pure.

Scripts and widgets never run on the page. What has nothing else to show for itself is named, with its size.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html import escape
from typing import Any, Final

from kernel_gateway.views.sanitising import clean, shows_something
from kernels.capped_text import cut_middle

SHOWN_TEXT_BYTES: Final = 2_000_000
"""Of one text on the page; all of it is in the notebook."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_BEGINNINGS: Final = {"image/png": "iVBORw0KGgo", "image/jpeg": "/9j/", "image/gif": "R0lGOD", "image/webp": "UklGR"}
"""How each begins in base64: what is no picture would be shown as a broken one."""
_INTERACTIVE: Final = ("javascript", "widget", "plotly", "bokeh", "vega")

Output = dict[str, Any]
Data = dict[str, Any]


def show_output(output: Output) -> Output:
    """The nbformat output, valid: text, an error, or one representation (clean HTML, Markdown, LaTeX or text)."""
    kind = output["output_type"]
    if kind == "stream":
        return {"output_type": "stream", "name": _stream(output["name"]), "text": _cut(output["text"])}
    if kind == "error":
        lines = output["traceback"] or [f"{output['ename']}: {output['evalue']}"]
        return {"output_type": "error", "ename": "", "evalue": "", "traceback": [_cut("\n".join(lines))]}
    media_type, value = _choose(output["data"])
    return {"output_type": "display_data", "data": {media_type: value}, "metadata": {}}


def _choose(data: Data) -> tuple[str, str]:
    for media_type, show in _WAYS.items():
        if media_type in data and (made := show(data[media_type])) is not None:
            return made
    return "text/plain", "\n".join(f"[{_plain(name)}: not shown]" for name in sorted(data)[:20]) or "[nothing to show]"


def _show_html(html: str) -> tuple[str, str] | None:
    """None when nothing is left of it; a bundle has another representation for those who run no scripts."""
    cleaned = clean(html)
    return ("text/html", cleaned) if shows_something(cleaned) else None


def _show_svg(svg: str) -> tuple[str, str]:
    """As an image: a browser neither runs nor loads what is in one."""
    encoded = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return "text/html", f'<img alt="a drawing" src="data:image/svg+xml;base64,{encoded}">'


def _make_image_shower(media_type: str) -> Callable[[str], tuple[str, str] | None]:
    def show(encoded: str) -> tuple[str, str] | None:
        encoded = encoded.strip()
        if not encoded.startswith(_BEGINNINGS[media_type]) or not _BASE64.fullmatch(encoded):
            return None
        return "text/html", f'<img alt="an image" src="data:{media_type};base64,{"".join(encoded.split())}">'

    return show


def _show_markdown(text: str) -> tuple[str, str]:
    return "text/markdown", _cut(text)


def _show_latex(text: str) -> tuple[str, str]:
    return "text/latex", _cut(text)


def _show_text(text: str) -> tuple[str, str]:
    return "text/plain", _cut(text)


def _show_json(value: Any) -> tuple[str, str]:
    return "text/plain", _cut(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


_WAYS: Final[dict[str, Callable[[Any], tuple[str, str] | None]]] = {
    "text/html": _show_html,
    "text/markdown": _show_markdown,
    "image/svg+xml": _show_svg,
    "image/png": _make_image_shower("image/png"),
    "image/jpeg": _make_image_shower("image/jpeg"),
    "image/gif": _make_image_shower("image/gif"),
    "image/webp": _make_image_shower("image/webp"),
    "text/latex": _show_latex,
    "text/plain": _show_text,
    "application/json": _show_json,
}
"""In the order of preference."""


def describe_left_out(output: Output) -> str | None:
    """The note in place of an output whose scripts do not run here."""
    names = [name for name in output.get("data", {}) if any(word in name.lower() for word in _INTERACTIVE)]
    html = output.get("data", {}).get("text/html")
    if not names and not (isinstance(html, str) and re.search(r"<script\b", html, re.IGNORECASE)):
        return None
    return "An interactive part is left out: nothing runs on this page."


def _stream(name: str) -> str:
    return "stderr" if name == "stderr" else "stdout"


def _cut(text: str) -> str:
    return cut_middle(text, SHOWN_TEXT_BYTES)[0]


def _plain(name: str) -> str:
    return escape(ascii(name[:80])[1:-1])
