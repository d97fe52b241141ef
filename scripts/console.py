#!/usr/bin/env python3
"""Whether the console's built files are those of its source: `make console` writes both down, a test compares.

This knows only that neither was changed since; that the one is built from the other the test shows that builds it again
(`make test-long`), which takes Node.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "console"
BUILT = REPOSITORY / "kernel_gateway" / "faces" / "console" / "static"
RECORD = "record.json"


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


def main() -> int:
    if sys.argv[1:] == ["record"]:
        (BUILT / RECORD).write_text(json.dumps(describe(), indent=2) + "\n")
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
