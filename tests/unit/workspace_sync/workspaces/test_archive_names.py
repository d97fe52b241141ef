"""Names in archives: plain ones as they are, hostile ones harmless, no two alike."""

from __future__ import annotations

import ntpath
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_sync.errors import IllegalName
from workspace_sync.names import check_path, unescape
from workspace_sync.workspaces.archive import archive_name

PARTS = st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"0"))
TRICKY = st.text(alphabet='%2e5cCON.:\\ aA"', min_size=1, max_size=8).map(
    lambda text: text.encode().replace(b"/", b"_")
)
PATHS = st.lists(PARTS | TRICKY, min_size=1, max_size=4).map(b"/".join)


def is_path(path: bytes) -> bool:
    try:
        check_path(path)
    except IllegalName:
        return False
    return True


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (b"out/plot 1.png", "out/plot 1.png"),
        ("größe/日本.csv".encode(), "größe/日本.csv"),
        (b"100%", "100%"),
        (b"a+b&c#[1]~$", "a+b&c#[1]~$"),
        (b"100%25", "100%2525"),
        (b"..\\..\\evil", "..%5C..%5Cevil"),
        (b"C:\\Windows\\x", "C%3A%5CWindows%5Cx"),
        (b"\\\\host\\share", "%5C%5Chost%5Cshare"),
        (b"...", "..%2E"),
        (b"name. ", "name.%20"),
        (b"a\nb\r\x1b[31m", "a%0Ab%0D%1B[31m"),
        (b"\xff\xfe", "%FF%FE"),
        ("a\u202egnp.exe".encode(), "a%E2%80%AEgnp.exe"),
        (b"NUL", "NU%4C"),
        (b"dir/com1.txt", "dir/com%31.txt"),
        (b"console", "console"),
        (b'a<b>"|?*', "a%3Cb%3E%22%7C%3F%2A"),
    ],
    ids=ascii,
)
def test_names(path: bytes, name: str) -> None:
    assert archive_name(path) == name
    assert unescape(name) == path


@given(PATHS.filter(is_path))
def test_every_name_stays_below_and_leads_back(path: bytes) -> None:
    name = archive_name(path)
    assert unescape(name) == path
    assert name.count("/") == path.count(b"/")
    for module in (posixpath, ntpath):
        assert not module.isabs(name)
        assert not module.splitdrive(name)[0]
        assert ".." not in module.normpath(name).replace("\\", "/").split("/")
    assert "\\" not in name
    assert name.isprintable()
