"""Two displays: every representation that both have, each after its kind. Pure.

`text/plain` counts only where nothing richer is on both sides: of a figure or a widget it is a name, of a table a copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kernels.json_values import values_in
from kernels.outputs import Output
from kernels.replay.budget import Budget
from kernels.replay.markup import lines_of_html
from kernels.replay.pixels import why_images_differ
from kernels.replay.plain_text import Lines, Manner, differing, lines_of
from kernels.replay.volatile import Moments

_BYTES: Final = re.compile(r"(?:image/(?!svg)|audio/|video/|font/)[\w.+-]+|application/(?:pdf|zip|octet-stream)")
_JSON: Final = re.compile(r"application/(?:[\w.+-]+\+)?json")
_MADE_UP: Final = frozenset({"model_id", "uid", "comm_id"})
_PLAIN: Final = "text/plain"
_MOST_TYPES: Final = 100


@dataclass(frozen=True)
class Part:
    """Something of a cell that differs: what it is, in words, how, and its two texts for a diff where it has some."""

    what: str
    why: str
    lines: tuple[Lines, Lines] | None = None


def differing_parts(recorded: Output, replayed: Output, what: str, moments: Moments, budget: Budget) -> Iterator[Part]:
    """What differs between two displays."""
    left, right = _bundle(recorded), _bundle(replayed)
    both = sorted(left.keys() & right.keys())[:_MOST_TYPES]
    if not both and (left or right):
        types = [", ".join(sorted(each)[:5])[:200] or "nothing" for each in (left, right)]
        yield Part(what, f"{what} is {types[1]} instead of {types[0]}")
        return
    for media_type in [each for each in both if each != _PLAIN] or both:
        if left[media_type] == right[media_type]:
            continue
        named = f"{what} ({media_type[:80]})"
        part = _differing(media_type, (left[media_type], right[media_type]), named, moments, budget)
        if part is not None:
            yield part


def text_of(value: Any) -> str:
    """A text as nbformat keeps it: one string, or a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _bundle(output: Output) -> Mapping[str, Any]:
    data = output.get("data")
    return {key: value for key, value in data.items() if isinstance(key, str)} if isinstance(data, dict) else {}


def _differing(media_type: str, pair: tuple[Any, Any], what: str, moments: Moments, budget: Budget) -> Part | None:
    if not _is_text(pair[0]) or not _is_text(pair[1]) or _JSON.fullmatch(media_type):
        manner = Manner(moments, dates=False, identifiers=False)
        found = differing(_json_lines(pair[0]), _json_lines(pair[1]), manner, budget, what)
        return None if found is None else Part(what, f"{what} differs", found)
    texts = text_of(pair[0]), text_of(pair[1])
    if _BYTES.fullmatch(media_type):
        return _bytes(media_type, texts, what, budget)
    if media_type == "text/html" and budget.take_text(sum(map(len, texts)) // 2, what):
        shown = lines_of_html(texts[0]), lines_of_html(texts[1])
        found = differing(*shown, Manner(moments, dates=False), budget, what)
    else:
        plain = media_type in (_PLAIN, "text/markdown", "text/latex")
        manner = Manner(moments, dates=plain or media_type == "image/svg+xml", identifiers=plain)
        found = differing(lines_of(texts[0]), lines_of(texts[1]), manner, budget, what)
    return None if found is None else Part(what, f"{what} differs", found)


def _bytes(media_type: str, texts: tuple[str, str], what: str, budget: Budget) -> Part | None:
    if media_type == "image/png":
        why = why_images_differ(*texts, budget, what)
        return Part(what, f"{what}: {why}") if why else None
    same = "".join(texts[0].split()) == "".join(texts[1].split())
    return None if same else Part(what, f"{what}: its bytes differ")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def _json_lines(value: Any) -> list[str]:
    """A JSON value as sorted, indented lines, without what is made up for each run."""
    if values_in(value) > 200_000:
        return [json.dumps(value, sort_keys=True, default=str)]
    return json.dumps(_without_made_up(value), indent=1, sort_keys=True, default=str).split("\n")


def _without_made_up(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_made_up(each) for key, each in value.items() if key not in _MADE_UP}
    return [_without_made_up(each) for each in value] if isinstance(value, list) else value
