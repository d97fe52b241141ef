"""Small objects that are asked for ahead: what fails is asked for again, what is slow holds nothing back."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import CredentialRetrievalError

from tests.doubles.faulty_s3 import Fault, FaultyS3, Refusal, Reset, Stall, Torn
from workspace_sync.errors import StoreUnusable
from workspace_sync.stores.s3.download import MOST_ASKED
from workspace_sync.stores.s3.store import S3Store

COUNT = 2 * MOST_ASKED + 5


@pytest.fixture
def wanted(behind_faulty: S3Store) -> dict[int, str]:
    """The keys of objects, each of which holds its number, many times."""
    keys = {number: f"file{number:02}" for number in range(COUNT)}
    for number, key in keys.items():
        content = held(number)
        behind_faulty.put(key, io.BytesIO(content), len(content))
    return keys


def held(number: int) -> bytes:
    return b"%03d" % number * 1000


def connections(port: int) -> int:
    """Of this process to a port of loopback."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(link.name))) as one:
                    count += one.getpeername() == ("127.0.0.1", port)
    return count


@pytest.mark.parametrize(
    "fault", [Reset(), Reset(after=True), Torn(10), Refusal(503, "SlowDown")], ids=["reset", "done", "torn", "refused"]
)
def test_what_fails_on_the_way_is_asked_for_again(
    fault: Fault, faulty: FaultyS3, behind_faulty: S3Store, wanted: dict[int, str]
) -> None:
    faulty.fail(fault, "GetObject", times=3)
    found = []
    with behind_faulty.get_ahead(wanted.items()) as coming:
        for number, opened in coming:
            with opened() as stream:
                assert stream.read() == held(number)
            found.append(number)
    assert sorted(found) == list(wanted)


def test_an_object_that_does_not_come_holds_back_no_other(
    faulty: FaultyS3, behind_faulty: S3Store, wanted: dict[int, str]
) -> None:
    faulty.fail(Stall(), "GetObject", times=1)
    with behind_faulty.get_ahead(list(wanted.items())) as coming:
        for _ in range(COUNT - 1):
            number, opened = next(coming)
            with opened() as stream:
                assert stream.read() == held(number)
            del wanted[number]
        faulty.drop()
        number, opened = next(coming)
        with opened() as stream:
            assert stream.read() == held(number)
    assert list(wanted) == [number]


def test_no_connection_stays_with_what_is_given_up(
    faulty: FaultyS3, behind_faulty: S3Store, wanted: dict[int, str]
) -> None:
    faulty.fail(Stall(), "GetObject", skip=1)
    port = urlsplit(faulty.endpoint).port or 0
    before = connections(port)
    with behind_faulty.get_ahead(wanted.items()) as coming:
        next(coming)[1]().close()
        assert connections(port) > before
    assert connections(port) == before


def test_what_is_never_answered_is_asked_for_again(faulty: FaultyS3, open_s3: Callable[..., S3Store]) -> None:
    impatient = open_s3(faulty.endpoint)
    impatient.put("file", io.BytesIO(b"content"), 7)
    faulty.fail(Stall(), "GetObject", times=1)
    with impatient.get_ahead([("one", "file")]) as coming:
        ((item, opened),) = coming
        with opened() as stream:
            assert (item, stream.read()) == ("one", b"content")


def test_credentials_that_cannot_be_had_are_told_when_an_object_is_opened(
    behind_faulty: S3Store, wanted: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unobtainable(*_: object) -> None:
        raise CredentialRetrievalError(provider="a test", error_msg="nobody is there")

    monkeypatch.setattr(Credentials, "get_frozen_credentials", unobtainable)
    with behind_faulty.get_ahead(wanted.items()) as coming, pytest.raises(StoreUnusable, match="credentials"):
        next(coming)[1]()
