"""The program: describe one file by the arguments given, and print what is found, or why nothing is, as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

DAMAGED = "the file holds what its reader cannot take: write it again with a current version of pandas or PyArrow"


def main() -> None:
    """Always prints an answer, unless it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    for name in ("format", "encoding", "name"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--size", type=int)
    parser.add_argument("--seconds", type=float, default=60.0)
    sys.stdout.write(json.dumps(answer(parser.parse_args()), allow_nan=False))
    sys.stdout.flush()
    # Without the interpreter's own end: PyArrow's thread that reads ahead aborts the process there, once in a while.
    os._exit(0)


def answer(asked: argparse.Namespace) -> dict[str, Any]:
    """The description, or the refusal."""
    until = time.monotonic() + asked.seconds
    try:
        import pyarrow  # noqa: F401, PLC0415 - what it is missing for is said below
    except ImportError:
        return {"refused": {"reason": "no_pyarrow", "message": "the environment has no PyArrow"}}
    from . import profile  # noqa: PLC0415
    from .binary_files import too_large  # noqa: PLC0415
    from .job import Job, Refused  # noqa: PLC0415

    part = Path(asked.path).stat().st_size
    size = part if asked.size is None else asked.size
    try:
        job = Job(asked.path, size, part, asked.format, asked.encoding, until)
        return {"profile": profile.fit_profile(profile.describe_file(job, asked.name))}
    except Refused as refused:
        return {"refused": {"reason": refused.reason, "message": refused.message}}
    except MemoryError:
        return {"refused": {"reason": "too_large", "message": too_large().message}}
    except Exception:  # whatever a damaged file leads to: names that are no text, a type that is none
        return {"refused": {"reason": "damaged", "message": DAMAGED}}
