#!/usr/bin/env python3
"""Writes docs/agentcore-clients.json from what the last run of the conformance tests said of the clients.

The tests leave their results in the data directory; this script takes them over, and then fills the tables of the docs
(scripts/docs.py, whose `--check` compares the table with this file and needs no run). The tests hold every run against
the file, so that it cannot say what is not so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
RESULTS = REPOSITORY / "docs" / "agentcore-clients.json"
RUN = "agentcore-clients.json"
"""The results of the last run, in the data directory."""

ROWS = (
    "StartCodeInterpreterSession",
    "GetCodeInterpreterSession",
    "ListCodeInterpreterSessions",
    "StopCodeInterpreterSession",
    "executeCode: Python",
    "executeCode: clearContext",
    "executeCode: JavaScript",
    "executeCode: TypeScript",
    "executeCode: runtime",
    "executeCode: an error of the code",
    "executeCode: an image",
    "executeCommand",
    "startCommandExecution",
    "getTask",
    "stopTask",
    "writeFiles",
    "readFiles",
    "listFiles",
    "removeFiles",
    "install packages",
    "code longer than the read timeout",
    "an answer lost on the way",
    "typed errors",
    "CreateCodeInterpreter",
    "GetCodeInterpreter",
    "ListCodeInterpreters",
    "DeleteCodeInterpreter",
    "a session of a custom code interpreter",
    "TagResource",
    "UntagResource",
    "ListTagsForResource",
)
"""What the clients' scripts try, in the order of the table."""


def results() -> dict[str, Any]:
    """What the docs say: for each client its version, and the rows that work."""
    return dict(json.loads(RESULTS.read_text()))


def table_lines() -> list[tuple[str, ...]]:
    """A line for each row: what it is, and for each client whether it works or has nothing for it."""
    clients = results().values()
    tried = {row for client in clients for row in client["works"]}
    unknown = tried - set(ROWS)
    if unknown:
        raise LookupError(f"ROWS lacks what the clients' scripts try: {sorted(unknown)}")
    return [(row, *("yes" if row in client["works"] else "-" for client in clients)) for row in ROWS]


def header() -> str:
    """The clients with their versions."""
    return " | ".join(["operation", *(client["client"] for client in results().values())])


def main() -> int:
    data_dir = Path(os.environ.get("SANDCELL_DATA_DIR", REPOSITORY / ".sandcell"))
    RESULTS.write_text(json.dumps(json.loads((data_dir / RUN).read_text()), indent=2) + "\n")
    return subprocess.run([sys.executable, str(REPOSITORY / "scripts" / "docs.py")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
