"""A package's page in an index: what indexes answer, and what a sandbox gets of it. Pure.

Formats: PEP 503 (HTML) and 691 (JSON), with the attributes of PEP 592 and 658. What is written is HTML, which every
installer reads; the addresses of files in it are this service's own.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

import msgspec

MOST_FILES: Final = 50_000
ACCEPT: Final = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
METADATA: Final = ".metadata"

_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}\.(?:whl|zip|tar\.gz|tar\.bz2)")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_HASH: Final = re.compile(r"(sha256|sha512|sha384|sha224|sha1|md5)=([0-9a-f]{32,128})")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_ATTRIBUTE: Final = 500
_LONGEST_ADDRESS: Final = 4_096


class BadPage(Exception):
    """What an index answered is no page of a package."""


class IndexFile(msgspec.Struct, frozen=True):
    """A file that a page offers. `digest` is `sha256=...` or the like, empty when the page says none."""

    name: str
    url: str
    digest: str = ""
    requires_python: str = ""
    yanked: str | None = None
    metadata: str | None = None
    """The digest of its metadata, which is a file of its own; empty when it has one of unknown digest."""

    @property
    def sha256(self) -> str:
        """What its content must hash to; empty when the page does not say."""
        kind, _, value = self.digest.partition("=")
        return value if kind == "sha256" and _SHA256.fullmatch(value) else ""

    def metadata_file(self) -> IndexFile | None:
        """Its metadata as a file, if the index has it."""
        return None if self.metadata is None else IndexFile(self.name + METADATA, self.url + METADATA, self.metadata)


def normalize(name: str) -> str:
    """A package's name as indexes have it; empty for what is none."""
    return re.sub(r"[-_.]+", "-", name).lower() if _NAME.fullmatch(name) else ""


def parse_page(content: bytes, content_type: str, url: str) -> dict[str, IndexFile]:
    """The files of a page that came from `url`, by name; raises `BadPage`."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/vnd.pypi.simple.v1+json":
        files = _read_json(content, url)
    elif kind in {"text/html", "application/vnd.pypi.simple.v1+html"}:
        files = _read_html(content, url)
    else:
        raise BadPage(f"the index answered with {kind[:100] or 'no content type'}, and not with a page")
    return {one.name: one for one in itertools.islice(files, MOST_FILES)}


def write_page(name: str, files: Mapping[str, IndexFile]) -> bytes:
    """The page for a sandbox: `name` is the package's, normalised."""
    lines = [f"<!DOCTYPE html><title>{name}</title>", *(_write_link(name, one) for one in files.values())]
    return "\n".join(lines).encode()


def _write_link(name: str, one: IndexFile) -> str:
    digest = f"#{one.digest}" if one.digest else ""
    attributes = {"href": f"../../files/{name}/{quote(one.name)}{digest}"}
    if one.requires_python:
        attributes["data-requires-python"] = one.requires_python
    if one.yanked is not None:
        attributes["data-yanked"] = one.yanked
    if one.metadata is not None:
        attributes["data-core-metadata"] = one.metadata or "true"
    said = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<a {said}>{html.escape(one.name)}</a><br>"


def _read_json(content: bytes, url: str) -> Iterable[IndexFile]:
    try:
        listed = json.loads(content)["files"]
        if not isinstance(listed, list):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadPage("the index's page is not what JSON pages are") from None
    return filter(None, (_read_entry(each, url) for each in listed if isinstance(each, dict)))


def _read_entry(each: Mapping[str, Any], url: str) -> IndexFile | None:
    hashes = each.get("hashes")
    digest = _choose_digest(hashes)
    yanked = each.get("yanked", False)
    metadata = each.get("core-metadata", each.get("dist-info-metadata", False))
    return _make_file(
        str(each.get("url", "")),
        url,
        digest=digest,
        requires_python=str(each.get("requires-python") or ""),
        yanked=None if yanked is False or yanked is None else ("" if yanked is True else str(yanked)),
        metadata=None if metadata is False or metadata is None else _choose_digest(metadata),
    )


def _choose_digest(hashes: object) -> str:
    """The best of some hashes by kind, written as in a link; empty when there is none."""
    if not isinstance(hashes, dict):
        return ""
    kinds = ("sha256", *sorted(str(kind) for kind in hashes))
    written = (f"{kind}={hashes[kind]}".lower() for kind in kinds if kind in hashes)
    return next((each for each in written if _HASH.fullmatch(each)), "")


def _read_html(content: bytes, url: str) -> Iterable[IndexFile]:
    reader = _Reader(url)
    reader.feed(content.decode("utf-8", "replace"))
    reader.close()
    return filter(None, reader.found)


class _Reader(HTMLParser):
    """Takes the links of a page."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.found: list[IndexFile | None] = []
        self._base = url

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "base" and "href" in given:
            self._base = urljoin(self._base, given["href"])
        if tag != "a" or "href" not in given or len(self.found) >= MOST_FILES:
            return
        address, digest = urldefrag(given["href"])
        metadata = given.get("data-core-metadata", given.get("data-dist-info-metadata"))
        self.found.append(
            _make_file(
                address,
                self._base,
                digest=digest.lower() if _HASH.fullmatch(digest.lower()) else "",
                requires_python=given.get("data-requires-python", ""),
                yanked=given.get("data-yanked"),
                metadata=None if metadata is None else (metadata if _HASH.fullmatch(metadata) else ""),
            )
        )


def _make_file(
    address: str, base: str, *, digest: str, requires_python: str, yanked: str | None, metadata: str | None
) -> IndexFile | None:
    """The file that a link names; None for a link to anything else."""
    try:
        url = urljoin(base, address)
        parts = urlsplit(url)
    except ValueError:
        return None
    name = unquote(parts.path.rpartition("/")[2])
    if not _FILE.fullmatch(name) or parts.scheme not in {"http", "https"} or len(url) > _LONGEST_ADDRESS:
        return None
    shown = None if yanked is None else yanked[:_LONGEST_ATTRIBUTE]
    return IndexFile(name, url, digest, requires_python[:_LONGEST_ATTRIBUTE], shown, metadata)
