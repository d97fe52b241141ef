"""The ways out of a shell: `~.` and `~d` at the start of a line, and nothing else that is typed."""

from __future__ import annotations

import pytest

from sandcell.cli.sessions.terminal import DETACH, END, Keys


@pytest.mark.parametrize(
    ("typed", "sent", "left"),
    [
        (b"ls ~/x\r", b"ls ~/x\r", None),
        (b"~.", b"", END),
        (b"ls\r~.more", b"ls\r", END),
        (b"ls\r~d", b"ls\r", DETACH),
        (b"~~.", b"~.", None),
        (b"~x~.", b"~x~.", None),
        (b"a~.", b"a~.", None),
        (b"cd ~d\r", b"cd ~d\r", None),
        (b"\x03~", b"\x03~", None),
    ],
)
def test_the_ways_out(typed: bytes, sent: bytes, left: bytes | None) -> None:
    for size in (1, len(typed)):
        keys = Keys()
        assert b"".join(keys.feed(typed[at : at + size]) for at in range(0, len(typed), size)) == sent
        assert keys.left == left
