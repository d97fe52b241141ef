"""Where a kernel listens: its sockets in the sandbox's transport directory, and the key that it signs with."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from kernels.errors import SandboxFailed

CHANNELS: Final = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4}
"""Channels the hub opens, with the number that ends their address (5 is the heartbeat, which nobody needs here)."""

_LONGEST_PATH: Final = 107


@dataclass(frozen=True)
class KernelConnection:
    """One generation of a kernel; `directory` is the host's path of the directory its sockets are in."""

    directory: str
    generation: int
    key: bytes = field(repr=False)

    def path(self, channel: str) -> str:
        """The Unix socket of a channel; raises `SandboxFailed` when its path is longer than the system takes."""
        path = f"{self.directory}/g{self.generation}-{CHANNELS[channel]}"
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise SandboxFailed(
                f"a kernel's socket has a path longer than {_LONGEST_PATH} bytes, use a shorter directory: {path}"
            )
        return path

    def address(self, channel: str) -> str:
        """The same as a ZMQ endpoint."""
        return f"ipc://{self.path(channel)}"

    def is_bound(self, channel: str) -> bool:
        """Whether a socket is there. A link never counts, wherever it leads."""
        try:
            return stat.S_ISSOCK(os.lstat(self.path(channel)).st_mode)
        except OSError:
            return False
