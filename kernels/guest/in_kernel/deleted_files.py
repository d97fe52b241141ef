"""Files that this process has open or mapped and that have no name any more: gVisor cannot save a sandbox with one.

It is looked for inside the kernel since gVisor shows what a process has open to that process alone. What lies in
memory is saved as it is: /dev/shm, memory that programs share without a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

MOST_FILES = 100_000
"""That are looked at, mappings too; a kernel with more is said to have too many."""
_DELETED = " (deleted)"
_IN_MEMORY = ("/dev/", "/memfd:", "/SYSV")


def find() -> str:
    """The path that one of them had, or nothing when there is none. Called in the control thread, whatever runs."""
    for number, place in enumerate(_list_places()):
        if number > MOST_FILES:
            return "more files than are looked at"
        if place.startswith("/") and place.endswith(_DELETED) and not place.startswith(_IN_MEMORY):
            return place.removesuffix(_DELETED)[:500]
    return ""


def _list_places() -> Iterator[str]:
    with suppress(OSError):
        yield os.readlink("/proc/self/cwd")
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile, the listing's own among them
            yield os.readlink(f"/proc/self/fd/{name}")
    with open("/proc/self/maps", errors="replace") as mappings:
        for line in mappings:
            if line.endswith(f"{_DELETED}\n"):
                yield " ".join(line.split()[5:])
