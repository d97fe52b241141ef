"""What a build has downloaded of Debian and PyPI, kept in a folder so that a build after it fetches only what is new.

Below `<environments directory>/<name>/.cache`: `debs`, where apt keeps packages and parts of them, and `wheels`. A
wheel counts as there when its checksum is one that the lock names; others are removed when a build begins to fetch, and
of each Debian package but the newest file. So the folder holds one image's packages at most, however many builds were
cut off; what a finished build has not used is removed as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

_PINNED: Final = re.compile(r"^\S+==\S+(?: ; [^\\\n]+)?(?: \\\n +--hash=sha256:[0-9a-f]{64})+$", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(msgspec.Struct, frozen=True):
    """A package of a lock: its lines as pip reads them, and the checksums of its files."""

    text: str
    hashes: frozenset[str]


def read_pins(lock: str) -> list[Pin]:
    """Every package that a lock names."""
    return [Pin(found[0], frozenset(_HASH.findall(found[0]))) for found in _PINNED.finditer(lock)]


class Downloads:
    """The folder of one environment; its user holds the lock of that environment's builds."""

    def __init__(self, folder: Path) -> None:
        self.debs = folder / "debs"
        self.wheels = folder / "wheels"

    def prepare(self) -> None:
        """Make the folders, `partial` for what apt downloads; of each Debian package only the newest file stays."""
        for directory in (self.debs / "partial", self.wheels):
            directory.mkdir(parents=True, exist_ok=True)
        newest = dict[tuple[str, str], Path]()
        for path in sorted(self.debs.glob("*.deb"), key=lambda path: path.stat().st_mtime):
            package, _, rest = path.name.partition("_")
            if older := newest.get(named := (package, rest.rpartition("_")[2])):
                older.unlink()
            newest[named] = path

    def find_missing(self, pins: list[Pin]) -> list[Pin]:
        """The packages of which no file with a checksum of the lock is there; files with none of these are removed."""
        there = self._keep_wheels(pins)
        return [pin for pin in pins if pin.hashes.isdisjoint(there)]

    def keep_only(self, pins: list[Pin], root: Path) -> int:
        """Remove what neither the lock nor the packages of `root` name; returns the bytes of what stays."""
        self._keep_wheels(pins)
        installed = set(_name_debs((root / "var/lib/dpkg/status").read_text()))
        for path in self.debs.glob("*.deb"):
            if path.name not in installed:
                path.unlink()
        for path in (self.debs / "partial").iterdir():
            path.unlink()
        return sum(path.stat().st_size for path in (*self.wheels.iterdir(), *self.debs.glob("*.deb")))

    def _keep_wheels(self, pins: list[Pin]) -> set[str]:
        """The checksums of those that the lock names; the others are removed."""
        wanted, kept = frozenset[str]().union(*(pin.hashes for pin in pins)), set[str]()
        for path in list(self.wheels.iterdir()):
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            if checksum in wanted:
                kept.add(checksum)
            else:
                path.unlink()
        return kept


def _name_debs(status: str) -> Iterator[str]:
    """The files of the packages that dpkg's status lists, as apt names them."""
    for record in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in record.splitlines() if re.match(r"[A-Z]\S*: ", line))
        if "Version" in fields:
            yield f"{fields['Package']}_{fields['Version'].replace(':', '%3a')}_{fields['Architecture']}.deb"
