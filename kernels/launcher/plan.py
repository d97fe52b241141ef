"""What the launcher is started with: said once, by root, before anything listens. Plain values, passed in memory."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from kernels.launcher.checks import Bounds
from kernels.oci.places import OciSettings


class OciPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`OciSettings`, as text."""

    runtime: str
    more_runtimes: list[str]
    data_directory: str
    run_directory: str
    cgroup_parent: str
    uid_base: int
    uid_ranges: int
    disk_reserve_bytes: int

    def settings(self, service_uid: int) -> OciSettings:
        """The settings of a runtime that shows workspaces to this user."""
        return OciSettings(
            runtime=self.runtime,
            data_directory=Path(self.data_directory),
            run_directory=Path(self.run_directory),
            cgroup_parent=self.cgroup_parent,
            uid_base=self.uid_base,
            uid_ranges=self.uid_ranges,
            disk_reserve_bytes=self.disk_reserve_bytes,
            service_uid=service_uid,
            more_runtimes=tuple(self.more_runtimes),
        )


class ServicePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the service is started: its user, its command, the descriptors it inherits, what it must be able to reach.

    The number of the launcher's socket is appended to the command. An exit with `refusal` is a start that was refused:
    it is not tried again.
    """

    uid: int
    command: list[str]
    directory: str
    descriptors: list[int]
    reach: list[str]
    refusal: int


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of it."""

    oci: OciPlan
    environments: str
    bounds: Bounds
    service: ServicePlan


class Confinement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One start of the service, as `confine` carries it out.

    `views` stay mounted, every other sandbox's mount goes; `group` is the file that a process joins its group by.
    """

    uid: int
    command: list[str]
    directory: str
    reach: list[str]
    views: str
    group: str
    parent: int
    refusal: int


def in_memory(name: str, content: bytes) -> int:
    """A descriptor of a file in memory with this content: it is on no disk and on no command line."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_back(descriptor: int) -> bytes:
    """All of such a file; it can be read any number of times."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
