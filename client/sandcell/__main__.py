"""`sandcell`, also as `python -m sandcell`."""

from __future__ import annotations

import gc
import os
import sys

from sandcell.cli.main import sandcell


def main() -> None:
    """Entry point of the `sandcell` command."""
    # httpx would import its own command, and with it rich and pygments: a fifth of the time in which ours starts.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        sandcell(prog_name="sandcell")
    finally:
        _flush()
        gc.freeze()  # the interpreter's end would look for garbage in all that was imported: a fifth of a short command


def _flush() -> None:
    """Write what is still buffered. The reader may have left, as `head` does: that is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still in the buffer would be written once more at the interpreter's end, and complained about.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
