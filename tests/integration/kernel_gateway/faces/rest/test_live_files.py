"""Files of a live session over plain HTTP: read in part, on conditions, and never two versions of one."""

from __future__ import annotations

import time

import httpx
import pytest

TEN = b"0123456789"


@pytest.fixture(scope="module")
def ten(http: httpx.Client, session_id: str) -> str:
    """The address of a file of ten bytes, whose ETag is a strong one by now."""
    address = f"/v1/sessions/{session_id}/files/out/ten"
    assert http.put(address, content=TEN).status_code == 200
    until = time.monotonic() + 120
    while http.get(address).headers["ETag"].startswith("W/"):
        assert time.monotonic() < until
        time.sleep(0.1)
    return address


@pytest.mark.parametrize(
    ("wanted", "status", "content", "place"),
    [
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=0-9", 200, TEN, None),
        ("bytes=5-4", 200, TEN, None),
        ("lines=1-2", 200, TEN, None),
    ],
)
def test_a_range_is_heeded(
    http: httpx.Client, ten: str, wanted: str, status: int, content: bytes, place: str | None
) -> None:
    answer = http.get(ten, headers={"Range": wanted})
    assert (answer.status_code, answer.content, answer.headers.get("Content-Range")) == (status, content, place)
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["ETag"] == http.get(ten).headers["ETag"]


def test_a_range_beyond_the_end_is_refused(http: httpx.Client, ten: str) -> None:
    answer = http.get(ten, headers={"Range": "bytes=10-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */10")


def test_conditions_are_held_against_the_version(http: httpx.Client, ten: str) -> None:
    tag = http.get(ten).headers["ETag"]
    part = {"Range": "bytes=4-"}
    assert http.get(ten, headers={**part, "If-Range": tag}).status_code == 206
    assert http.get(ten, headers={**part, "If-Range": '"another"'}).content == TEN
    same = http.get(ten, headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert http.get(ten, headers={"If-None-Match": '"another"'}).content == TEN
    assert http.get(ten, headers={"If-Match": tag}).content == TEN
    assert http.get(ten, headers={"If-Match": '"another"'}).status_code == 412


def test_what_was_changed_just_now_has_a_weak_tag_and_another_one(
    http: httpx.Client, session_id: str, ten: str
) -> None:
    before = http.get(ten).headers["ETag"]
    code = (
        "import os, pathlib\nfile = pathlib.Path('out/ten')\nabout = file.stat()\nfile.write_bytes(b'abcdefghij')\n"
        "os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))"
    )  # as many bytes, and the time of the last change is put back
    run = http.post(f"/v1/sessions/{session_id}/executions", json={"code": code, "wait": True})
    assert run.json()["status"] == "ok"
    after = http.get(ten, headers={"Range": "bytes=4-", "If-Range": before})
    assert (after.status_code, after.content) == (200, b"abcdefghij")
    assert after.headers["ETag"].removeprefix("W/") != before
    http.put(ten, content=TEN)
    fresh = http.get(ten)
    if fresh.headers["ETag"].startswith("W/"):  # a slow machine may have come too late to see it
        part = http.get(ten, headers={"Range": "bytes=4-", "If-Range": fresh.headers["ETag"]})
        assert (part.status_code, part.content) == (200, TEN)


def test_a_file_that_is_replaced_again_and_again_never_comes_mixed(http: httpx.Client, session_id: str) -> None:
    address = f"/v1/sessions/{session_id}/files/busy"
    code = (
        "import os, pathlib\nfor n in range(10**9):\n    pathlib.Path('new').write_bytes(b'%d' % (n % 10) * 10)\n"
        "    os.replace('new', 'busy')"
    )
    running = http.post(f"/v1/sessions/{session_id}/executions", json={"code": code, "wait": False}).json()["id"]
    until = time.monotonic() + 120
    while (first := http.get(address)).status_code == 404:
        assert time.monotonic() < until
    seen = {first.status_code}
    for _ in range(40):
        answer = http.get(address, headers={"Range": "bytes=2-7"})
        seen.add(answer.status_code)
        if answer.status_code == 206:
            assert (len(answer.content), len(set(answer.content))) == (6, 1)
        else:
            assert answer.json()["error"]["code"] == "file_changed"
    assert seen <= {200, 206, 409}
    http.post(f"/v1/sessions/{session_id}/executions/{running}/interrupt")


def test_what_is_no_file_is_refused_as_without_a_range(http: httpx.Client, session_id: str, ten: str) -> None:
    for path, status in (("out", 400), ("absent", 404)):
        for headers in ({}, {"Range": "bytes=0-1"}):
            assert http.get(f"/v1/sessions/{session_id}/files/{path}", headers=headers).status_code == status
