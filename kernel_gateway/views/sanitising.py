"""HTML of strangers to HTML that does nothing: no script, no load, no form, no frame, no way to lie over other parts.

Two cleaners, both by the parser that browsers agree with. `clean` is for what a notebook brings along: it keeps text,
tables, links and embedded images, and neither ids nor the page's own classes. `clean_page` is for the whole body, in
which those stand.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import nh3


def _split_words(text: str) -> set[str]:
    return set(text.split())


_TAGS: Final = _split_words(
    "a abbr b bdi bdo blockquote br caption center cite code col colgroup dd del details dfn div dl dt em figcaption "
    "figure font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q rp rt ruby s samp small span strike strong sub "
    "summary sup table tbody td tfoot th thead time tr tt u ul var wbr"
)
_PAGE_TAGS: Final = _TAGS | {"article", "footer", "header", "main", "nav"}
_WITH_CONTENT: Final = _split_words(
    "applet audio base button canvas embed form frame frameset head iframe input link math meta noembed noframes "
    "noscript object option plaintext script select style svg template textarea title video xmp"
)
"""What goes with all that is in it."""

_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "*": {"align", "class", "dir", "lang", "style", "title", "valign"},
    "a": {"href"},
    "col": {"span", "width"},
    "colgroup": {"span", "width"},
    "details": {"open"},
    "font": {"color", "size"},
    "img": {"alt", "height", "src", "width"},
    "li": {"value"},
    "ol": {"start", "type"},
    "table": {"border", "cellpadding", "cellspacing", "width"},
    "td": {"colspan", "rowspan", "width"},
    "th": {"colspan", "rowspan", "scope", "width"},
}
_STYLES: Final = _split_words(
    "background-color border border-bottom border-collapse border-color border-left border-radius border-right "
    "border-spacing border-style border-top border-width caption-side color display font-family font-size font-style "
    "font-variant font-weight height line-height list-style-type max-height max-width min-width overflow-wrap padding "
    "padding-bottom padding-left padding-right padding-top text-align text-decoration text-indent vertical-align "
    "white-space width word-break"
)
_STYLE_CHARACTERS: Final = re.compile(r"[-\w\s#%.,:;()+!/*'\"]{0,2000}", re.ASCII)
_FUNCTION: Final = re.compile(r"([-\w]*)\s*\(", re.ASCII)
_FUNCTIONS: Final = frozenset({"calc", "hsl", "hsla", "rgb", "rgba"})

_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/\s]*={0,2}\s*")
_LINK: Final = re.compile(r"(?:https?://|mailto:)[^\x00-\x20]*|#[^\x00-\x20]*", re.IGNORECASE)
_CLASS: Final = re.compile(r"dataframe|highlight|ansi-[a-z-]{1,40}|[a-z]{1,2}[a-z0-9]?")
"""Of tables, and of highlighted code."""
_PAGE_CLASS: Final = re.compile(rf"sandcell(?:-[a-z]+)*|{_CLASS.pattern}")
_CELL_ID: Final = re.compile(r"cell-[a-zA-Z0-9_-]{1,64}")


def clean(html: str) -> str:
    """A stranger's HTML without anything that acts, loads or hides."""
    return _make_cleaner(whole_page=False).clean(html)


def clean_page(html: str) -> str:
    """The body of a page that this service made, whatever got into it."""
    return _make_cleaner(whole_page=True).clean(html)


def shows_something(html: str) -> bool:
    """Whether anything of cleaned HTML is to be seen."""
    return "<img" in html or "<hr" in html or bool(re.sub(r"<[^>]*>|\s|&nbsp;|\xa0", "", html))


@cache
def _make_cleaner(*, whole_page: bool) -> nh3.Cleaner:
    attributes = _ATTRIBUTES | ({"article": {"id"}} if whole_page else {})
    return nh3.Cleaner(
        tags=_PAGE_TAGS if whole_page else _TAGS,
        clean_content_tags=_WITH_CONTENT,
        attributes=attributes,
        attribute_filter=_filter_page_attribute if whole_page else _filter_attribute,
        strip_comments=True,
        link_rel="noopener noreferrer nofollow",
        url_schemes={"data", "http", "https", "mailto"},
        filter_style_properties=_STYLES,
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    return _filter_value(tag, name, value, _CLASS)


def _filter_page_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "id":
        return value if _CELL_ID.fullmatch(value) else None
    return _filter_value(tag, name, value, _PAGE_CLASS)


def _filter_value(tag: str, name: str, value: str, classes: re.Pattern[str]) -> str | None:
    """The value as it may stay, or None."""
    match name:
        case "class":
            return " ".join(each for each in value.split() if classes.fullmatch(each)) or None
        case "style":
            return value if _is_plain_style(value) else None
        case "src":
            return value if tag == "img" and _IMAGE.fullmatch(value) else None
        case "href":
            return value if tag == "a" and _LINK.fullmatch(value) else None
        case _:
            return value


def _is_plain_style(style: str) -> bool:
    """Whether it is values alone: nothing that loads, computes from elsewhere or is written in escapes."""
    return bool(_STYLE_CHARACTERS.fullmatch(style)) and _FUNCTIONS.issuperset(_FUNCTION.findall(style.lower()))
