"""What models' interfaces get of a result, and what is made of what models write."""

from __future__ import annotations

import pytest

from sandcell.tools import anthropic, model_calls, openai
from sandcell.tools.contents import Image, Link, Text, ToolResult

FIGURE = ToolResult((Text("shown:"), Image(b"picture", "image/png"), Link("sandcell://rest", "all")))


def test_text_alone_stays_text() -> None:
    assert openai._make_output(ToolResult((Text("a"), Text("b"), Link("sandcell://rest", "all")))) == "a\nb"


def test_images_are_images_where_an_interface_takes_them() -> None:
    url = "data:image/png;base64,cGljdHVyZQ=="
    assert openai._make_output(FIGURE) == [
        {"type": "input_text", "text": "shown:"},
        {"type": "input_image", "image_url": url},
    ]
    assert openai._make_image_message(FIGURE.images) == [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "cGljdHVyZQ=="}
    assert anthropic._make_block(FIGURE.images[0]) == {"type": "image", "source": source}
    assert FIGURE.text == "shown:\n[image/png, 7 bytes]"


@pytest.mark.parametrize(
    ("written", "read"), [('{"code": "1"}', {"code": "1"}), ("", {}), ({"a": 1}, {"a": 1}), ("{", "{"), ("[]", "[]")]
)
def test_arguments_are_read_as_far_as_they_can_be(written: object, read: object) -> None:
    assert model_calls.read_arguments(written) == read


def test_a_missing_framework_is_named() -> None:
    with pytest.raises(ImportError, match="pip install no-such-package"):
        model_calls.import_framework("no_such_framework", "no-such-package")
