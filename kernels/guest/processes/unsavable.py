"""What of a sandbox gVisor cannot save, found before it is tried: an attempt that fails ends the sandbox.

That is listening TCP sockets, and Unix sockets that lie in a directory of the host's. The files of other processes
gVisor shows to nobody, root included: `deleted_files.py` looks at the kernel's own from inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

TCP_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
UNIX_TABLE = "/proc/net/unix"
_LISTENING = "0A"


def find_unsavable(own_ports: set[int], own_sockets: set[str], saved_directory: str) -> str | None:
    """What stands in the way, for a sentence about it; None if nothing is known to.

    The guest's own sockets it closes itself, and those in `saved_directory` are saved with the sandbox.
    """
    for port in _list_ports():
        if port not in own_ports:
            return f"a program listens at TCP port {port}"
    for path in _list_sockets():
        if path not in own_sockets and not path.startswith(("@", f"{saved_directory}/")):
            return f"a program has a Unix socket at {path[:200]}"
    return None


def _list_ports() -> Iterator[int]:
    for table in TCP_TABLES:
        for words in _read_table(table):
            if len(words) > 3 and words[3] == _LISTENING:
                yield int(words[1].rpartition(":")[2], 16)


def _list_sockets() -> Iterator[str]:
    for words in _read_table(UNIX_TABLE):
        if len(words) > 7:
            yield " ".join(words[7:])


def _read_table(path: str) -> Iterator[list[str]]:
    with suppress(OSError), open(path, errors="replace") as lines:  # without IPv6 there is no table for it
        next(lines, None)
        for line in lines:
            yield line.split()
