"""Conditions of requests on durable files, held against a file."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest, PreconditionFailed
from kernel_gateway.faces.rest.conditions import Wanted, parse_tags, read_expected
from sandcell.models.workspaces import DurableFile

FILE = DurableFile("out", "file", 10, "2026-01-01T00:00:00.000000Z", etag='"aa"')
WEAK = DurableFile("out", "file", 10, "2026-01-01T00:00:00.000000Z", etag='W/"aa"')


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, None),
        ("*", frozenset()),
        (" * ", frozenset()),
        ('"aa"', frozenset({'"aa"'})),
        ('"aa" , W/"b,b"', frozenset({'"aa"', 'W/"b,b"'})),
        ('""', frozenset({'""'})),
    ],
)
def test_tags(header: str | None, found: frozenset[str] | None) -> None:
    assert parse_tags(header, "If-Match") == found


NO_TAGS = {
    "empty": "",
    "bare": "aa",
    "open": '"aa',
    "no-comma": '"aa" "bb"',
    "comma": '"aa",',
    "lower": 'w/"aa"',
    "any-and": '*, "aa"',
    "newline": '"a\n"',
    "long": '"' + "a" * 8_192 + '"',
}


@pytest.mark.parametrize("header", NO_TAGS.values(), ids=NO_TAGS)
def test_what_is_no_list_of_tags(header: str) -> None:
    with pytest.raises(InvalidRequest, match="If-Match"):
        parse_tags(header, "If-Match")


def test_what_is_expected_of_a_change() -> None:
    assert read_expected({}).any_of is None
    assert read_expected({}).none_of is None
    assert read_expected({"If-Match": "*"}).any_of == frozenset()
    assert read_expected({"If-None-Match": "*"}).none_of == frozenset()
    assert read_expected({"If-Match": '"aa", W/"bb"'}).any_of == {"aa", 'W/"bb"'}, "a weak tag is no digest"
    assert read_expected({"If-None-Match": '"aa", W/"bb"'}).none_of == {"aa", "bb"}


@pytest.mark.parametrize(
    ("file", "asked", "part", "unchanged"),
    [
        (FILE, {}, (0, 10), False),
        (FILE, {"Range": "bytes=2-4"}, (2, 5), False),
        (FILE, {"Range": "bytes=2-4", "If-Range": '"aa"'}, (2, 5), False),
        (FILE, {"Range": "bytes=2-4", "If-Range": '"bb"'}, (0, 10), False),
        (FILE, {"Range": "bytes=2-4", "If-Range": 'W/"aa"'}, (0, 10), False),
        (WEAK, {"Range": "bytes=2-4", "If-Range": 'W/"aa"'}, (0, 10), False),
        (WEAK, {"Range": "bytes=2-4"}, (2, 5), False),
        (FILE, {"If-None-Match": '"bb"'}, (0, 10), False),
        (FILE, {"If-None-Match": 'W/"aa"', "Range": "bytes=99-"}, (0, 0), True),
        (WEAK, {"If-None-Match": 'W/"aa"'}, (0, 0), True),
        (FILE, {"If-None-Match": "*"}, (0, 0), True),
        (FILE, {"If-Match": '"aa"'}, (0, 10), False),
        (WEAK, {"If-Match": "*"}, (0, 10), False),
    ],
)
def test_what_is_wanted_of_a_file(
    file: DurableFile, asked: dict[str, str], part: tuple[int, int], unchanged: bool
) -> None:
    wanted = Wanted(asked)
    assert wanted(file) == part
    assert wanted.unchanged == unchanged


@pytest.mark.parametrize(("file", "match"), [(FILE, '"bb"'), (FILE, 'W/"aa"'), (WEAK, 'W/"aa"'), (WEAK, '"aa"')])
def test_another_file_than_the_one_that_is_named(file: DurableFile, match: str) -> None:
    with pytest.raises(PreconditionFailed):
        Wanted({"If-Match": match})(file)
