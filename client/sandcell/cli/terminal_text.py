"""Text from a sandbox made harmless for a terminal. Pure.

A sandbox may print anything, and a terminal obeys what it is shown: titles, clipboard, cursor, answers typed back.
Only line ends, tabs, carriage returns and colours (SGR sequences) pass.
"""

from __future__ import annotations

import re

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
