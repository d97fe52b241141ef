"""Pages of a listing: as servers write them, and what is left to botocore."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workspace_sync.store import StoredObject
from workspace_sync.stores.s3.listing import page_query, read_page

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


@pytest.mark.parametrize(
    ("written", "key"),
    [("plain", "plain"), ("a+b%2Bc%2541/%C3%BC%26%3Cx%3E", "a b+c%41/ü&<x>"), ("a%20b", "a b"), ("x%01y", "x\x01y")],
)
def test_keys_are_what_they_were(written: str, key: str) -> None:
    found = read_page(page(contents(written)))
    assert found is not None
    assert found.objects == [StoredObject(key, 7, MOMENT + 0.3, "tag")]
    assert not found.token


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-11-21T22:51:53Z", 0.0), ("2026-11-21T22:51:53.000Z", 0.0), ("2026-11-21T22:51:53.123456789Z", 0.123456789)],
)
def test_times_have_any_number_of_digits(text: str, seconds: float) -> None:
    found = read_page(page(contents("key", text)))
    assert found is not None
    assert found.objects[0].modified == pytest.approx(MOMENT + seconds, abs=1e-6)


def test_the_next_page_is_asked_for_with_what_this_one_says() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t=1&amp;</NextContinuationToken>"
    found = read_page(page(more=more))
    assert found is not None
    assert page_query("p/", found.token)["continuation-token"] == "t=1&"
    assert "continuation-token" not in page_query("p/", "")


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Sign in</body></html>",
        b"not XML",
        page()[:-5],
        page(encoding=""),
        page(more=""),
        page(more="<IsTruncated>true</IsTruncated>"),
        page(contents("key", "yesterday")),
        page(contents("key", "2026-11-21T22:51:53+01:00")),
        page(contents("bad%ff")),
        page(contents("key").replace("<Size>7", "<Size>many")),
        page(contents("key").replace("<Contents>", '<Contents xmlns="urn:other">')),
    ],
    ids=[
        "html",
        "text",
        "cut",
        "literal",
        "endless",
        "no-token",
        "no-time",
        "other-zone",
        "not-utf-8",
        "no-size",
        "two-names",
    ],
)
def test_what_is_written_otherwise_is_left_to_botocore(body: bytes) -> None:
    assert read_page(body) is None
