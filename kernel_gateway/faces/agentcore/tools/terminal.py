"""Line ends as AgentCore has them: code prints no carriage return, a command ends its lines in CR LF. Pure."""

from __future__ import annotations

import re

_BARE = re.compile(r"(?<!\r)\n")


def render_code_output(text: str) -> str:
    """Output of code as a screen would show it in the end, without the last line's end: a progress bar's last state."""
    if "\r" in text:
        text = "\n".join(_overwrite(line) for line in text.replace("\r\n", "\n").split("\n"))
    return text.removesuffix("\n")


def render_command_output(text: str) -> str:
    """Output of a command as a terminal passes it on."""
    return _BARE.sub("\r\n", text)


def _overwrite(line: str) -> str:
    """What is left of a line when each carriage return starts over and what follows covers what was there."""
    *covered, last = line.split("\r")
    for piece in reversed(covered):
        if len(piece) > len(last):
            last += piece[len(last) :]
    return last
