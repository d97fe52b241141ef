"""`python -m kernel_gateway.views MOST_BYTES MEMORY_BYTES SECONDS FORMAT`: a notebook comes in, a view goes out.

An answer begins with a line: one of the words below, and how many bytes follow. `done` is followed by the view,
`refused` by the sentence that says why the notebook cannot be read, `large` by nothing: it took more memory than this
process may, by bounds that it sets for itself; `failed` by the name of the error. One that is cut off was killed: it
took longer than it may.

The parts are there, and have been tried, before the notebook is read: from then on no system call is left but those of
a program that computes and reads files.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable

from kernels import own_calls
from kernels.errors import InvalidNotebook

DONE, REFUSED, TOO_LARGE, FAILED = b"done", b"refused", b"large", b"failed"
_EMPTY = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'


def main() -> None:
    """Read, make, write."""
    most_bytes, memory_bytes, seconds = map(int, sys.argv[1:4])
    gc.disable()  # what is imported stays: looking for garbage in it takes a seventh of the time of a page
    make = _find_maker(sys.argv[4])
    gc.freeze()
    gc.enable()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own_calls.restrict()
    try:
        word, content = DONE, make(sys.stdin.buffer.read(), most_bytes)
    except InvalidNotebook as error:
        word, content = REFUSED, str(error).encode("utf-8", "replace")
    except MemoryError:
        word, content = TOO_LARGE, b""
    except (
        Exception
    ) as error:  # a defect, here or in a parser: the message has only its name, never the notebook's text
        word, content = FAILED, type(error).__name__.encode("ascii", "replace")
    sys.stdout.buffer.write(b"%s %d\n" % (word, len(content)))
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _find_maker(form: str) -> Callable[[bytes, int], bytes]:
    """What makes this form, with all that it imports and reads at its first use."""
    if form == "py":
        from kernel_gateway.views.script import render_script as make  # noqa: PLC0415 - the page's parts take a second
    else:
        from kernel_gateway.views.page import render_page as make  # noqa: PLC0415
    make(_EMPTY, len(_EMPTY))
    return make


if __name__ == "__main__":
    main()
