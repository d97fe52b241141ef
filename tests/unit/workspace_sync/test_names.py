"""Paths become keys and come back, whatever bytes they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_sync.errors import IllegalName
from workspace_sync.names import KEY_BYTES, LONG, check_path, escape, key_of, path_of, unescape

names = st.binary(min_size=1, max_size=255).filter(
    lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b"..")
)
paths = st.lists(names, min_size=1, max_size=6).map(b"/".join)


@given(paths)
def test_a_key_is_reversible_or_hashed(path: bytes) -> None:
    key = key_of(path)
    assert len(key.encode()) <= KEY_BYTES
    assert all(0 < len(part.encode()) <= 255 for part in key.split("/"))
    assert path_of(key) == (None if key.startswith(LONG) else path)


@given(st.binary())
def test_escaping_is_reversible_for_any_bytes(raw: bytes) -> None:
    assert unescape(escape(raw)) == raw


@pytest.mark.parametrize("path", ["data.csv", "out/figure 1.png", ".hidden/é.txt", "日本/語.md", "a-b_c=(1),!@'"])
def test_plain_names_stay_readable(path: str) -> None:
    assert key_of(path.encode()) == path


@pytest.mark.parametrize(
    ("path", "key"),
    [(b"100%", "100%25"), (b"%long/x", "%25long/x"), (b"a\nb", "a%0Ab"), (b"\xff", "%FF"), (b" a", "%20a"),
     ("e\u0301".encode(), "e%CC%81")],
)  # fmt: skip
def test_everything_else_is_escaped(path: bytes, key: str) -> None:
    assert key_of(path) == key


@pytest.mark.parametrize("path", [b"", b"/a", b"a/", b"a//b", b".", b"a/../b", b"a\0", b"n" * 256, b"d/" * 2048 + b"f"])
def test_what_is_no_path_is_refused(path: bytes) -> None:
    with pytest.raises(IllegalName):
        check_path(path)


@pytest.mark.parametrize("key", ["%2E%2E/x", "%2Fetc", "a%00", "../x", "a//b"])
def test_a_key_that_decodes_to_no_path_is_refused(key: str) -> None:
    with pytest.raises(IllegalName):
        path_of(key)
