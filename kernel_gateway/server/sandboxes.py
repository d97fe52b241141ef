"""From settings to sandboxes: the runtime, and the environments that sessions are made from."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernel_gateway import environments_file
from kernel_gateway.environments_file import Declared, DeclaredRole
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.settings import Settings
from kernels import installed_runtimes
from kernels.environment import Environment, MemoryLevels, Resources
from kernels.guest.processors import count_there
from kernels.oci import environments
from kernels.runtimes import open_runtime
from kernels.sandbox import KubernetesSettings, RuntimeSettings, SandboxRuntime

LOOK_SECONDS: Final = 2.0
"""How old what is known of images may be where none seems to have changed."""
DATA: Final = "data"
DATA_MEMORY_MB: Final = 8_192
DATA_STORAGE_MB: Final = 10_240
DATA_VCPUS: Final = 2.0
MEGABYTE: Final = 1024 * 1024
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def make_runtime(settings: Settings, place: Path | None = None) -> SandboxRuntime:
    """The runtime that the settings name, in this process, which is root.

    Its sandboxes lie in `place`, or in the data directory.

    While the environments file cannot be read it knows no other: of that the start and the doctor speak themselves.
    """
    try:
        environments = find_installed(settings)
    except SettingInvalid:
        environments = {}
    return open_runtime(make_runtime_settings(settings, environments.values(), place=place))


def make_runtime_settings(
    settings: Settings, environments: Iterable[Environment], *, service_uid: int = 0, place: Path | None = None
) -> RuntimeSettings:
    """The runtime's part of the settings, with the runtimes that these environments name.

    Raises SettingInvalid when the setting `runtime` names none that is installed.
    """
    if settings.runtime not in (there := installed_runtimes.names()):
        offered = ", ".join(there) or "(none: this installation is older than its code, install it again)"
        raise SettingInvalid(f"runtime must be one of {offered}, not {settings.runtime!r}")
    named = {one.runtime for one in environments if one.runtime}
    return RuntimeSettings(
        runtime=settings.runtime,
        data_directory=place or Path(settings.data_dir),
        run_directory=Path(settings.run_dir),
        cgroup_parent=settings.cgroup_parent,
        uid_base=settings.uid_base,
        uid_ranges=settings.uid_ranges,
        disk_reserve_bytes=settings.disk_reserve_bytes,
        service_uid=service_uid,
        more_runtimes=tuple(sorted(named - {settings.runtime})),
        kubernetes=make_kubernetes_settings(settings),
        checkpoints=settings.gvisor_checkpoints,
    )


def make_kubernetes_settings(settings: Settings) -> KubernetesSettings:
    """The cluster's part of the settings; raises SettingInvalid."""
    if not _LABEL.fullmatch(settings.kubernetes_namespace):
        raise SettingInvalid(f"kubernetes_namespace is no name of a namespace: {settings.kubernetes_namespace!r}")
    classes = {}
    for line in filter(None, map(str.strip, settings.kubernetes_classes.splitlines())):
        image, _, name = line.partition("=")
        if not (image and _LABEL.fullmatch(name)):
            raise SettingInvalid(f"kubernetes_classes has lines like python=gvisor, not {line!r}")
        classes[image] = name
    return KubernetesSettings(
        settings.kubernetes_config,
        settings.kubernetes_namespace,
        settings.kubernetes_registry,
        classes,
        settings.kubernetes_user_namespaces,
        settings.kubernetes_claims,
        settings.kubernetes_port_forward,
    )


class Catalogue:
    """The environments there are, asked again and again: those of the file's text, and newly built images.

    Each execution asks, so images are looked through again only when they seem to have changed, or after a while.
    Raises SettingInvalid when it is made.
    """

    def __init__(self, settings: Settings, text: str) -> None:
        self._directory = settings.environments_path
        self._declared, self._levels = _parse_declared(settings, text), _make_levels(settings)
        self._defaults, self._larger = _make_resources(settings), make_larger(settings)
        self._stamp: object = None
        self._looked = float("-inf")
        self._found: Mapping[str, Environment] = {}

    def __call__(self) -> Mapping[str, Environment]:
        stamp, now = environments.stamp(self._directory), time.monotonic()
        if stamp != self._stamp or now - self._looked > LOOK_SECONDS:
            built = environments.find_installed(self._directory)
            found = environments_file.apply_declared(self._declared, built, self._defaults, self._larger, self._levels)
            self._found, self._stamp, self._looked = MappingProxyType(found), stamp, now
        return self._found


def read_roles(settings: Settings, text: str) -> tuple[DeclaredRole, ...]:
    """The roles that the environments file's text declares for environments that principals make."""
    return environments_file.parse_roles(text, str(_find_file(settings)))


def find_layer(settings: Settings, name: str) -> Declared | None:
    """The table of this name, if it has a list of packages and so an image of its own. Raises SettingInvalid."""
    one = _parse_declared(settings, read_environments_text(settings)).get(name)
    return one if one is not None and one.is_layer else None


def find_installed(settings: Settings, text: str | None = None) -> dict[str, Environment]:
    """Every environment, by name, as the environments file (or its text, already read) and the settings have it now.

    Raises SettingInvalid, also for an image that is not built.
    """
    declared = _parse_declared(settings, read_environments_text(settings) if text is None else text)
    built = environments.find_installed(settings.environments_path)
    environments_file.require_images(declared, built, str(_find_file(settings)))
    return environments_file.apply_declared(
        declared, built, _make_resources(settings), make_larger(settings), _make_levels(settings)
    )


def read_environments_text(settings: Settings) -> str:
    """The environments file's text, empty when there is none; raises SettingInvalid."""
    path = _find_file(settings)
    return "" if path is None else environments_file.read(path)


def _parse_declared(settings: Settings, text: str) -> dict[str, Declared]:
    return environments_file.parse(text, settings, str(_find_file(settings)))


def _find_file(settings: Settings) -> Path | None:
    """The environments file: the one that is named, which must be there, or the default one, if it is."""
    if settings.environments_file:
        return Path(settings.environments_file)
    default = Path(settings.data_dir) / "environments.toml"
    try:
        return default if default.exists() else None
    except PermissionError:
        return default  # reading it says so


def bound_resources(environment: Environment, settings: Settings) -> Environment:
    """The environment with the memory, disk and processes that the settings give a sandbox."""
    return dataclasses.replace(environment, resources=_make_resources(settings))


def make_larger(
    settings: Settings, host_memory_mb: int | None = None, processors: int | None = None
) -> dict[str, Resources]:
    """What the image `data` gets that no file declares: as much as AgentCore's sessions have, where the host has it.

    No more memory than half of the host's and than may be given to any sandbox, no more processors than it has, and
    otherwise never less than the others have.
    """
    host_mb = host_memory_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEGABYTE
    memory = max(settings.memory_mb, min(DATA_MEMORY_MB, settings.memory_mb_max, host_mb // 2))
    storage = max(settings.storage_mb, min(DATA_STORAGE_MB, settings.storage_mb_max))
    vcpus = min(max(DATA_VCPUS, _make_resources(settings).vcpus), processors or count_there())
    return {DATA: Resources(memory, storage, settings.pids, vcpus)}


def _make_levels(settings: Settings) -> MemoryLevels:
    return MemoryLevels(settings.memory_warn_percent, settings.memory_guard_percent)


def _make_resources(settings: Settings) -> Resources:
    return Resources(memory_mb=settings.memory_mb, storage_mb=settings.storage_mb, pids=settings.pids)
