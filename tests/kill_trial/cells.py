"""Code whose output says by itself whether it is whole: numbered lines, and their hash at the end (pure).

Each cell also notes its number in a file of the workspace and in a variable of the kernel: one that ran twice is found
in both.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

CODE = """\
# cell {number}
noted.append({number})
with open("cells.txt", "a") as file:
    file.write("{number}\\n")
import hashlib, time
digest = hashlib.sha256()
for line in range({lines}):
    text = f"{number}:{{line}}:" + "x" * {width}
    digest.update(text.encode())
    print(text)
    time.sleep({pause_seconds})
print("end", digest.hexdigest())
"""
LATE = """\
import sys, threading
def show():
    for line in range({late}):
        time.sleep(0.05)
        sys.stdout.write(f"<{number}:late:{{line}}>\\n")
threading.Thread(target=show).start()
"""
"""A thread that prints after its cell has ended; while others run it is part of what they show."""
LATE_LINE = re.compile(r"<(\d+):late:(\d+)>\n")
BEGIN = "noted = []; token = {token!r}"
REPORT = "print(token, noted == [int(each) for each in open('cells.txt')], *noted)"
FLOOD_BYTES = 900_000
"""Above this an answer has the head and the tail alone."""


@dataclass(frozen=True)
class Cell:
    """One kind of cell with its number."""

    number: int
    lines: int
    width: int = 10
    pause_seconds: float = 0
    late: int = 0
    """Lines that a thread prints after the end."""

    @property
    def code(self) -> str:
        return CODE.format(**vars(self)) + (LATE.format(**vars(self)) if self.late else "")

    @property
    def stdout(self) -> str:
        """All of what it prints."""
        digest, printed = hashlib.sha256(), []
        for line in range(self.lines):
            printed.append(f"{self.number}:{line}:" + "x" * self.width)
            digest.update(printed[-1].encode())
        return "".join(f"{each}\n" for each in (*printed, f"end {digest.hexdigest()}"))

    def is_whole(self, stdout: str) -> bool:
        """Whether this is what it printed, besides threads; of a flood, which no answer has in full, its two ends."""
        expected, stdout = self.stdout, LATE_LINE.sub("", stdout)
        if len(expected) <= FLOOD_BYTES:
            return stdout == expected
        return stdout.startswith(expected[:1000]) and stdout.endswith(expected[-1000:])

    def is_begun(self, stdout: str) -> bool:
        """Whether this is what it printed up to some moment."""
        return self.stdout.startswith(stdout)


def draw_cell(number: int, chance: random.Random) -> Cell:
    """Short ones mostly; long ones, in which a kill finds them, large ones, some that print on, rarely a flood."""
    kind = chance.choices(("short", "long", "large", "flood", "late"), (5, 4, 2, 0.3, 3))[0]
    if kind == "short":
        return Cell(number, chance.randint(1, 5))
    if kind == "late":
        return Cell(number, chance.randint(1, 5), late=chance.randint(5, 60))
    if kind == "long":
        return Cell(number, chance.randint(10, 40), pause_seconds=chance.uniform(0.02, 0.1))
    return Cell(number, 900, 200) if kind == "large" else Cell(number, 12_000, 200)
