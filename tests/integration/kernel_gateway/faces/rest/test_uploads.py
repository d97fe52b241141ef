"""Uploads in parts over plain HTTP: nothing shows before the file is whole, then it is as if it had come at once."""

from __future__ import annotations

import hashlib
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.running_service import RunningService

TEN = b"0123456789"
DIGEST = hashlib.sha256(TEN).hexdigest()


def begin(http: httpx.Client, owner: str, path: str, **query: Any) -> str:
    """The address of a new upload."""
    answer = http.post(f"{owner}/uploads", params={"path": path, **query})
    assert answer.status_code == 201, answer.text
    assert (answer.json()["path"], answer.json()["offset_bytes"], answer.json()["file"]) == (path, 0, None)
    return f"{owner}/uploads/{answer.json()['id']}"


def send(http: httpx.Client, upload: str, content: bytes, offset: int = 0) -> httpx.Response:
    return http.patch(upload, content=content, headers={"Upload-Offset": str(offset)})


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.fixture(scope="module")
def session(session_id: str) -> str:
    return f"/v1/sessions/{session_id}"


@pytest.fixture(scope="module")
def workspace(http: httpx.Client) -> str:
    """One whose session has ended."""
    started = http.post("/v1/sessions", json={}).json()
    http.delete(f"/v1/sessions/{started['id']}")
    return f"/v1/workspaces/{started['workspace_id']}"


def test_parts_become_a_live_file_that_code_sees_at_once(http: httpx.Client, session: str) -> None:
    path = "in/\u00e4 file"
    http.put(f"{session}/files/{path}", content=b"old")
    http.post(f"{session}/commands", json={"command": f"chmod 750 '{path}'"})
    upload = begin(http, session, path, size_bytes=10)
    assert http.patch(upload, content=TEN[:4]).json()["offset_bytes"] == 4
    wrong = send(http, upload, TEN)
    assert (*refusal(wrong), wrong.json()["error"]["offset_bytes"]) == (409, "wrong_offset", 4)
    assert refusal(http.post(f"{upload}/complete")) == (409, "conflict")
    assert http.get(f"{session}/files/{path}").content == b"old"
    assert send(http, upload, TEN[4:], 4).json()["offset_bytes"] == 10
    before = http.get("/v1/sessions").json()
    assert [each["path"] for each in http.get(f"{session}/files?recursive=true").json()["items"]] == ["in", path]
    entry = http.post(f"{upload}/complete", json={"sha256": DIGEST})
    assert (entry.status_code, entry.json()["path"], entry.json()["size"]) == (200, path, 10)
    assert http.post(f"{upload}/complete").json() == http.get(upload).json()["file"] == entry.json()
    ran = http.post(f"{session}/commands", json={"command": f"stat -c '%a %U' '{path}' && cat '{path}'"}).json()
    plain = http.put(f"{session}/files/plain", content=TEN)
    owner = http.post(f"{session}/commands", json={"command": "stat -c %U plain"}).json()["stdout"]
    assert ran["stdout"] == f"750 {owner}{TEN.decode()}"
    assert plain.json().keys() == entry.json().keys()
    assert before["items"]


