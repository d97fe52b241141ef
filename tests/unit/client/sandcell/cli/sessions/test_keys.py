"""The way out of a shell: `~.` at the start of a line, and nothing else that is typed."""

from __future__ import annotations

import pytest

from sandcell.cli.sessions.terminal import Keys


@pytest.mark.parametrize(
    ("typed", "sent", "left"),
    [
        (b"ls ~/x\r", b"ls ~/x\r", False),
        (b"~.", b"", True),
        (b"ls\r~.more", b"ls\r", True),
        (b"~~.", b"~.", False),
        (b"~x~.", b"~x~.", False),
        (b"a~.", b"a~.", False),
        (b"\x03~", b"\x03~", False),
    ],
)
def test_the_way_out(typed: bytes, sent: bytes, left: bool) -> None:
    for size in (1, len(typed)):
        keys = Keys()
        assert b"".join(keys.feed(typed[at : at + size]) for at in range(0, len(typed), size)) == sent
        assert keys.left is left
