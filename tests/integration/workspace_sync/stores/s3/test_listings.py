"""Listings of several pages: each is asked for while the one before is looked at, and comes whole whatever happens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import cast
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from tests.doubles.scripted_s3 import ScriptedS3, answer
from workspace_sync.errors import StoreRefused
from workspace_sync.stores.s3.requests import Requests
from workspace_sync.stores.s3.store import S3Store

PAGES = 3
SECONDS = 120.0
MOMENT = "2026-11-21T22:51:53Z"
ELSEWHERE = "2026-11-21T23:51:53+01:00"
"""Only botocore reads it."""


class Listing:
    """`PAGES` pages of one key each; every request for one is in `asked`, as the number of the page."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.moments = dict.fromkeys(range(PAGES), MOMENT)
        self.following = {number: str(number + 1) for number in range(PAGES - 1)}
        self.later: dict[int, str] = {}
        """What follows when a page is asked for again."""
        self.broken: set[int] = set()
        """Pages whose first answer is cut off."""
        self.came = threading.Condition()

    def __call__(self, head: bytes) -> bytes:
        query = parse_qs(urlsplit(head.split(b" ", 2)[1].decode()).query)
        number = int(query.get("continuation-token", ["0"])[0])
        with self.came:
            tokens = self.later if number in self.later and number in self.asked else self.following
            self.asked.append(number)
            self.came.notify_all()
        token = tokens.get(number, "")
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

    def wait_for(self, asked: list[int]) -> None:
        with self.came:
            assert self.came.wait_for(lambda: self.asked == asked, SECONDS), self.asked


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


def test_a_page_is_asked_for_before_the_one_before_is_taken(listing: Listing) -> None:
    with served(listing) as store, closing(cast("Generator[object]", store.list("key-"))) as listed:
        next(listed)
        listing.wait_for([0, 1])
        assert len(list(listed)) == PAGES - 1
        assert listing.asked == [0, 1, 2]


def test_what_is_not_wanted_any_more_is_let_go_of(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[socket.socket | None] = []
    ask = Requests.ask

    def noted(self: Requests, key: str, query: dict[str, str] | None = None) -> socket.socket | None:
        asked.append(ask(self, key, query))
        return asked[-1]

    monkeypatch.setattr(Requests, "ask", noted)
    with served(listing) as store:
        listed = cast("Generator[object]", store.list("key-"))
        with closing(listed):
            next(listed)
        assert [each is not None and each.fileno() for each in asked] == [-1]


@pytest.mark.parametrize("number", range(PAGES))
def test_a_page_that_was_cut_off_is_asked_for_again(listing: Listing, number: int) -> None:
    listing.broken = {number}
    with served(listing) as store:
        assert keys(store) == ALL
    assert listing.asked.count(number) == 2


@pytest.mark.parametrize("number", range(PAGES))
def test_after_a_page_that_only_botocore_reads_the_next_follows(listing: Listing, number: int) -> None:
    listing.moments[number] = ELSEWHERE
    with served(listing) as store:
        assert keys(store) == ALL
        assert len({each.modified for each in store.list("key-")}) == 1


def test_what_follows_such_a_page_is_what_botocore_was_told(listing: Listing) -> None:
    listing.moments[0] = ELSEWHERE
    listing.later[0] = str(PAGES - 1)
    with served(listing) as store:
        assert keys(store) == [ALL[0], ALL[-1]]


def test_a_listing_without_an_end_is_refused(listing: Listing) -> None:
    listing.following[1] = "1"
    with served(listing) as store, pytest.raises(StoreRefused, match="comes to no end"):
        keys(store)
