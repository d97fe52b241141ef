"""Where the service's output goes: where the launcher's goes, by a way that cannot be read from or written over.

Of a terminal the service gets a descriptor that no typing can be read from. Of a file, which is root's, it gets none: a
descriptor to write is one to truncate and overwrite too. What it says comes through a pipe and is written here.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import ExitStack
from typing import Final

_PIECE_BYTES: Final = 65_536
_LAST_SECONDS: Final = 2.0


def open_outputs(opened: ExitStack) -> tuple[int, int]:
    """Descriptors that are standard output and standard error of a service; `opened` closes them."""
    return _output(1, opened), _output(2, opened)


def _output(descriptor: int, opened: ExitStack) -> int:
    if os.isatty(descriptor):
        terminal = os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        opened.callback(os.close, terminal)
        return terminal
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    reader, writer = os.pipe()
    copying = threading.Thread(target=_copy, args=(reader, descriptor), name=f"output {descriptor}", daemon=True)
    copying.start()
    opened.callback(copying.join, _LAST_SECONDS)
    opened.callback(os.close, writer)  # before the thread is waited for, which then comes to its end
    return writer


def _copy(reader: int, destination: int) -> None:
    with open(reader, "rb", buffering=0) as source:
        while piece := source.read(_PIECE_BYTES):
            view = memoryview(piece)
            try:
                while view:
                    view = view[os.write(destination, view) :]
            except OSError:
                continue  # a full disk loses lines; it does not hold up the service
