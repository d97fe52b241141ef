"""Durable files over plain HTTP, without a session: told, read in part, changed on condition, removed in rehearsal."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator

import httpx
import pytest

TEN = b"0123456789"
TAG = f'"{hashlib.sha256(TEN).hexdigest()}"'
OTHER = f'"{hashlib.sha256(b"other").hexdigest()}"'


def workspace_of(http: httpx.Client) -> str:
    """A workspace whose session has ended."""
    answer = http.post("/v1/sessions", json={})
    assert answer.status_code == 201, answer.text
    assert http.delete(f"/v1/sessions/{answer.json()['id']}").status_code == 200
    return str(answer.json()["workspace_id"])


@pytest.fixture(scope="module")
def workspace(http: httpx.Client) -> str:
    return f"/v1/workspaces/{workspace_of(http)}"


@pytest.fixture
def ten(http: httpx.Client, workspace: str) -> Iterator[str]:
    """The address of a file of ten bytes."""
    address = f"{workspace}/files/out/ten"
    answer = http.put(address, content=TEN)
    assert answer.status_code == 200, answer.text
    yield address
    http.delete(f"{workspace}/files/out", params={"recursive": True})


def test_a_file_is_told_without_its_bytes(http: httpx.Client, ten: str, workspace: str) -> None:
    head = http.head(ten)
    assert (head.status_code, head.headers["Content-Length"], head.headers["ETag"]) == (200, "10", TAG)
    assert head.headers["Accept-Ranges"] == "bytes"
    assert head.headers["Last-Modified"].endswith("GMT")
    told = http.get(f"{workspace}/stat", params={"path": "out/ten"}).json()
    assert (told["kind"], told["size"], told["mode"], told["etag"]) == ("file", 10, "644", TAG)
    assert f'"{told["sha256"]}"' == TAG
    directory = http.get(f"{workspace}/stat", params={"path": "out"}).json()
    assert (directory["kind"], directory["etag"]) == ("directory", None)
    assert http.head(f"{workspace}/files/out").status_code == 409
    assert http.head(f"{workspace}/files/absent").status_code == 404
    assert http.get(f"{workspace}/stat").status_code == 400
    assert http.get(f"{workspace}/stat", params={"path": "../x"}).json()["error"]["code"] == "invalid_path"


@pytest.mark.parametrize(
    ("asked", "sent", "status", "where"),
    [
        ({}, TEN, 200, None),
        ({"Range": "bytes=2-4"}, b"234", 206, "bytes 2-4/10"),
        ({"Range": "bytes=7-"}, b"789", 206, "bytes 7-9/10"),
        ({"Range": "bytes=-2"}, b"89", 206, "bytes 8-9/10"),
        ({"Range": "bytes=5-999"}, b"56789", 206, "bytes 5-9/10"),
        ({"Range": "bytes=0-9"}, TEN, 200, None),
        ({"Range": "lines=1-2"}, TEN, 200, None),
        ({"Range": "bytes=1-2,5-6"}, TEN, 200, None),
        ({"Range": "bytes=2-4", "If-Range": TAG}, b"234", 206, "bytes 2-4/10"),
        ({"Range": "bytes=2-4", "If-Range": OTHER}, TEN, 200, None),
        ({"If-Match": TAG}, TEN, 200, None),
        ({"If-None-Match": OTHER}, TEN, 200, None),
    ],
)
def test_bytes_are_read_as_asked(
    http: httpx.Client, ten: str, asked: dict[str, str], sent: bytes, status: int, where: str | None
) -> None:
    answer = http.get(ten, headers=asked)
    assert (answer.status_code, answer.content) == (status, sent)
    assert answer.headers.get("Content-Range") == where
    assert (answer.headers["ETag"], answer.headers["Content-Length"]) == (TAG, str(len(sent)))
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("known", [TAG, f"W/{TAG}", f"{OTHER}, {TAG}", "*"], ids=["same", "weak", "list", "any"])
def test_what_the_caller_has_is_not_sent(http: httpx.Client, ten: str, method: str, known: str) -> None:
    answer = http.request(method, ten, headers={"If-None-Match": known, "Range": "bytes=0-1"})
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", TAG)


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"Range": "bytes=10-"}, 416, "range_not_satisfiable"),
        ({"Range": "bytes=-0"}, 416, "range_not_satisfiable"),
        ({"If-Match": OTHER}, 412, "precondition_failed"),
        ({"If-Match": f"W/{TAG}"}, 412, "precondition_failed"),
        ({"If-Match": "no tag"}, 400, "invalid_request"),
        ({"If-None-Match": "a" * 9_000}, 400, "invalid_request"),
    ],
)
def test_what_cannot_be_read_is_refused(
    http: httpx.Client, ten: str, asked: dict[str, str], status: int, code: str
) -> None:
    answer = http.get(ten, headers=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers.get("Content-Range") == ("bytes */10" if status == 416 else None)


def test_an_empty_file_has_no_range(http: httpx.Client, workspace: str) -> None:
    address = f"{workspace}/files/empty"
    assert http.put(address, content=b"").status_code == 200
    assert http.get(address).content == b""
    assert http.get(address, headers={"Range": "bytes=0-"}).status_code == 416


def test_writes_and_removals_on_condition(http: httpx.Client, ten: str) -> None:
    assert http.put(ten, content=b"x", headers={"If-None-Match": "*"}).status_code == 412
    assert http.put(ten, content=b"x", headers={"If-Match": OTHER}).status_code == 412
    assert http.put(ten + "2", content=b"x", headers={"If-Match": "*"}).status_code == 412
    assert http.delete(ten, headers={"If-Match": OTHER}).status_code == 412
    assert http.get(ten).content == TEN
    written = http.put(ten, content=b"other", headers={"If-Match": TAG})
    assert (written.status_code, written.json()["etag"]) == (200, OTHER)
    assert http.put(ten + "2", content=b"x", headers={"If-None-Match": "*"}).status_code == 200
    assert http.delete(ten, headers={"If-Match": OTHER}).status_code == 204
    assert http.get(ten).status_code == 404


def test_a_dry_run_says_what_would_go(http: httpx.Client, ten: str, workspace: str) -> None:
    address = f"{workspace}/files/out"
    refused = http.delete(address, params={"dry_run": True})
    assert (refused.status_code, refused.json()["error"]["reason"]) == (409, "not_empty")
    told = http.delete(address, params={"dry_run": True, "recursive": True})
    assert told.status_code == 200
    assert told.json() == {
        "dry_run": True,
        "file_count": 1,
        "size_bytes": 10,
        "paths": ["out", "out/ten"],
        "omitted": 0,
        "kept": [],
        "pending": False,
    }
    assert http.get(ten).content == TEN


def test_live_files_are_rehearsed_too(http: httpx.Client, session_id: str) -> None:
    address = f"/v1/sessions/{session_id}/files/kept"
    assert http.put(f"{address}/ten", content=TEN).status_code == 200
    told = http.delete(address, params={"dry_run": True, "recursive": True})
    assert (told.status_code, told.json()["paths"], told.json()["size_bytes"]) == (200, ["kept", "kept/ten"], 10)
    assert http.delete(address, params={"dry_run": True}).status_code == 409
    assert http.get(f"{address}/ten").content == TEN
    assert http.delete(f"{address}/absent", params={"dry_run": True}).status_code == 404


def test_the_listing_goes_on_where_it_stopped(http: httpx.Client, ten: str, workspace: str) -> None:
    for name in ("a", "b"):
        http.put(f"{workspace}/files/out/{name}", content=b"")
    found: list[str] = []
    cursor: str | None = None
    while True:
        query = {"path": "out", "limit": 1, **({"cursor": cursor} if cursor else {})}
        page = http.get(f"{workspace}/files", params=query).json()
        found += [each["path"] for each in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert found == ["out/a", "out/b", "out/ten"]


def test_an_archive_is_streamed(http: httpx.Client, ten: str, workspace: str) -> None:
    http.put(f"{workspace}/files/out/..%5Cevil", content=b"below")
    http.put(f"{workspace}/files/out/large", content=bytes(25_000_001))
    answer = http.get(f"{workspace}/archive", params={"path": "out"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/zip")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''out.zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert archive.namelist() == ["out/", "out/..%5Cevil", "out/ten", "SKIPPED.txt"]
    assert archive.read("out/ten") == TEN
    assert "out/large\thas 25,000,001 bytes" in archive.read("SKIPPED.txt").decode()
    assert http.get(f"{workspace}/archive", params={"path": "absent"}).status_code == 404
    assert http.get(f"{workspace}/archive", params={"path": "../x"}).status_code == 400
    assert http.head(f"{workspace}/archive").status_code == 405
