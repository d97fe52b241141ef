"""Text from a sandbox made harmless for a terminal. Pure.

A sandbox may print anything, and a terminal obeys what it is shown: titles, clipboard, cursor, answers typed back.
Only line ends, tabs, carriage returns and colours (SGR sequences) pass.
"""

from __future__ import annotations

import re
from typing import Final

SEQUENCES = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # commands with text: titles, clipboard, device control
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # other control sequences
    r"|\x1b[ -/]*[0-~]?"  # other escapes
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # other controls
    r"|[\u202a-\u202e\u2066-\u2069]"  # reordering of what is read
)

ERROR = re.compile(r"[A-Za-z_][\w.]*(: |$)")
"""The line of an exception's name and value."""
RED, GREEN, DIM, OFF = "\x1b[1;31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


def clean_text(text: str) -> str:
    """The text with its colours and without every other control."""
    return replace_surrogates(SEQUENCES.sub(lambda match: match["colour"] or "", text))


def clean_line(text: str) -> str:
    """As `clean_text`, on one line and without colours: for names in tables and messages."""
    return re.sub(r"\s", " ", replace_surrogates(SEQUENCES.sub("", text)))


def replace_surrogates(text: str) -> str:
    """Lone surrogates, which no terminal or pipe takes, as question marks."""
    return text.encode("utf-8", "replace").decode()


def colour_traceback(traceback: str) -> str:
    """A traceback of IPython's as a terminal shows it best: the failing lines and the exception stand out."""
    lines = clean_lines(traceback)
    found = [_colour_line(line) for line in lines]
    last = next((index for index in reversed(range(len(lines))) if ERROR.match(lines[index])), None)
    if last is not None:
        found[last] = f"{RED}{lines[last]}{OFF}"
    return "\n".join(found)


def clean_lines(text: str) -> list[str]:
    """The lines of a text without anything that a terminal obeys."""
    return replace_surrogates(SEQUENCES.sub("", text)).split("\n")


def _colour_line(line: str) -> str:
    if line.startswith("-->") or re.match(r"-{2,}> ", line):
        return f"{GREEN}{line}{OFF}"
    return f"{DIM}{line}{OFF}" if re.match(r"-{10,}$|(File|Cell In) ?\S", line) else line


STRING: Final = re.compile(rb"\x1b[\]PX^_]|\xc2[\x90\x98\x9d\x9e\x9f]")
"""What begins a command with text: a title, the clipboard, a link, device control."""
STRING_END: Final = re.compile(rb"\x07|\x1b\\|\xc2\x9c|[\x18\x1a]|(?=\x1b[^\\])")
CONTROL: Final = re.compile(rb"(?:\x1b\[|\xc2\x9b)([0-?]*)[ -/]*([@-~])")
NEXT: Final = re.compile(rb"[\x1b\xc2]")
UNFINISHED: Final = re.compile(rb"(?:\x1b|\xc2|(?:\x1b\[|\xc2\x9b)[0-?]{0,256}[ -/]{0,8})\Z")
MODE: Final = re.compile(rb"\?([0-9;]+)")
CURSOR: Final = b"25"
"""A mode that is set to begin with."""


class ScreenFilter:
    """Output of a full-screen program made harmless for a person's terminal, piece by piece.

    It may move the cursor, colour and clear. Commands with text go, with those that have the terminal answer with its
    title or change its window. What the program has changed of the terminal's modes is changed back at the end.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._in_string = False
        self._modes: set[bytes] = set()

    def feed(self, data: bytes) -> bytes:
        """The part of it that may be shown."""
        data, shown, position = self._rest + data, bytearray(), 0
        self._rest = b""
        while position < len(data):
            if self._in_string:
                end = STRING_END.search(data, position)
                if end is None:
                    self._rest = data[-1:] if data[-1:] in (b"\x1b", b"\xc2") else b""
                    break
                self._in_string, position = False, end.end()
            elif (found := NEXT.search(data, position)) is None:
                shown += data[position:]
                break
            else:
                shown += data[position : found.start()]
                position = self._take(data, found.start(), shown)
        return bytes(shown)

    def _take(self, data: bytes, position: int, shown: bytearray) -> int:
        """One sequence, or what may become one; where it ends."""
        if UNFINISHED.match(data, position):
            self._rest = data[position:]
            return len(data)
        if STRING.match(data, position):
            self._in_string = True
            return position + 2
        control = CONTROL.match(data, position)
        if control is None:
            shown += data[position : position + 1]
            return position + 1
        if control[2] != b"t":
            self._note(control[1], control[2])
            shown += control[0]
        return control.end()

    def _note(self, parameters: bytes, final: bytes) -> None:
        mode = MODE.fullmatch(parameters)
        if mode is not None and final in (b"h", b"l"):
            for each in mode[1].split(b";"):
                if (final == b"h") != (each == CURSOR):
                    self._modes.add(each)
                else:
                    self._modes.discard(each)

    def close(self) -> bytes:
        """What undoes the modes that are left, and colours."""
        undone = [b"\x1b[?%s%s" % (each, b"h" if each == CURSOR else b"l") for each in sorted(self._modes)]
        return b"".join([*undone, b"\x1b[0m"])
