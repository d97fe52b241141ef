"""One page of a listing as an S3 server writes it (no I/O), read at a tenth of the cost of botocore's way.

Source of the form: Amazon S3 API Reference, "ListObjectsV2", with `encoding-type=url`, without which a key may hold
what XML cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element, ParseError, fromstring

from workspace_sync.s3_store_answers import etag_of
from workspace_sync.store import StoredObject

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


def read_page(body: bytes | bytearray) -> Page | None:
    """The page; None for what is none, or is written otherwise: botocore reads that, or says what it is."""
    try:
        root = fromstring(bytes(body))  # noqa: S314 - botocore reads with it too
        if _name(root) != "ListBucketResult":
            return None
        told = {_name(each): each.text or "" for each in root if _name(each) != "Contents"}
        if told.get("EncodingType") != "url":
            return None
        token = told["NextContinuationToken"] if told["IsTruncated"] == "true" else ""
        return Page([_object(each) for each in root if _name(each) == "Contents"], token)
    except (ParseError, LookupError, ValueError):
        return None


def page_of_botocore(told: Any) -> Page:
    """The same of botocore's answer."""
    objects = [
        StoredObject(each["Key"], each["Size"], each["LastModified"].timestamp(), etag_of(each))
        for each in told.get("Contents", ())
    ]
    return Page(objects, told["NextContinuationToken"] if told.get("IsTruncated") else "")


def _object(contents: Element) -> StoredObject:
    told = {_name(each): each.text or "" for each in contents}
    etag = etag_of(told)
    return StoredObject(
        unquote_plus(told["Key"], errors="strict"), int(told["Size"]), _seconds(told["LastModified"]), etag
    )


def _seconds(text: str) -> float:
    """Of a time in UTC, whose fraction has any number of digits."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    if not text.endswith("Z"):
        raise ValueError("a time of another zone")
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]