def test_uploads_are_listed_until_they_are_complete_or_given_up(http: httpx.Client, session: str) -> None:
    key = {"Idempotency-Key": "mine"}
    first = http.post(f"{session}/uploads", params={"path": "a"}, headers=key).json()
    assert http.post(f"{session}/uploads", params={"path": "a"}, headers=key).json()["id"] == first["id"]
    other = http.post(f"{session}/uploads", params={"path": "b"}, headers=key)
    assert refusal(other) == (409, "idempotency_conflict")
    uploads = [f"{session}/uploads/{first['id']}", *(begin(http, session, path) for path in "bc")]
    page = http.get(f"{session}/uploads", params={"limit": 2}).json()
    rest = http.get(f"{session}/uploads", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [each["path"] for each in (*page["items"], *rest["items"])] == ["a", "b", "c"]
    assert rest["next_cursor"] is None
    assert [http.delete(each).status_code for each in uploads] == [204, 204, 204]
    assert refusal(http.get(uploads[0])) == refusal(http.delete(uploads[0])) == (404, "not_found")
    assert http.get(f"{session}/uploads").json()["items"] == []


def test_what_makes_no_sense_is_refused_and_writes_nothing(http: httpx.Client, session: str) -> None:
    assert refusal(http.post(f"{session}/uploads")) == (400, "invalid_request")
    assert refusal(http.post(f"{session}/uploads?path=../x")) == (400, "invalid_path")
    assert refusal(http.post(f"{session}/uploads?path=x&size_bytes=-1")) == (400, "invalid_request")
    assert refusal(http.post(f"{session}/uploads?path=x&size_bytes=99999999999999")) == (413, "payload_too_large")
    upload = begin(http, session, "wrong", size_bytes=10)
    for offset in ("-1", "one", "9" * 19):
        assert refusal(http.patch(upload, content=TEN, headers={"Upload-Offset": offset})) == (400, "invalid_request")
    assert refusal(send(http, upload, TEN + b"x")) == (400, "invalid_request")
    assert http.get(upload).json()["offset_bytes"] == 0
    assert send(http, upload, TEN).status_code == 200
    assert refusal(http.post(f"{upload}/complete", json={"sha256": "short"})) == (400, "invalid_request")
    assert refusal(http.post(f"{upload}/complete", json={"sha256": "0" * 64})) == (422, "checksum_mismatch")
    assert http.get(upload).status_code == 404
    assert http.get(f"{session}/files/wrong").status_code == 404


def test_a_part_that_breaks_off_keeps_what_has_come(service: RunningService, http: httpx.Client, session: str) -> None:
    upload, at = begin(http, session, "broken"), urlsplit(service.url)
    head = f"PATCH {upload} HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {service.token}\r\n"
    with socket.create_connection((at.hostname, at.port), timeout=120) as connection:
        connection.sendall(f"{head}Content-Length: 10\r\n\r\n".encode() + TEN[:6])
        until = time.monotonic() + 120
        while http.get(upload).json()["offset_bytes"] < 6:
            assert time.monotonic() < until
            time.sleep(0.02)
    assert send(http, upload, TEN[6:], 6).json()["offset_bytes"] == 10
    assert http.post(f"{upload}/complete", json={"sha256": DIGEST}).status_code == 200
    assert http.get(f"{session}/files/broken").content == TEN


def test_parts_become_a_durable_file_on_conditions(http: httpx.Client, workspace: str) -> None:
    upload = begin(http, workspace, "data/ten", size_bytes=10)
    send(http, upload, TEN)
    assert refusal(http.post(f"{upload}/complete", headers={"If-Match": '"other"'})) == (412, "precondition_failed")
    entry = http.post(f"{upload}/complete", json={"sha256": DIGEST}, headers={"If-None-Match": "*"}).json()
    assert (entry["sha256"], entry["etag"]) == (DIGEST, f'"{DIGEST}"')
    assert http.get(upload).json()["file"] == entry
    assert http.get(f"{workspace}/files/data/ten").content == TEN
    with_live = http.post("/v1/sessions", json={"workspace_id": workspace.rpartition("/")[2]}).json()
    assert refusal(http.post(f"{workspace}/uploads?path=x")) == (409, "workspace_in_use")
    http.delete(f"/v1/sessions/{with_live['id']}")
    begin(http, workspace, "x")
    assert http.delete(workspace).is_success
    assert refusal(http.get(f"{workspace}/uploads")) == (404, "not_found")


def test_the_end_of_a_session_leaves_nothing_of_its_uploads(service: RunningService, http: httpx.Client) -> None:
    session = f"/v1/sessions/{http.post('/v1/sessions', json={}).json()['id']}"
    uploads = [begin(http, session, path) for path in "ab"]
    send(http, uploads[0], TEN)
    http.post(f"{uploads[0]}/complete")
    send(http, uploads[1], TEN)
    ids = [each.rpartition("/")[2] for each in uploads]
    directory = service.data_dir / "state" / "uploads"
    assert sorted(each.name for each in directory.iterdir() if each.stem in ids) == sorted(
        [f"{ids[0]}.json", f"{ids[1]}.json", f"{ids[1]}.bytes"]
    )
    http.delete(session)
    assert refusal(send(http, uploads[1], b"x", 10)) == (409, "session_terminated")
    assert [each.name for each in directory.iterdir() if each.stem in ids] == []
