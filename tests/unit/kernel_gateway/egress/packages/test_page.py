"""Pages of package indexes, in both forms, as they are and as somebody would like them to be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel_gateway.egress.packages.page import BadPage, IndexFile, normalize, parse_page, write_page

URL = "https://index.example/simple/tiny/"
JSON, HTML = "application/vnd.pypi.simple.v1+json", "text/html; charset=utf-8"
SHA = "ab" * 32
WHEEL = "tiny-1.0-py3-none-any.whl"


def json_page(*files: Any) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "tiny", "files": list(files)}).encode()


def html_page(links: str) -> bytes:
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


def test_both_forms_say_the_same_of_a_file() -> None:
    entry = {"filename": WHEEL, "url": f"../../f/{WHEEL}", "hashes": {"md5": "cd" * 16, "sha256": SHA}}
    entry |= {"requires-python": ">=3.9", "yanked": "bad & old", "core-metadata": {"sha256": SHA}}
    link = (
        f'<a href="../../f/{WHEEL}#sha256={SHA}" data-requires-python="&gt;=3.9" data-yanked="bad &amp; old"'
        f' data-core-metadata="sha256={SHA}">{WHEEL}</a>'
    )
    wanted = {
        WHEEL: IndexFile(
            WHEEL, f"https://index.example/f/{WHEEL}", f"sha256={SHA}", ">=3.9", "bad & old", f"sha256={SHA}"
        )
    }
    assert parse_page(json_page(entry), JSON, URL) == parse_page(html_page(link), HTML, URL) == wanted
    assert wanted[WHEEL].sha256 == SHA
    metadata = wanted[WHEEL].metadata_file()
    assert metadata is not None
    assert (metadata.url, metadata.sha256) == (f"https://index.example/f/{WHEEL}.metadata", SHA)


def test_what_is_written_reads_the_same_but_for_the_address() -> None:
    files = {
        name: IndexFile(name, f"https://files.example/x/{name}", *more)
        for name, more in {
            WHEEL: (f"sha256={SHA}", ">=3,<4", None, ""),
            "tiny-1.0+local.tar.gz": ("", "", "", None),
            "tiny-2!1.0.zip": (f"md5={'0' * 32}", "", 'a "reason" <b>', f"sha256={SHA}"),
        }.items()
    }
    page = write_page("tiny", files)
    again = parse_page(page, HTML, "http://127.0.0.1:3130/simple/tiny/")
    assert [one.url for one in again.values()] == [
        f"http://127.0.0.1:3130/files/tiny/{name}" for name in (WHEEL, "tiny-1.0%2Blocal.tar.gz", "tiny-2%211.0.zip")
    ]
    for name, one in files.items():
        told = again[name]
        assert (told.digest, told.requires_python, told.yanked, told.metadata) == (
            one.digest,
            one.requires_python,
            one.yanked,
            one.metadata,
        )


@pytest.mark.parametrize(
    "address",
    [
        "../",
        "x.exe",
        "ftp://index.example/" + WHEEL,
        "file:///etc/" + WHEEL,
        "javascript:alert(1)//" + WHEEL,
        "https://index.example/" + "a" * 5000 + "/" + WHEEL,
        "https://[broken/" + WHEEL,
        "https://index.example/%2e%2e%2f" + WHEEL,
        "https://index.example/a%0d%0ab.whl",
        "https://index.example/.." + ".whl",
    ],
)
def test_links_to_anything_but_a_package_s_file_are_passed_over(address: str) -> None:
    assert parse_page(json_page({"url": address}), JSON, URL) == {}
    assert parse_page(html_page(f'<a href="{address}">x</a>'), HTML, URL) == {}


def test_a_hash_that_is_none_is_no_hash() -> None:
    for digest in ("sha256=short", "sha256=" + "zz" * 32, "crc32=00000000", f"sha256={SHA}&x"):
        (one,) = parse_page(html_page(f'<a href="{WHEEL}#{digest}">x</a>'), HTML, URL).values()
        assert (one.digest, one.sha256) == ("", "")
    (one,) = parse_page(json_page({"url": WHEEL, "hashes": {"sha256": ["x"], "md5": 7}}), JSON, URL).values()
    assert one.digest == ""


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", JSON), (b"[]", JSON), (b'{"files": 1}', JSON), (b"[" * 100_000, JSON), (b"x", "text/plain"), (b"x", "")],
)
def test_what_is_no_page_is_refused(content: bytes, kind: str) -> None:
    with pytest.raises(BadPage):
        parse_page(content, kind, URL)


def test_names_are_compared_as_indexes_do() -> None:
    assert normalize("Tiny_.Sample") == normalize("tiny-sample") == "tiny-sample"
    assert {normalize(name) for name in ("", "-x", "a/b", "..", "a%2fb", "x" * 101, "é")} == {""}
