"""What the launcher makes of a request to start a sandbox: its own words for the service's names.

The root file system, the interpreter and the digest come from what root built on this host; the runtime and the
resources must lie within what the launcher was started with. Everything else is refused.
"""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from kernels.environment import Environment, ExecutionRole, NetworkPolicy, PackageIndex, Resources
from kernels.errors import LauncherRefused, UnknownEnvironment
from kernels.images import added_packages
from kernels.launcher.wire import Create, Role
from kernels.oci import environments
from kernels.sandbox import SandboxSpec


class Bounds(msgspec.Struct, frozen=True):
    """The most that one sandbox may get, how many there may be, and the runtimes there are.

    Also how many images of added packages there may be, and how many bytes the packages of one may have.
    """

    memory_mb: int
    storage_mb: int
    pids: int
    vcpus: float
    sandboxes: int
    runtimes: tuple[str, ...]
    layers: int = 0
    layer_bytes: int = 0


class Checks:
    """Checks requests against the images in `directory`, those with added packages in `data`, and the bounds."""

    def __init__(self, directory: Path, bounds: Bounds, data: Path | None = None) -> None:
        self._directory = directory
        self._data = data or directory
        self._bounds = bounds

    @property
    def most_sandboxes(self) -> int:
        """How many there may be."""
        return self._bounds.sandboxes

    def spec(self, request: Create, *, sandboxes: int) -> SandboxSpec:
        """What to start; `sandboxes` are there already. Raises `LauncherRefused` and `UnknownEnvironment`."""
        bounds = self._bounds
        if sandboxes >= bounds.sandboxes:
            raise LauncherRefused(f"there are {sandboxes} sandboxes, as many as there may be")
        for name in ("memory_mb", "storage_mb", "pids", "vcpus"):
            asked, most = getattr(request, name), getattr(bounds, name)  # above 0 by the request's type
            if not asked <= most:  # said so that what is no number is refused
                raise LauncherRefused(f"a sandbox gets at most {most} {name}, not {asked}")
        if request.runtime and request.runtime not in bounds.runtimes:
            raise LauncherRefused(f"the runtime {request.runtime!r} is none of {', '.join(bounds.runtimes)}")
        environment = self._find_environment(request)
        return SandboxSpec(request.sandbox_id, environment, request.generation, request.hostname, request.spare)

    def find_image(self, image: str, digest: str) -> Environment:
        """An image that is root's alone; raises `LauncherRefused` and `UnknownEnvironment`."""
        directory = self._data if image == added_packages.NAME else self._directory
        built = environments.find(directory, image, digest)
        root = Path(built.root)
        # Every step of the way, not the last alone: who can write to one of them could put another image in its place.
        for place in (directory, root.parent.parent, root.parent, root.parent / "environment.json", root):
            _require_roots(place)
        return built

    def _find_environment(self, request: Create) -> Environment:
        built = self.find_image(request.image, request.digest)
        # What decides what runs comes from root's files; what the service says of it is bounded by `spec` or a policy.
        return Environment(
            name=built.name,
            root=built.root,
            digest=built.digest,
            python=built.python,
            image=built.image,
            resources=Resources(request.memory_mb, request.storage_mb, request.pids, request.vcpus),
            network=NetworkPolicy(request.network),
            role=_role(request.role),
            index=PackageIndex("") if request.index else None,
            keep_packages=request.keep_packages,
            runtime=request.runtime,
            variables=built.variables,
        )


def _role(role: Role | None) -> ExecutionRole | None:
    return None if role is None else ExecutionRole(role.bucket, role.prefix, role.write, region=role.region)


def _require_roots(place: Path) -> None:
    """An image that another user than root can change is none that root starts."""
    try:
        found = place.stat(follow_symlinks=False)
    except OSError as error:
        raise UnknownEnvironment(f"{place} cannot be examined: {error.strerror}") from None
    # A link's own mode is always 0777 and lets nobody do anything: its owner and its directory, checked too, count.
    writable = stat.S_IMODE(found.st_mode) & 0o022
    if found.st_uid != 0 or (writable and not stat.S_ISLNK(found.st_mode)):
        raise LauncherRefused(f"{place} is not root's alone; build the environment again as root")
