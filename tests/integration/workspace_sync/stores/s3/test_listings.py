"""Listings of several pages come whole whatever happens to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.doubles.scripted_s3 import ScriptedS3, answer
from workspace_sync.errors import PermissionMissing, StoreRefused, StoreUnavailable
from workspace_sync.stores.s3.store import S3Store

PAGES = 3
MOMENT = "2026-11-21T22:51:53Z"


class Listing:
    """`PAGES` pages of one key each; every request for one is in `asked`, as the number of the page."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.moments = dict.fromkeys(range(PAGES), MOMENT)
        self.following = {number: str(number + 1) for number in range(PAGES - 1)}
        self.broken: set[int] = set()
        """Pages whose first answer is cut off."""

    def __call__(self, head: bytes) -> bytes:
        query = parse_qs(urlsplit(head.split(b" ", 2)[1].decode()).query)
        number = int(query.get("continuation-token", ["0"])[0])
        self.asked.append(number)
        token = self.following.get(number, "")
        more = str(bool(token)).lower()
        body = (
            f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated>"
            f"<NextContinuationToken>{token}</NextContinuationToken><Contents><Key>key-{number}</Key><Size>7</Size>"
            f"<LastModified>{self.moments[number]}</LastModified><ETag>&quot;tag&quot;</ETag></Contents>"
            "</ListBucketResult>"
        ).encode()
        whole = answer(200, body, Connection="close")
        if number in self.broken:
            self.broken.discard(number)
            return whole[:-20]
        return whole


@contextmanager
def served(listing: Listing) -> Iterator[S3Store]:
    with (
        ScriptedS3(listing) as server,
        closing(S3Store(BUCKET, endpoint_url=server.endpoint, access_key=ACCESS_KEY)) as store,
    ):
        yield store


@pytest.fixture
def listing() -> Listing:
    return Listing()


def keys(store: S3Store) -> list[str]:
    return [each.key for each in store.list("key-")]


ALL = [f"key-{number}" for number in range(PAGES)]


@pytest.mark.parametrize("number", range(PAGES))
def test_a_page_that_was_cut_off_is_asked_for_again(listing: Listing, number: int) -> None:
    listing.broken = {number}
    with served(listing) as store:
        assert keys(store) == ALL
    assert listing.asked.count(number) == 2


def test_a_page_that_is_none_is_no_empty_listing(listing: Listing) -> None:
    listing.moments[1] = "yesterday"
    with served(listing) as store, pytest.raises(StoreUnavailable, match="does not speak S3"):
        keys(store)


def test_a_refusal_in_place_of_a_page_is_told() -> None:
    refusal = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    with (
        ScriptedS3(lambda _: answer(403, refusal, Connection="close")) as server,
        closing(S3Store(BUCKET, endpoint_url=server.endpoint, access_key=ACCESS_KEY)) as store,
        pytest.raises(PermissionMissing, match="s3:ListBucket"),
    ):
        keys(store)


def test_a_listing_without_an_end_is_refused(listing: Listing) -> None:
    listing.following[1] = "1"
    with served(listing) as store, pytest.raises(StoreRefused, match="comes to no end"):
        keys(store)
