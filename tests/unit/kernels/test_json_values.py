"""Counting the values of a JSON text without decoding it, against what decoding finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.json_values import more_values_than, values_in

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,:[{"\\', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='k,"\\', max_size=3), inner),
    max_leaves=20,
)


@given(JSON)
def test_no_text_holds_more_values_than_are_counted(value: Any) -> None:
    text = json.dumps(value).encode()
    assert more_values_than(values_in(value) - 1, text)
    assert not more_values_than(len(text), text)


def test_what_is_in_strings_does_not_count() -> None:
    table = json.dumps({"text/csv": "1,2,3:[{\n" * 100_000}).encode()
    assert not more_values_than(10, table)


@given(st.binary(max_size=60))
def test_any_bytes_can_be_counted(data: bytes) -> None:
    assert more_values_than(3, data) in (True, False)


@pytest.mark.parametrize(
    "text",
    [b'"\\"' * 300_000 + b",,,", b'"' + b'\\"' * 500_000, b"{}," * 300_000, b'"",' * 300_000, b"\\" * 1_000_000],
    ids=["unended strings", "one unended string", "objects", "strings", "backslashes"],
)
@pytest.mark.timeout(60)
def test_no_text_takes_longer_than_its_length_deserves(text: bytes) -> None:
    """What is quadratic takes minutes."""
    assert more_values_than(1_000, text) == (text[:3] in (b"{},", b'"",'))
