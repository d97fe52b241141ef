"""A download's requests and the places of its bytes, connection after connection."""

from __future__ import annotations

import pytest

from sandcell import ConnectionFailed, NotFound, SandcellError
from sandcell.downloads import Download
from sandcell.steps import ATTEMPTS, Ask

BROKEN = ConnectionFailed("broken", code="connection_failed", retryable=True)
WHOLE = {"ETag": '"one"', "Content-Length": "10"}
REST = {"ETag": '"one"', "Content-Range": "bytes 4-9/10"}


def begun(headers: dict[str, str] = WHOLE) -> tuple[Download, list[tuple[int, int | None]]]:
    """A download that broke after four bytes, and its progress."""
    seen: list[tuple[int, int | None]] = []
    download = Download(Ask("GET", "/file", on_progress=lambda done, size: seen.append((done, size))))
    assert "Range" not in download.headers
    assert download.begin(200, headers) == 0
    download.advance(4)
    assert download.fail(BROKEN) > 0
    return download, seen


def test_it_asks_for_the_rest_of_the_same_version() -> None:
    download, seen = begun()
    assert (download.headers["Range"], download.headers["If-Range"]) == ("bytes=4-", '"one"')
    assert download.begin(206, REST) == 4
    download.advance(5)
    with pytest.raises(ConnectionFailed, match="missing"):
        download.end()
    download.advance(1)
    download.end()
    assert seen == [(4, 10), (9, 10), (10, 10)]


def test_a_new_version_begins_again() -> None:
    download, seen = begun()
    assert download.begin(200, {"ETag": '"two"', "Content-Length": "3"}) == 0
    download.advance(2)
    download.fail(BROKEN)
    assert (download.headers["Range"], download.headers["If-Range"]) == ("bytes=2-", '"two"')
    assert seen == [(4, 10), (2, 3)]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "10"},
        {"ETag": 'W/"one"', "Content-Length": "10"},
        {"ETag": '"one"'},
        {"ETag": '"one"', "Content-Length": "10", "Content-Encoding": "gzip"},
    ],
    ids=["no tag", "weak", "no size", "compressed"],
)
def test_what_has_no_certain_version_begins_again(headers: dict[str, str]) -> None:
    download, _ = begun(headers)
    assert {"Range", "If-Range"} & set(download.headers) == set()
    assert download.begin(200, headers) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {**REST, "Content-Range": "bytes 3-9/10"},
        {**REST, "Content-Range": "bytes 4-9/11"},
        {**REST, "Content-Range": "nonsense"},
        {**REST, "ETag": '"two"'},
        {"ETag": '"one"'},
    ],
)
def test_a_part_that_was_not_asked_for_is_not_taken(headers: dict[str, str]) -> None:
    download, _ = begun()
    with pytest.raises(ConnectionFailed, match="wrong part") as caught:
        download.begin(206, headers)
    download.fail(caught.value)
    assert "Range" not in download.headers


def test_it_ends_when_connections_bring_nothing_more() -> None:
    download, _ = begun()
    for _ in range(2 * ATTEMPTS):
        download.begin(206, {**REST, "Content-Range": f"bytes {download.headers['Range'][6:-1]}-99/10"})
        download.advance(1)
        download.fail(BROKEN)
    for _ in range(ATTEMPTS - 2):
        download.fail(BROKEN)
    with pytest.raises(ConnectionFailed):
        download.fail(BROKEN)


def test_beginning_again_and_again_ends_too() -> None:
    download, _ = begun({"Content-Length": "10"})
    for _ in range(ATTEMPTS - 2):
        download.begin(200, {"Content-Length": "10"})
        download.advance(4)
        download.fail(BROKEN)
    with pytest.raises(ConnectionFailed):
        download.fail(BROKEN)


@pytest.mark.parametrize("error", [NotFound("gone", status=404), SandcellError("no", status=500, retryable=True)])
def test_an_answer_that_would_come_again_ends_it(error: SandcellError) -> None:
    download, _ = begun()
    with pytest.raises(SandcellError) as caught:
        download.fail(error)
    assert caught.value is error
