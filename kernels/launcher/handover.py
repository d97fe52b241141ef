"""What a process is handed as it starts, in memory: sealed files, and what `confine` is to carry out.

`confine` runs at each start of the service and for each view of a notebook, and takes as long as its imports: here are
only Python's own modules, and none of those that hold the launcher's larger values (`plan`).
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Final, NamedTuple

_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Confinement(NamedTuple):
    """One start of the service, as `confine` carries it out, or of a process that it needs.

    `views` stay mounted, every other sandbox's mount goes; `group` is the file that a process joins its group by.
    `apart` leaves it no network, and of the file system the system's programs and `reach`. What starts `alone` had no
    privileges before and shares its user's view of the file system.
    """

    uid: int
    command: list[str]
    directory: str
    reach: list[str]
    views: str
    group: str
    parent: int
    refusal: int
    apart: bool = False
    alone: bool = False

    def encode(self) -> bytes:
        """As it travels; `decode` reads it."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, content: bytes) -> Confinement:
        """It again; raises TypeError for fields that it does not have."""
        return cls(**json.loads(content))


def in_memory(name: str, content: bytes) -> int:
    """A descriptor of a file in memory with this content for good: it is on no disk and on no command line."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_back(descriptor: int) -> bytes:
    """All of such a file; it can be read any number of times."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
