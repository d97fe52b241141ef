"""`If-Match`, `If-None-Match` and `If-Range` of a request (RFC 9110, section 13), held against a file. Pure.

Entity tags of durable files are SHA-256 digests; a weak one stands for a file whose digest is not known. Those of live
files are versions; a weak one stands for a file that has changed just now. A weak tag never fits strongly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol

from kernel_gateway.errors import InvalidRequest, PreconditionFailed
from kernel_gateway.faces.rest.ranges import parse_range
from workspace_sync import Expected

TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
LIST = re.compile(rf"\s*{TAG.pattern}\s*(?:,\s*{TAG.pattern}\s*)*")
LONGEST = 8_192

CACHED: Final = {"If-None-Match": "the ETag of what the caller has: answered with 304 when it is still that"}
RANGED: Final = {
    "Range": "one range of bytes, as `bytes=0-999`, `bytes=1000-` or `bytes=-1000`",
    "If-Range": "the ETag that the range is meant for; of another file all comes",
    "If-Match": "the ETag that the file has to have",
}
SAME: Final = {304: "the caller has it already"}


class Tagged(Protocol):
    """A file, durable or live, by what conditions are held against."""

    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str | None: ...


def parse_tags(header: str | None, name: str) -> frozenset[str] | None:
    """The tags of a header, none of them for `*`; None without the header. Raises InvalidRequest."""
    if header is None:
        return None
    if header.strip() == "*":
        return frozenset()
    if len(header) > LONGEST or not LIST.fullmatch(header):
        raise InvalidRequest(f'{name} is * or a list of entity tags in quotes, as "<SHA-256>"')
    return frozenset(TAG.findall(header))


def read_expected(headers: Mapping[str, str]) -> Expected:
    """What a caller expects of a file that is to be changed."""
    match, none_match = (
        parse_tags(headers.get("If-Match"), "If-Match"),
        parse_tags(headers.get("If-None-Match"), "If-None-Match"),
    )
    return Expected(
        any_of=None if match is None else frozenset(map(_strip_strong_tag, match)),
        none_of=None if none_match is None else frozenset(map(_strip_tag, none_match)),
    )


class Wanted:
    """Which bytes of a file a request asks for; called with the file. `unchanged`: the caller has it already."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._match = parse_tags(headers.get("If-Match"), "If-Match")
        self._none_match = parse_tags(headers.get("If-None-Match"), "If-None-Match")
        self.unchanged = False

    @property
    def chooses(self) -> bool:
        """Whether anything but all of the file may be the answer."""
        return any(name in self._headers for name in ("Range", "If-Match", "If-None-Match"))

    def __call__(self, file: Tagged) -> tuple[int, int]:
        tag = file.etag or ""
        if self._match and (tag.startswith("W/") or tag not in self._match):
            raise PreconditionFailed("the file is not the one that If-Match names")
        known = self._none_match
        self.unchanged = known is not None and (not known or _strip_tag(tag) in set(map(_strip_tag, known)))
        if self.unchanged:
            return 0, 0
        fits = self._headers.get("If-Range", tag) == tag and not tag.startswith("W/")
        usable = fits or "If-Range" not in self._headers
        return parse_range(self._headers.get("Range") if usable else None, file.size)


def _strip_tag(tag: str) -> str:
    """What is in the quotes."""
    return tag.removeprefix("W/").strip('"')


def _strip_strong_tag(tag: str) -> str:
    """What is in the quotes; a weak tag as it is, which no digest is equal to."""
    return tag if tag.startswith("W/") else tag.strip('"')
