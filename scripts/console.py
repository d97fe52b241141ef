#!/usr/bin/env python3
"""Whether the console's built files are those of its source: `make console` writes both down, a test compares.

This knows only that neither was changed since; that the one is built from the other the test shows that builds it again
(`make test-long`), which takes Node. `console.py pictures FOLDER` puts the pictures that `test_axe_finds_no_fault` took
into the docs, in 64 colours, which is a third of the bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import png

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "console"
BUILT = REPOSITORY / "kernel_gateway" / "faces" / "console" / "static"
RECORD = "record.json"
PICTURES = REPOSITORY / "docs" / "images"
COLOURS = 64


def list_files(folder: Path) -> list[Path]:
    """The files below a folder that count, sorted."""
    found = (path for path in folder.glob("**/*") if path.is_file() and path.name != RECORD)
    return sorted(path for path in found if "node_modules" not in path.relative_to(folder).parts)


def hash_files(folder: Path) -> str:
    """One hash for the names and contents of all of them."""
    whole = hashlib.sha256()
    for path in list_files(folder):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def describe() -> dict[str, str]:
    """What is there now."""
    return {"source": hash_files(SOURCE), "built": hash_files(BUILT)}


def read_record() -> dict[str, str]:
    """What was there when it was built."""
    record: dict[str, str] = json.loads((BUILT / RECORD).read_text())
    return record


def write_picture(taken: Path, kept: Path) -> None:
    """A picture with its most frequent colours, of which bright ones count more: a state's dot is small. Others become
    the nearest of those."""
    width, height, rows, _more = png.Reader(bytes=taken.read_bytes()).asRGB8()
    points = [list(zip(row[::3], row[1::3], row[2::3], strict=True)) for row in map(bytes, rows)]
    found = Counter(point for row in points for point in row)
    palette = sorted(found, key=lambda colour: -found[colour] * (1 + max(colour) - min(colour)))[:COLOURS]
    place = {colour: at for at, colour in enumerate(palette)}
    for colour in found.keys() - place.keys():
        place[colour] = min(
            range(len(palette)),
            key=lambda at: sum((one - other) ** 2 for one, other in zip(palette[at], colour, strict=True)),
        )
    with kept.open("wb") as file:
        writer = png.Writer(width, height, palette=palette, bitdepth=8, compression=9)
        writer.write(file, [[place[point] for point in row] for row in points])


def keep_pictures(folder: Path) -> None:
    """Those of each page, light and dark, in place of the docs' earlier ones."""
    taken = sorted([*folder.glob("*-light.png"), *folder.glob("*-dark.png")])
    if not taken:
        sys.exit(f"no pictures in {folder}")
    for each in PICTURES.glob("console-*.png"):
        each.unlink()
    for each in taken:
        write_picture(each, PICTURES / f"console-{each.name}")


def main() -> int:
    if sys.argv[1:] == ["record"]:
        (BUILT / RECORD).write_text(json.dumps(describe(), indent=2) + "\n")
        return 0
    if sys.argv[1:2] == ["pictures"] and len(sys.argv) == 3:
        keep_pictures(Path(sys.argv[2]))
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
