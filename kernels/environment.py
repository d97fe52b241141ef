"""Where code runs: an image on disk, its resources, its network policy and its execution role. Plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import msgspec

MEGABYTES_PER_VCPU = 1769
"""Memory that comes with one virtual CPU, in MB (the ratio hosted services use)."""


class NetworkMode(enum.StrEnum):
    """How far a sandbox can reach. Whatever the mode, its network namespace has loopback only."""

    SANDBOX = "SANDBOX"
    """Nothing: no route, no DNS."""
    ALLOWLIST = "ALLOWLIST"
    """The declared endpoints, through the egress proxy."""
    PUBLIC = "PUBLIC"
    """Any public address, through the egress proxy."""


@dataclass(frozen=True)
class Endpoint:
    """Something that may be reached: a host name, `*.` and a domain (its subdomains), or an address; and a port.

    `methods` and `path_prefix` narrow plain HTTP; an endpoint that has them is refused for tunnels, which hide both.
    """

    host: str
    port: int = 443
    methods: tuple[str, ...] = ()
    path_prefix: str = ""


class NetworkPolicy(msgspec.Struct, frozen=True):
    """A mode, and the endpoints that `ALLOWLIST` allows."""

    mode: NetworkMode = NetworkMode.SANDBOX
    allow: tuple[Endpoint, ...] = ()


class ExecutionRole(msgspec.Struct, frozen=True):
    """One S3 prefix that code may reach, without ever holding a key: read, or read and write.

    `endpoint_url` is empty for AWS itself; `profile` names the host's credentials, empty for the default ones.
    """

    bucket: str
    prefix: str
    write: bool = False
    endpoint_url: str = ""
    region: str = "us-east-1"
    profile: str = ""


@dataclass(frozen=True)
class PackageIndex:
    """A package index that code may install from, in every network mode; `url` ends with a slash.

    `authorization` is the header's value that the service sends to the index, empty for none. The sandbox has neither.
    """

    url: str
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True)
class Resources:
    """What one sandbox may use. `declared_vcpus` is None where virtual CPUs come with the memory."""

    memory_mb: int = 2048
    storage_mb: int = 512
    pids: int = 512
    declared_vcpus: float | None = None

    @property
    def vcpus(self) -> float:
        """Virtual CPUs: those declared, else by the memory."""
        return self.memory_mb / MEGABYTES_PER_VCPU if self.declared_vcpus is None else self.declared_vcpus

    @property
    def memory_bytes(self) -> int:
        return self.memory_mb * 1024 * 1024

    @property
    def storage_bytes(self) -> int:
        return self.storage_mb * 1024 * 1024


class MemoryLevels(msgspec.Struct, frozen=True):
    """From which shares of its memory a session warns, and interrupts what it runs; 0: it does not."""

    warn_percent: int = 85
    guard_percent: int = 95

    @property
    def percents(self) -> tuple[int, ...]:
        """Those that count."""
        return tuple(each for each in (self.warn_percent, self.guard_percent) if each)


class PoolSize(msgspec.Struct, frozen=True):
    """How many sandboxes are kept ready for sessions to come: by what is asked for, between `least` and `most`."""

    least: int = 0
    most: int = 0


@dataclass(frozen=True)
class Environment:
    """A root file system and the bounds of the sandboxes made from it.

    `root` is the absolute path of an unpacked, read-only root file system; `digest` names it (`sha256:<hex>`); `python`
    is the interpreter inside it that has ipykernel. With `keep_packages` what code installs lies in the workspace.
    `image` names the built image; `runtime` the OCI runtime, empty for the service's own; `variables` are what the
    image sets in the environment of its programs. `figures` says how plots are shown to programs that take text: as
    `files` or as image `blocks`. `pool` says how many sandboxes are started before a session asks for one.
    `memory_levels` say what happens before memory runs out. With `keep_variables` `on_idle` or `each` variables
    outlive a kernel that dies, as far as they need no more than `keep_variables_mb`. A session gives up its sandbox
    after `hibernate_seconds` without use, 0 for never. Both are None where the service's setting holds. It has a
    checkpoint after each `checkpoint_every` executions; 0: only where one is asked for.
    """

    name: str
    root: str
    digest: str
    description: str = ""
    python: str = "/usr/bin/python3"
    resources: Resources = field(default_factory=Resources)
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    role: ExecutionRole | None = None
    index: PackageIndex | None = None
    keep_packages: bool = False
    image: str = ""
    runtime: str = ""
    figures: str = "files"
    variables: tuple[tuple[str, str], ...] = ()
    pool: PoolSize = PoolSize()  # noqa: RUF009 - a frozen value
    memory_levels: MemoryLevels = MemoryLevels()  # noqa: RUF009 - a frozen value
    keep_variables: str | None = None
    keep_variables_mb: int = 100
    hibernate_seconds: int | None = None
    checkpoint_every: int = 0
