"""One page of a listing as an S3 server writes it (no I/O), read at a tenth of the cost of botocore's way.

Source of the form: Amazon S3 API Reference, "ListObjectsV2", with `encoding-type=url`, without which a key may hold
what XML cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element, ParseError, fromstring

from workspace_sync.store import StoredObject
from workspace_sync.stores.s3.errors import etag_of

PAGE_BYTES = 8 << 20
"""A page of a thousand keys, each as long as it can be and written at three letters a byte."""


@dataclass(frozen=True)
class Page:
    """Objects by their keys in the bucket, and what the next page is asked for with; '' after the last."""

    objects: list[StoredObject]
    token: str


def page_query(prefix: str, token: str) -> dict[str, str]:
    """What a page is asked for with."""
    query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
    return {**query, "continuation-token": token} if token else query


def read_page(body: bytes | bytearray, ask: Callable[[str], object] = lambda _token: None) -> Page | None:
    """The page; None for what is none, or is written otherwise: botocore reads that, or says what it is.

    `ask` is called with the token of the next page, if there is one, before the objects of this one are looked at.
    """
    try:
        root = fromstring(bytes(body))  # noqa: S314 - botocore reads with it too
        space, _, name = root.tag.rpartition("}")
        within = f"{space}}}" if space else ""
        if name != "ListBucketResult" or root.findtext(f"{within}EncodingType") != "url":
            return None
        if any(each.tag.rpartition("}")[0] != space for each in root):
            return None
        more = _text(root, f"{within}IsTruncated") == "true"
        token = _text(root, f"{within}NextContinuationToken") if more else ""
        if token:
            ask(token)
        return Page([_object(each, within) for each in root.iterfind(f"{within}Contents")], token)
    except (ParseError, LookupError, ValueError):
        return None


def page_of_botocore(told: Any) -> Page:
    """The same of botocore's answer."""
    objects = [
        StoredObject(each["Key"], each["Size"], each["LastModified"].timestamp(), etag_of(each))
        for each in told.get("Contents", ())
    ]
    return Page(objects, told["NextContinuationToken"] if told.get("IsTruncated") else "")


def _object(contents: Element, within: str) -> StoredObject:
    key = unquote_plus(_text(contents, f"{within}Key"), errors="strict")
    modified = _seconds(_text(contents, f"{within}LastModified"))
    etag = contents.findtext(f"{within}ETag", "").strip('"')
    return StoredObject(key, int(_text(contents, f"{within}Size")), modified, etag)


def _text(element: Element, name: str) -> str:
    text = element.findtext(name)
    if text is None:
        raise LookupError(name)
    return text


def _seconds(text: str) -> float:
    """Of a time in UTC, whose fraction has any number of digits."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    if not text.endswith("Z"):
        raise ValueError("a time of another zone")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")
