"""Outputs in full over HTTP: by range, by hostile requests, and never as something that a browser would run."""

from __future__ import annotations

import hashlib
import json

import httpx
import pytest

from sandcell import Client, NotFound, Session

TEXT = "".join((f"{n:07}," * 10)[:-1] + "\n" for n in range(6_000)).encode()
DIGEST = hashlib.sha256(TEXT).hexdigest()
HTML = "<script>alert(1)</script>" * 100_000


@pytest.fixture(scope="module")
def address(session: Session) -> str:
    assert session.run("for n in range(6_000): print((f'{n:07},' * 10)[:-1])").error is None
    return f"/v1/sessions/{session.id}/outputs/{DIGEST}"


def test_the_whole_and_parts_of_it(session: Session, address: str) -> None:
    assert session.output(DIGEST) == TEXT
    assert session.output(DIGEST, start=100, end=108) == TEXT[100:108]
    assert session.output(DIGEST, start=479_990) == TEXT[479_990:]
    with pytest.raises(NotFound):
        session.output("0" * 64)


def test_what_the_answer_says_of_itself(http: httpx.Client, address: str) -> None:
    whole = http.get(address)
    assert (whole.status_code, whole.headers["content-length"]) == (200, "480000")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["etag"] == f'"{DIGEST}"'
    part = http.get(address, headers={"Range": "bytes=-8"})
    assert (part.status_code, part.headers["content-range"]) == (206, "bytes 479992-479999/480000")
    assert part.content == TEXT[-8:]
    beyond = http.get(address, headers={"Range": "bytes=480000-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */480000")
    assert beyond.json()["error"]["code"] == "range_not_satisfiable"
    other = http.get(address, headers={"Range": "bytes=0-7", "If-Range": '"other"'})
    assert (other.status_code, len(other.content)) == (200, 480_000)
    same = http.get(address, headers={"Range": "bytes=0-7", "If-Range": f'"{DIGEST}"'})
    assert (same.status_code, same.content) == (206, TEXT[:8])


@pytest.mark.parametrize(
    "header",
    ["bytes=0-1,2-3", "bytes=" + "0-1," * 500, "bytes=-", "items=0-1", "bytes=5-1", "bytes=9" + "9" * 500 + "-"],
)
def test_ranges_that_are_not_heeded_get_the_whole(http: httpx.Client, address: str, header: str) -> None:
    answer = http.get(address, headers={"Range": header})
    assert (answer.status_code, len(answer.content)) == (200, 480_000)


@pytest.mark.parametrize(
    "name",
    ["0" * 64, DIGEST.upper(), DIGEST[:-1], DIGEST + ".txt", "..%2f..%2f..%2fetc%2fpasswd", "%00", "*" * 64, "a" * 127],
)
def test_what_is_no_output_is_not_found(http: httpx.Client, session: Session, name: str) -> None:
    assert http.get(f"/v1/sessions/{session.id}/outputs/{name}").status_code == 404


def test_a_large_page_is_bytes_to_a_browser(http: httpx.Client, session: Session, client: Client) -> None:
    code = "from IPython.display import HTML, display\ndisplay(HTML('<script>alert(1)</script>' * 100_000))"
    assert session.run(code).error is None
    notebook = json.loads(session.notebook())
    (about,) = notebook["cells"][-1]["metadata"]["sandcell"]["full"]
    assert (about["media_type"], about["size"]) == ("text/html", len(HTML))
    answer = http.get(about["href"])
    assert answer.text == HTML
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"].startswith("sandbox")


def test_it_outlives_the_session(client: Client) -> None:
    with client.session() as ended:
        ended.run("for n in range(6_000): print((f'{n:07},' * 10)[:-1])")
    assert client.output(ended.id, DIGEST, start=80, end=160) == TEXT[80:160]


def test_a_cell_says_what_it_used_and_changed(session: Session) -> None:
    session.run("open('made', 'wb').write(bytes(2_000_000))")
    used = json.loads(session.notebook())["cells"][-1]["metadata"]["sandcell"]["provenance"]
    assert used["environment_digest"].startswith("sha256:")
    assert used["written_bytes"] >= 2_000_000
    (made,) = used["files"]
    digest = hashlib.sha256(bytes(2_000_000)).hexdigest()
    assert made == {"path": "made", "change": "added", "size": 2_000_000, "sha256": digest}
