"""Where code runs: an image on disk, its resources and its network mode. Plain values, no behaviour."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

MEGABYTES_PER_VCPU = 1769
"""Memory that comes with one virtual CPU, in MB (the ratio hosted services use)."""


class NetworkMode(enum.StrEnum):
    """How far a sandbox can reach."""

    SANDBOX = "SANDBOX"
    """Loopback only: no route, no DNS."""


@dataclass(frozen=True)
class Resources:
    """What one sandbox may use."""

    memory_mb: int = 2048
    storage_mb: int = 512
    pids: int = 512

    @property
    def vcpus(self) -> float:
        """Virtual CPUs, derived from memory."""
        return self.memory_mb / MEGABYTES_PER_VCPU

    @property
    def memory_bytes(self) -> int:
        return self.memory_mb * 1024 * 1024

    @property
    def storage_bytes(self) -> int:
        return self.storage_mb * 1024 * 1024


@dataclass(frozen=True)
class Environment:
    """A root file system and the bounds of the sandboxes made from it.

    `root` is the absolute path of an unpacked, read-only root file system; `digest` names it (`sha256:<hex>`); `python`
    is the interpreter inside it that has ipykernel.
    """

    name: str
    root: str
    digest: str
    description: str = ""
    python: str = "/usr/bin/python3"
    resources: Resources = field(default_factory=Resources)
    network: NetworkMode = NetworkMode.SANDBOX
