"""Displays of a record and its replays: structure with all that a reader sees, images by what is visible."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from kernels.replay.evidence import Standing
from tests.unit.kernels.replay.shown import display, picture, result, weigh

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


def same(recorded: Any, replayed: Any) -> bool:
    return weigh([recorded], [replayed]).standing is Standing.SAME


def test_a_differing_table_is_shown_row_by_row() -> None:
    recorded, replayed = (display(text_html=TABLE.format(1, "a", value)) for value in ("0.5", "0.7"))
    found = weigh([recorded], [replayed])
    assert found.why == "The display (text/html) differs."
    assert "-0 | a | 0.5" in found.diff
    assert "+0 | a | 0.7" in found.diff
    assert " 1 | b | 7" in found.diff


SEEN = {
    "a cell": ("<tr><td>1</td><td></td></tr>", "<tr><td></td><td>1</td></tr>"),
    "a value": (TABLE.format(1, "a", "0.123456"), TABLE.format(1, "a", "0.123457")),
    "a date": (TABLE.format(1, "2024-01-01", 1), TABLE.format(1, "2024-01-02", 1)),
    "a duration": (TABLE.format(1, "345.0 ms", 1), TABLE.format(1, "361.0 ms", 1)),
    "a style sheet": (TABLE.format(1, "a", 1), TABLE.format(2, "a", 1)),
    "a width": ("<div style='width: 40%'>x</div>", "<div style='width: 60%'>x</div>"),
    "a link": ("<a href='https://one.example/1'>x</a>", "<a href='https://one.example/2'>x</a>"),
    "a colour": ("<td bgcolor=red>1</td>", "<td bgcolor=green>1</td>"),
    "whose colour": ("<td style='color:red'>1</td><td>2</td>", "<td>1</td><td style='color:red'>2</td>"),
    "an input": ("<input type=range value=3>", "<input type=range value=4>"),
    "a progress bar": ("<progress value=30 max=100></progress>", "<progress value=40 max=100></progress>"),
    "a title": ("<span title='5'>x</span>", "<span title='6'>x</span>"),
    "a script": ("<script>draw([12345678])</script>", "<script>draw([12345679])</script>"),
    "a picture": ("<img src='data:image/png;base64,AAAA'>", "<img src='data:image/png;base64,AAAB'>"),
    "blanks of a listing": ("<pre>  x</pre>", "<pre>   x</pre>"),
    "a mark in a value": ("<a title='a > b 1'>x</a>", "<a title='a > b 2'>x</a>"),
}


@pytest.mark.parametrize("name", SEEN)
def test_all_that_a_reader_sees_of_markup_counts(name: str) -> None:
    recorded, replayed = SEEN[name]
    for media_type in ("text_html", "image_svg__xml"):
        one, other = display(**{media_type: recorded}), display(**{media_type: replayed})
        assert weigh([one], [other], [other]).standing is Standing.DIFFERENT


def test_how_markup_is_written_does_not_count() -> None:
    one, other = "<p id=a1 class='x  y'>a &amp; b</p>", "<P CLASS=\"x y\"\n id='a1' >a &\n b</P><!-- x -->"
    assert same(display(text_html=one), display(text_html=other))


SHAPES = {
    "a point": ('<circle cx="10.25" cy="3"/>', '<circle cx="10.5" cy="3"/>'),
    "a label": ("<text x='1'>12345678</text>", "<text x='1'>12345679</text>"),
    "a width": ("<rect width='40'/>", "<rect width='41'/>"),
    "a fill": ("<path d='M 1 2' style='fill: #ff0000'/>", "<path d='M 1 2' style='fill: #00ff00'/>"),
    "a path": ("<path d='M 100000001 2'/>", "<path d='M 100000002 2'/>"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_attribute_of_a_shape_counts(name: str) -> None:
    recorded, replayed = SHAPES[name]
    one, other = display(image_svg__xml=f"<svg>{recorded}</svg>"), display(image_svg__xml=f"<svg>{replayed}</svg>")
    assert weigh([one], [other], [other]).standing is Standing.DIFFERENT


def test_identifiers_made_up_for_each_run_are_put_aside_where_they_vary() -> None:
    made = ("p0f8fad5bd9", "p7c9e66790c", "p5d2c11aa07")
    for media_type in ("image_svg__xml", "application_javascript", "text_html"):
        three = [[display(**{media_type: f'<g id="{each}"></g>draw("{each}", 12345678)'})] for each in made]
        found = weigh(*three)
        assert (found.standing, set(found.aside)) == (Standing.SAME, {"identifier from run to run"})
        changed = [[display(**{media_type: three[0][0]["data"].popitem()[1].replace("678", "679")})], *three[1:]]
        assert weigh(*changed).standing is Standing.DIFFERENT
    views = [{"model_id": each, "version_major": 2} for each in ("0f8fad5bd9", "7c9e66790c", "5d2c11aa07")]
    widgets = [[display(application_vnd_x__json=view, text_plain=f"Slider(value={5})")] for view in views]
    assert weigh(*widgets).standing is Standing.SAME
    widgets[0][0]["data"]["text/plain"] = "Slider(value=7)"
    assert weigh(*widgets).standing is Standing.DIFFERENT


def test_json_is_compared_by_value() -> None:
    recorded = display(application_json={"a": [1, 0.30000000000000004], "b": None})
    assert same(recorded, display(application_json={"b": None, "a": [1, 0.3]}))
    assert not same(recorded, display(application_json={"b": None, "a": [1, 0.4]}))
    assert not same(recorded, display(application_json={"b": None, "a": [0.3, 1]}))
    assert not same(recorded, display(application_json={"b": None, "a": [True, 0.3]}))
    for numbers in ((12345678, 12345679), (140000000000001, 140000000000999), ("0x1a2b3c4d", "0xdeadbeef")):
        for media_type in ("application_vnd.plotly.v1__json", "application_vnd.vegalite.v5__json"):
            one, other = (display(**{media_type: {"data": [{"y": [each]}]}}) for each in numbers)
            assert weigh([one], [other], [other]).standing is Standing.DIFFERENT


def test_only_what_cannot_be_seen_of_an_image_is_put_aside() -> None:
    recorded = display(image_png=picture(grey()))
    assert same(recorded, display(image_png=picture(grey(by_1=10_000)))), "rounding"
    assert same(recorded, display(image_png=picture(grey(by_10=4)))), "a speck"
    found = weigh([recorded], [display(image_png=picture(grey(by_10=5)))])
    assert found.why == "The display (image/png): more than 4 pixels next to each other differ."
    found = weigh([recorded], [display(image_png=picture(grey(by_40=1)))])
    assert found.why == "The display (image/png): a part of it differs visibly."
    assert not same(recorded, display(image_png=picture(grey(by_13=10_000)))), "a step of grey of a twentieth"
    specks = grey()
    for number in range(0, 3_000, 50):
        specks[number // 100][number % 100] += 8
    assert not same(recorded, display(image_png=picture(specks))), "many specks"
    assert weigh([recorded], [display(image_png=picture(grey(by_40=1)))], strict=True).standing is Standing.DIFFERENT


def test_a_speck_is_followed_from_row_to_row() -> None:
    rows = grey()
    for x, y in ((5, 5), (7, 5), (6, 6), (5, 7), (7, 7)):
        rows[y][x] += 8
    found = weigh([display(image_png=picture(grey()))], [display(image_png=picture(rows))])
    assert "more than 4 pixels next to each other differ" in found.why


def test_an_image_that_varies_is_no_evidence_for_another() -> None:
    one, other, third = ([display(image_png=picture(grey(by_40=count)))] for count in (0, 5, 9))
    assert weigh(one, other, third).standing is Standing.VARIES
    assert weigh(one, other, other).standing is Standing.DIFFERENT
    found = weigh(one, other, one)
    assert (found.standing, found.aside) == (Standing.SAME, {"image from run to run": 1})


def test_how_pixels_are_packed_does_not_count() -> None:
    rows = grey()
    colours = [[channel for shade in row for channel in (shade, shade, shade)] for row in rows]
    recorded = [display(image_png=picture(rows, compression=1))]
    assert same(recorded[0], display(image_png=picture(rows, interlace=True)))
    assert same(recorded[0], display(image_png=picture(colours, greyscale=False)))
    wrapped = "\n".join(picture(rows, compression=1)[at : at + 60] for at in range(0, 9_000, 60))
    assert same(recorded[0], display(image_png=wrapped))


def test_another_size_or_depth_is_another_image() -> None:
    recorded = [display(image_png=picture(grey()))]
    assert "101 x 100 pixels large instead of 100 x 100" in weigh(recorded, [display(image_png=picture(grey(101)))]).why
    deep = picture([[shade * 257 for shade in row] for row in grey()], bitdepth=16)
    assert "depth of colour" in weigh(recorded, [display(image_png=deep)]).why


def test_the_name_of_a_figure_does_not_count_and_other_text_does() -> None:
    one = display(image_png=picture(grey()), text_plain="<Figure size 640x480 with 1 Axes>")
    assert same(one, {**one, "data": {**one["data"], "text/plain": "<Figure size 1x1>"}})
    assert not same(one, {**one, "data": {**one["data"], "text/plain": "5"}})


def test_how_large_an_image_is_shown_counts_and_what_editors_add_does_not() -> None:
    one = display(image_png=picture(grey()))
    assert not same(
        {**one, "metadata": {"image/png": {"width": 100}}}, {**one, "metadata": {"image/png": {"width": 90}}}
    )
    assert same({**one, "metadata": {"image/png": {"needs_background": "light"}}}, one)
    view = {**one, "data": {**one["data"], "application/vnd.google.colaboratory.intrinsic+json": {"type": "x"}}}
    assert same(view, one)


@pytest.mark.parametrize("media_type", ["image/jpeg", "image/gif", "application/pdf", "audio/wav"])
def test_other_binary_kinds_are_compared_by_bytes(media_type: str) -> None:
    one, alike, other = (
        {"output_type": "display_data", "data": {media_type: data}} for data in ("QUJD", "QU\nJD\n", "QUJE")
    )
    assert same(one, alike)
    assert not same(one, other)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def crafted(width: int, height: int, lines: bytes, *more: bytes) -> str:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(more) + chunk(b"IDAT", zlib.compress(lines))
    return base64.b64encode(data + chunk(b"IEND", b"")).decode()


HOSTILE = {
    "a bomb": lambda: crafted(10, 10, bytes(50_000_000)),
    "no lines": lambda: crafted(10, 10, b""),
    "bad filters": lambda: crafted(10, 10, bytes([9] * 110)),
    "enormous": lambda: crafted(2**31 - 1, 2**31 - 1, b"x"),
    "large": lambda: crafted(60_000, 60_000, b"x"),
    "no pixels": lambda: crafted(0, 0, b""),
    "cut off": lambda: picture(grey())[:900],
    "not a PNG": lambda: "AAAA" * 100,
    "not base64": lambda: "%%%%",
    "not ASCII": lambda: "äöü",
    "surrogates": lambda: "\ud800",
    "empty": lambda: "",
    "broken palette": lambda: crafted(10, 10, bytes(110), chunk(b"PLTE", b"xx"), chunk(b"tRNS", b"y" * 999)),
}
"""Made when a test wants them: the first alone takes a tenth of a second, of each process that collects tests."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_images_differ_from_others_and_equal_themselves(name: str) -> None:
    image = HOSTILE[name]()
    hostile, honest = [display(image_png=image)], [display(image_png=picture(grey(10, 10)))]
    assert not same(hostile[0], honest[0])
    assert not same(honest[0], hostile[0])
    assert same(hostile[0], result(1, image_png=image))


def test_two_bombs_are_not_decoded() -> None:
    bombs = [display(image_png=crafted(10, 10, bytes(50_000_000) + end)) for end in (b"a", b"b")]
    assert "it is no whole PNG" in weigh([bombs[0]], [bombs[1]]).why


def test_images_beyond_the_bound_are_compared_as_they_are_stored() -> None:
    one, other = (crafted(3_000, 3_000, end) for end in (b"a", b"b"))
    assert "too large to be compared by pixels" in weigh([display(image_png=one)], [display(image_png=other)]).why


def test_displays_count_in_their_order() -> None:
    one, other = display(text_plain="one"), display(text_plain="other")
    assert weigh([one, other], [one, other]).standing is Standing.SAME
    assert weigh([one, other], [other, one]).standing is Standing.DIFFERENT
    assert weigh([one], [one, other]).why == "2 displays instead of 1."


def test_another_kind_of_display_differs() -> None:
    found = weigh([display(text_html="<b>1</b>")], [display(image_png="AAAA")])
    assert found.why == "The display is image/png instead of text/html."


def test_the_number_of_a_result_does_not_count() -> None:
    assert same(result(1, text_plain="5"), result(7, text_plain="5"))
