"""From settings to sandboxes: the runtime, and the environments that sessions are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from kernel_gateway import environments_file
from kernel_gateway.environments_file import Declared
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.settings import Settings
from kernels.environment import Environment, Resources
from kernels.oci import environments
from kernels.oci.places import OciSettings
from kernels.oci.runtime import OciRuntime


def runtime(settings: Settings) -> OciRuntime:
    """The runtime that the settings name, in this process, which is root."""
    return OciRuntime(oci_settings(settings))


def oci_settings(settings: Settings) -> OciSettings:
    """The runtime's part of the settings."""
    return OciSettings(
        runtime=settings.runtime,
        data_directory=Path(settings.data_dir),
        run_directory=Path(settings.run_dir),
        cgroup_parent=settings.cgroup_parent,
        uid_base=settings.uid_base,
        uid_ranges=settings.uid_ranges,
        disk_reserve_bytes=settings.disk_reserve_bytes,
        more_runtimes=_more_runtimes(settings),
    )


def _more_runtimes(settings: Settings) -> tuple[str, ...]:
    """Those that only environments name; none while their file cannot be read, of which the start speaks itself."""
    try:
        return runtimes(settings)[1:]
    except SettingInvalid:
        return ()


def catalogue(settings: Settings, text: str) -> Callable[[], dict[str, Environment]]:
    """The environments there are, asked again and again: those of the file's text, and newly built images.

    Raises SettingInvalid.
    """
    declared, defaults = _declared(settings, text), _resources(settings)
    return lambda: environments_file.applied(declared, environments.installed(settings.environments_path), defaults)


def installed(settings: Settings) -> dict[str, Environment]:
    """Every environment, by name, as the environments file and the settings have it now.

    Raises SettingInvalid, also for an image that is not built.
    """
    text, built = environments_text(settings), environments.installed(settings.environments_path)
    declared = _declared(settings, text)
    environments_file.require_images(declared, built, str(_file(settings)))
    return environments_file.applied(declared, built, _resources(settings))


def environments_text(settings: Settings) -> str:
    """The environments file's text, empty when there is none; raises SettingInvalid."""
    path = _file(settings)
    return "" if path is None else environments_file.read(path)


def _declared(settings: Settings, text: str) -> dict[str, Declared]:
    return environments_file.parse(text, settings, str(_file(settings)))


def runtimes(settings: Settings) -> tuple[str, ...]:
    """Every runtime that an environment may be started with, the service's own first."""
    named = {one.runtime for one in installed(settings).values() if one.runtime}
    return (settings.runtime, *sorted(named - {settings.runtime}))


def _file(settings: Settings) -> Path | None:
    """The environments file: the one that is named, which must be there, or the default one, if it is."""
    if settings.environments_file:
        return Path(settings.environments_file)
    default = Path(settings.data_dir) / "environments.toml"
    try:
        return default if default.exists() else None
    except PermissionError:
        return default  # reading it says so


def bounded(environment: Environment, settings: Settings) -> Environment:
    """The environment with the memory, disk and processes that the settings give a sandbox."""
    return dataclasses.replace(environment, resources=_resources(settings))


def _resources(settings: Settings) -> Resources:
    return Resources(memory_mb=settings.memory_mb, storage_mb=settings.storage_mb, pids=settings.pids)
