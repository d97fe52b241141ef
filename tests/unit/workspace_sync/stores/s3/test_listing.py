"""Pages of a listing as servers write them, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree.ElementTree import ParseError, fromstring

import pytest

from workspace_sync.store import StoredObject
from workspace_sync.stores.s3.listing import Page, read_page

MOMENT = datetime(2026, 11, 21, 22, 51, 53, tzinfo=UTC).timestamp()


def page(contents: str = "", more: str = "<IsTruncated>false</IsTruncated>", encoding: str = "url") -> bytes:
    return (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Prefix/>{more}{contents}<EncodingType>{encoding}</EncodingType></ListBucketResult>"
    ).encode()


def contents(key: str, modified: str = "2026-11-21T22:51:53.3Z") -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>"
        "<ETag>&quot;tag&quot;</ETag><Size>7</Size></Contents>"
    )


def read(body: bytes) -> Page:
    return read_page(fromstring(body))


@pytest.mark.parametrize(
    ("written", "key"),
    [("plain", "plain"), ("a+b%2Bc%2541/%C3%BC%26%3Cx%3E", "a b+c%41/ü&<x>"), ("a%20b", "a b"), ("x%01y", "x\x01y")],
)
def test_keys_are_what_they_were(written: str, key: str) -> None:
    found = read(page(contents(written)))
    assert found.objects == [StoredObject(key, 7, MOMENT + 0.3, "tag")]
    assert not found.token


def test_keys_of_a_server_that_encodes_nothing_are_taken_as_they_are() -> None:
    assert [each.key for each in read(page(contents("a+b%41"), encoding="")).objects] == ["a+b%41"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T22:51:53Z", 0.0),
        ("2026-11-21T22:51:53.000Z", 0.0),
        ("2026-11-21T22:51:53.123456789Z", 0.123456),
        ("2026-11-21T23:51:53+01:00", 0.0),
        ("2026-11-21T22:51:53", 0.0),
    ],
)
def test_times_have_any_number_of_digits_and_any_zone(text: str, seconds: float) -> None:
    assert read(page(contents("key", text))).objects[0].modified == pytest.approx(MOMENT + seconds, abs=1e-6)


def test_the_next_page_is_asked_for_with_what_this_one_says() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t=1&amp;</NextContinuationToken>"
    assert read(page(more=more)).token == "t=1&"


def test_a_page_without_a_name_space_is_read() -> None:
    bare = page(contents("key")).replace(b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', b"")
    assert [each.key for each in read(bare).objects] == ["key"]


@pytest.mark.parametrize(
    "body",
    [
        page()[:-5],
        page(more="<IsTruncated>true</IsTruncated>"),
        page(contents("key", "yesterday")),
        page(contents("bad%ff")),
        page(contents("key").replace("<Size>7", "<Size>many")),
        page(contents("key").replace("<Key>key</Key>", "")),
    ],
    ids=["cut", "no-token", "no-time", "not-utf-8", "no-size", "no-key"],
)
def test_what_no_server_writes_is_no_page(body: bytes) -> None:
    with pytest.raises((ParseError, LookupError, ValueError)):
        read(body)
