"""Pages of a bucket's listing: boto3 asks for them, and what it gets is read here.

botocore reads a page of a thousand keys by its model, at six times the cost; a start waits for the listing, so a
hook takes that over. Source of the form: Amazon S3 API Reference, "ListObjectsV2".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element, ParseError, fromstring

import msgspec
from botocore.parsers import ResponseParserError

from workspace_sync.store import StoredObject

_PAGE = "Page"
"""The name of a page in botocore's answer."""
_READ = b"<ListBucketResult/>"
"""What is left for botocore to read."""


class Page(msgspec.Struct, frozen=True):
    """Objects by their keys in the bucket, and what the next page is asked for with; '' after the last."""

    objects: list[StoredObject]
    token: str


def parse_listings(client: Any) -> None:
    """Let this client's answers to `list_objects_v2` hold a `Page`."""
    # `*`, since botocore calls that before its own hook for `s3.*`, which parses every answer to see whether it is an
    # error, and then has nothing to do.
    client.meta.events.register("before-parse.*.ListObjectsV2", _parse)


def request_page(client: Any, bucket: str, prefix: str, token: str) -> Page:
    """One page of the keys that begin so, by a client that parses listings; `token` is empty for the first."""
    after = {"ContinuationToken": token} if token else {}
    # Without `url` a key may hold what XML cannot.
    answer = client.list_objects_v2(Bucket=bucket, Prefix=prefix, EncodingType="url", **after)
    page: Page | None = answer.get(_PAGE)
    if page is None:
        raise ResponseParserError("an answer to ListObjectsV2 that is none")
    return page


def read_page(root: Element) -> Page:
    """What a page says. Raises `ValueError` or `LookupError` for what no server writes so."""
    fields: dict[str, str] = {}
    listed = []
    for each in root:
        name = _name(each)
        if name == "Contents":
            listed.append(each)
        else:
            fields[name] = each.text or ""
    encoded = fields.get("EncodingType") == "url"
    objects = [_object(each, encoded=encoded) for each in listed]
    return Page(objects, fields["NextContinuationToken"] if fields.get("IsTruncated") == "true" else "")


def _parse(response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
    """Called by botocore before it parses an answer."""
    if response_dict["status_code"] >= 300:
        return
    try:
        root = fromstring(response_dict["body"])  # noqa: S314 - botocore reads with it too
        if _name(root) == "Error":  # a success by its status alone: botocore tells it
            return
        if _name(root) != "ListBucketResult":
            raise ValueError(_name(root))
        customized_response_dict[_PAGE] = read_page(root)
    except ParseError:  # cut off: that hook makes it an error of the server, which is asked again
        return
    except (LookupError, ValueError) as error:
        raise ResponseParserError("an answer to ListObjectsV2 that is none") from error
    response_dict["body"] = _READ


def _object(contents: Element, *, encoded: bool) -> StoredObject:
    space = contents.tag.removesuffix("Contents")
    key = _text(contents, f"{space}Key")
    etag = contents.findtext(f"{space}ETag", "").strip('"')
    return StoredObject(
        unquote_plus(key, errors="strict") if encoded else key,
        int(_text(contents, f"{space}Size")),
        _seconds(_text(contents, f"{space}LastModified")),
        etag,
    )


def _text(element: Element, name: str) -> str:
    text = element.findtext(name)
    if text is None:
        raise LookupError(name)
    return text


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _seconds(text: str) -> float:
    """Of a time with any fraction, in UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
