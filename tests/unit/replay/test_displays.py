"""Displays of two runs: tables by value, images by pixels, JSON by value, markup by what it shows."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from kernels.replay import compare
from tests.unit.replay.shown import display, picture, result

TABLE = """<div><style scoped>.dataframe {{ x: {0} }}</style>
<table border="1" class="dataframe"><thead><tr style="text-align: right;">
<th></th><th>name</th><th>value</th></tr></thead>
<tbody><tr><th>0</th><td>{1}</td><td>{2}</td></tr><tr><th>1</th><td>b</td><td>7</td></tr></tbody></table></div>"""


def grey(width: int = 100, height: int = 100, **changed: int) -> list[list[int]]:
    """Rows of a gradient; `changed`: how many pixels are that much lighter, from the start (`by_20=3`)."""
    rows = [[(x + y) % 200 for x in range(width)] for y in range(height)]
    for by, count in changed.items():
        for number in range(count):
            rows[number // width][number % width] += int(by.removeprefix("by_"))
    return rows


def test_tables_are_their_cells() -> None:
    recorded = display(text_html=TABLE.format(1, "a", "0.123456"), text_plain="name value")
    assert compare([recorded], [display(text_html=TABLE.format(2, " a ", "0.123457"), text_plain="other")]).same
    assert not compare([recorded], [display(text_html=TABLE.format(1, "a", "0.2"))]).same
    assert not compare([recorded], [display(text_html=TABLE.format(1, "c", "0.123456"))]).same


def test_a_differing_table_is_shown_row_by_row() -> None:
    recorded, replayed = (display(text_html=TABLE.format(1, "a", value)) for value in ("0.5", "0.7"))
    found = compare([recorded], [replayed])
    assert found.why == "The display (text/html) differs."
    assert "-0 | a | 0.5" in found.diff
    assert "+0 | a | 0.7" in found.diff
    assert " 1 | b | 7" in found.diff


def test_cells_that_move_to_another_column_differ() -> None:
    one, other = "<tr><td>1</td><td></td></tr>", "<tr><td></td><td>1</td></tr>"
    assert not compare([display(text_html=one)], [display(text_html=other)]).same


def test_dates_in_tables_are_data() -> None:
    recorded, replayed = (display(text_html=TABLE.format(1, "2024-01-0" + day, "1")) for day in "12")
    assert not compare([recorded], [replayed]).same


def test_entities_and_attributes_do_not_count_but_images_in_markup_do() -> None:
    assert compare(
        [display(text_html="<p id=a1>a &amp; b</p>")], [display(text_html="<P id=b2>a & b</P><!-- x -->")]
    ).same
    recorded, replayed = (display(text_html=f'<img src="data:image/png;base64,{data}">') for data in ("AAAA", "AAAB"))
    assert not compare([recorded], [replayed]).same
    assert not compare(
        [display(text_html="<script>draw(1)</script>")], [display(text_html="<script>draw(2)</script>")]
    ).same


def test_identifiers_made_up_for_a_run_do_not_count() -> None:
    one, other = "0f8fad5bd9cb469fa16570867728950e", "7c9e66790c4f4a8e9c1a2b3c4d5e6f70"
    for media_type in ("image_svg__xml", "application_javascript"):
        recorded, replayed = (display(**{media_type: f'<g id="p{each[:10]}"/>draw("{each}")'}) for each in (one, other))
        assert compare([recorded], [replayed]).same
    widgets = (
        display(**{"application_vnd.jupyter.widget-view__json": {"model_id": each, "version_major": 2}})
        for each in (one, other)
    )
    assert compare([next(widgets)], [next(widgets)]).same


def test_json_is_compared_by_value() -> None:
    recorded = display(application_json={"a": [1, 0.30000000000000004], "b": None})
    assert compare([recorded], [display(application_json={"b": None, "a": [1, 0.3]})]).same
    assert not compare([recorded], [display(application_json={"b": None, "a": [1, 0.4]})]).same
    assert not compare([recorded], [display(application_json={"b": None, "a": [0.3, 1]})]).same


def test_pixels_may_differ_a_little_and_few_of_them_much() -> None:
    recorded = [display(image_png=picture(grey()))]
    assert compare(recorded, [display(image_png=picture(grey(by_10=5_000)))]).same
    assert compare(recorded, [display(image_png=picture(grey(by_40=1)))]).same
    found = compare(recorded, [display(image_png=picture(grey(by_40=2)))])
    assert found.why == "The display (image/png): more than 1 of 10,000 pixels differ."


def test_how_pixels_are_packed_does_not_count() -> None:
    rows = grey()
    colours = [[channel for shade in row for channel in (shade, shade, shade)] for row in rows]
    recorded = [display(image_png=picture(rows, compression=1))]
    assert compare(recorded, [display(image_png=picture(rows, interlace=True))]).same
    assert compare(recorded, [display(image_png=picture(colours, greyscale=False))]).same
    wrapped = "\n".join(picture(rows, compression=1)[at : at + 60] for at in range(0, 9_000, 60))
    assert compare(recorded, [display(image_png=wrapped)]).same


def test_another_size_or_depth_is_another_image() -> None:
    recorded = [display(image_png=picture(grey()))]
    assert (
        "101 x 100 pixels large instead of 100 x 100" in compare(recorded, [display(image_png=picture(grey(101)))]).why
    )
    deep = picture([[shade * 257 for shade in row] for row in grey()], bitdepth=16)
    assert "depth of colour" in compare(recorded, [display(image_png=deep)]).why


def test_a_plot_that_is_redrawn_is_compared_without_its_name() -> None:
    one = display(image_png=picture(grey()), text_plain="<Figure size 640x480 with 1 Axes>")
    assert compare([one], [{**one, "data": {**one["data"], "text/plain": "<Figure size 1x1>"}}]).same


@pytest.mark.parametrize("media_type", ["image/jpeg", "image/gif", "application/pdf", "audio/wav"])
def test_other_binary_kinds_are_compared_by_bytes(media_type: str) -> None:
    one, same, other = (
        {"output_type": "display_data", "data": {media_type: data}} for data in ("QUJD", "QU\nJD\n", "QUJE")
    )
    assert compare([one], [same]).same
    assert not compare([one], [other]).same


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def crafted(width: int, height: int, lines: bytes, *more: bytes) -> str:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(more) + chunk(b"IDAT", zlib.compress(lines))
    return base64.b64encode(data + chunk(b"IEND", b"")).decode()


HOSTILE = {
    "a bomb": crafted(10, 10, bytes(50_000_000)),
    "no lines": crafted(10, 10, b""),
    "bad filters": crafted(10, 10, bytes([9] * 110)),
    "enormous": crafted(2**31 - 1, 2**31 - 1, b"x"),
    "large": crafted(60_000, 60_000, b"x"),
    "no pixels": crafted(0, 0, b""),
    "cut off": picture(grey())[:900],
    "not a PNG": "AAAA" * 100,
    "not base64": "%%%%",
    "not ASCII": "äöü",
    "surrogates": "\ud800",
    "empty": "",
    "broken palette": crafted(10, 10, bytes(110), chunk(b"PLTE", b"xx"), chunk(b"tRNS", b"y" * 999)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_images_differ_from_others_and_equal_themselves(name: str) -> None:
    hostile, honest = [display(image_png=HOSTILE[name])], [display(image_png=picture(grey(10, 10)))]
    assert not compare(hostile, honest).same
    assert not compare(honest, hostile).same
    assert compare(hostile, [result(1, image_png=HOSTILE[name])]).same


def test_two_bombs_are_not_decoded() -> None:
    bombs = [display(image_png=crafted(10, 10, bytes(50_000_000) + end)) for end in (b"a", b"b")]
    assert "it is no whole PNG" in compare([bombs[0]], [bombs[1]]).why


def test_images_beyond_the_bound_are_compared_as_they_are_stored() -> None:
    one, other = (crafted(3_000, 3_000, end) for end in (b"a", b"b"))
    assert "too large to be compared by pixels" in compare([display(image_png=one)], [display(image_png=other)]).why


def test_displays_count_in_their_order() -> None:
    one, other = display(text_plain="one"), display(text_plain="other")
    assert compare([one, other], [one, other]).same
    assert not compare([one, other], [other, one]).same
    assert compare([one], [one, other]).why == "2 displays instead of 1."


def test_another_kind_of_display_differs() -> None:
    found = compare([display(text_html="<b>1</b>")], [display(image_png="AAAA")])
    assert found.why == "The display is image/png instead of text/html."


def test_the_number_of_a_result_does_not_count() -> None:
    assert compare([result(1, text_plain="5")], [result(7, text_plain="5")]).same
