"""From settings to sandboxes: the runtime, the launcher, and the bounds an environment gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kernel_gateway.settings import Settings
from kernels.environment import Environment, Resources
from kernels.oci import environments
from kernels.oci.places import OciSettings
from kernels.oci.runtime import OciRuntime


def runtime(settings: Settings) -> OciRuntime:
    """The runtime that the settings name."""
    return OciRuntime(
        OciSettings(
            runtime=settings.runtime,
            data_directory=Path(settings.data_dir),
            run_directory=Path(settings.run_dir),
            cgroup_parent=settings.cgroup_parent,
            uid_base=settings.uid_base,
            uid_ranges=settings.uid_ranges,
            disk_reserve_bytes=settings.disk_reserve_bytes,
        )
    )


def installed(settings: Settings) -> dict[str, Environment]:
    """Every built environment, by name, with the bounds of the settings."""
    return {name: bounded(one, settings) for name, one in environments.installed(settings.environments_path).items()}


def bounded(environment: Environment, settings: Settings) -> Environment:
    """The environment with the memory, disk and processes that the settings give a sandbox."""
    resources = Resources(memory_mb=settings.memory_mb, storage_mb=settings.storage_mb, pids=settings.pids)
    return dataclasses.replace(environment, resources=resources)
