"""JSON bodies and query strings: what is malformed, what is invalid and which field is named."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.errors import MalformedJson, UnsupportedMediaType
from kernel_gateway.faces.json_bodies import decode, encode
from kernel_gateway.faces.rest import bodies
from kernel_gateway.faces.rest.parameters import Listing, Nothing, PageOf, SessionsPage
from sandcell.models.executions import Submission
from sandcell.models.sessions import StartSession
from sandcell.models.workspaces import FileEntry


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"code": "x"}{}',
        b"{'code': 1}",
        b'{"code": }',
        b'\xff\xfe{"code":"x"}',
        b'{"code": "\xff"}',
        b'{"code": "\\ud800"}',
        b'{"code": NaN}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_in_utf8_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedJson) as caught:
        decode(body, Submission)
    assert (caught.value.code, caught.value.status) == ("malformed_json", 400)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "code"),
        (b"[]", None),
        (b'"code"', None),
        (b"null", None),
        (b'{"code": 1}', "code"),
        (b'{"code": null}', "code"),
        (b'{"code": "x", "timeout_seconds": "2"}', "timeout_seconds"),
        (b'{"code": "x", "timeout_seconds": 1e999}', "timeout_seconds"),
        (b'{"code": "x", "on_busy": "wait"}', "on_busy"),
        (b'{"code": "x", "wait": 1}', "wait"),
        (b'{"code": "x", "language": 1}', "language"),
        (b'{"code": "x", "expect_generation": 1.5}', "expect_generation"),
        (b'{"code": "x", "colour": "red"}', "colour"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field(body: bytes, field: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(body, Submission)
    assert caught.value.code == "invalid_request"
    assert caught.value.details.get("field") == field


def test_a_field_inside_is_named_by_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(b'{"labels": {"a": 1}}', StartSession)
    assert caught.value.details["field"].startswith("labels")


def test_an_empty_body_is_an_empty_object() -> None:
    assert decode(b"", StartSession) == StartSession()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("status=GONE", "status"),
        ("cursor=" + "x" * 1025, "cursor"),
        ("colour=red", "colour"),
        ("limit=%ff", "limit"),
        ("limit=1&limit=2", "limit"),
        ("%ff=%ff", "\\udcff"),
    ],
)
def test_a_query_that_does_not_fit_names_the_parameter(text: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bodies.read_query(text, SessionsPage)
    assert caught.value.details["field"] == field


@pytest.mark.parametrize("text", ["limit=1&limit=2", "cursor=%ff", "&".join(f"a{n}=1" for n in range(40))])
def test_a_query_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        bodies.read_query(text, PageOf)


def test_a_query_is_typed() -> None:
    assert bodies.read_query("", Nothing) == Nothing()
    found = bodies.read_query("path=a%20b/%ff&recursive=true&limit=5", Listing)
    assert (found.path, found.recursive, found.limit) == ("a b/\udcff", True, 5)


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_a_body_must_say_that_it_is_json(media: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        bodies.check_json(media)


@pytest.mark.parametrize(
    "media", ["application/json", "Application/JSON ; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_json_is_taken_however_it_is_spelt(media: str) -> None:
    bodies.check_json(media)


def test_a_name_that_is_not_utf8_goes_out_as_escapes() -> None:
    assert b'"\\udcff"' in encode(FileEntry("\udcff", "file", 1, "t"))
