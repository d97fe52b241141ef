"""What nodes run: an environment's image with the guest in it, under a name that says which versions of both it has.

Nodes share no directory with the service, so the guest goes with the image. After an upgrade of the service that
changes the guest its images have other names, and are to be brought to the cluster again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from kernels.environment import Environment
from kernels.errors import UnknownEnvironment
from kernels.oci import environments
from kernels.oci.environments import Progress, megabytes
from kernels.oci.image_archives import pack_root
from kernels.oci.runtime import read_guest_source, write_guest

_DIGITS: Final = 12


def reference(environment: Environment, registry: str) -> str:
    """The image's name in the cluster."""
    version = f"{environment.digest.removeprefix('sha256:')[:_DIGITS]}-{read_guest_source()[1][:_DIGITS]}"
    return f"{registry}/sandcell-{environment.image}:{version}".lower()


def write_archive(name: str, directory: Path, registry: str, destination: Path, progress: Progress) -> str:
    """Write the image of the environment `name` to an OCI archive for the cluster; returns its name there."""
    found = environments.find_installed(directory).get(name)
    if found is None:
        raise UnknownEnvironment(f"no environment {name!r} is built in {directory}")
    called = reference(found, registry)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".sandcell-") as place:
        guest = Path(place, "opt", "sandcell", "guest")
        guest.mkdir(parents=True)
        Path(place).chmod(0o755)  # it becomes the image's root
        write_guest(guest)
        pack_root(Path(found.root), destination, called, progress, above=(Path(place),))
    progress(f"wrote {destination}: {megabytes(destination.stat().st_size)}, to be known to the cluster as {called}")
    return called
