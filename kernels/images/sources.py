"""Where an image comes from: a file, a directory, a registry, a container engine, a Dockerfile.

A source is written as the container tools write it: `oci-archive:FILE`, `docker-archive:FILE`, `oci:DIRECTORY`, each
with `:NAME` after it where there are several images; `docker://NAME@sha256:...`, which skopeo fetches; or `dir:ROOT`, a
root file system. What has no such start is a file, or a reference that podman, docker or skopeo knows.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.images.parts import DirectoryParts, open_archive
from kernels.oci import image_archives
from kernels.oci.environments import Progress
from kernels.oci.image_layers import Parts

_REFERENCE: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._/:@\[\]-]{0,400}")
_TRANSPORTS: Final = ("oci-archive", "docker-archive", "oci", "dir")
_FILE_ENDINGS: Final = (".tar", ".tar.gz", ".tgz")
"""What ends so is meant as a file, and no engine is asked for it."""
_STEP_SECONDS: Final = 1800
_QUESTION_SECONDS: Final = 60
_ISOLATION: Final = "chroot"
"""Of buildah: needs no user namespace and no control group of its own, which a host may refuse."""


class Source(msgspec.Struct, frozen=True):
    """An image that is at hand; `reference` names it where there are several."""

    parts: Parts
    reference: str = ""


@contextlib.contextmanager
def open_source(source: str, progress: Progress, *, variables: Mapping[str, str]) -> Iterator[Source]:
    """The image of a source, fetched where it is not here; `variables` is the environment of the tools.

    Raises `EnvironmentBuildFailed`.
    """
    transport, _, rest = source.partition(":")
    with tempfile.TemporaryDirectory(prefix="sandcell-") as name, contextlib.ExitStack() as stack:
        place = Path(name)
        if transport == "docker" and rest.startswith("//"):
            yield Source(DirectoryParts(_pull(rest.removeprefix("//"), place / "image", progress, variables)))
            return
        if transport in _TRANSPORTS:
            path, reference = _split(rest, directory=transport in {"oci", "dir"})
            if transport == "oci":
                yield Source(DirectoryParts(path), reference)
                return
            if transport == "dir":
                progress(f"packing {path}")
                try:
                    image_archives.pack_root(path, place / "image.tar", "root", progress)
                except OSError as error:  # a disk that is full, or a file that was removed meanwhile
                    raise EnvironmentBuildFailed(f"{path} cannot be packed: {error}") from None
                path, reference = place / "image.tar", ""
        else:
            path, reference = Path(source), ""
            if not path.exists():
                if source.endswith(_FILE_ENDINGS):
                    raise EnvironmentBuildFailed(f"there is no file {source}")
                path = place / "image.tar"
                _save(source, path, progress, variables)
        yield Source(stack.enter_context(open_archive(path)), reference)


@contextlib.contextmanager
def build_source(dockerfile: Path, progress: Progress, *, variables: Mapping[str, str]) -> Iterator[Source]:
    """The image that buildah makes of a directory with a Dockerfile, or of a Dockerfile in its directory.

    The build is the operator's: it has the host's network and runs as root, like any build of a container engine.
    Raises `EnvironmentBuildFailed`.
    """
    if not dockerfile.exists():
        raise EnvironmentBuildFailed(f"there is no {dockerfile}")
    _require_tool("buildah")
    named = [] if dockerfile.is_dir() else ["--file", str(dockerfile)]
    context = dockerfile if dockerfile.is_dir() else dockerfile.parent
    with tempfile.TemporaryDirectory(prefix="sandcell-") as name:
        place = Path(name)
        progress(f"building {dockerfile} (buildah)")
        options = ["--isolation", _ISOLATION, "--format", "oci", "--iidfile", str(place / "id")]
        try:
            _call(["buildah", "build", *options, *named, "--", str(context)], variables)
            built = (place / "id").read_text().strip()
            progress("taking the image over (buildah)")
            _call(["buildah", "push", "--", built, f"oci:{place / 'image'}"], variables)
        finally:
            # The base image stays where buildah keeps it, so that the next build need not fetch it.
            if (place / "id").exists():
                _run(["buildah", "rmi", "--", (place / "id").read_text().strip()], variables, _QUESTION_SECONDS)
        yield Source(DirectoryParts(place / "image"))


def _split(rest: str, *, directory: bool) -> tuple[Path, str]:
    """The path of a source and what names the image in it; a path may have colons itself."""
    if not Path(rest).exists():
        name, colon, reference = rest.partition(":")
        if colon and Path(name).exists():
            return _split(name, directory=directory)[0], reference
        raise EnvironmentBuildFailed(f"there is no {'directory' if directory else 'file'} {rest}")
    if Path(rest).is_dir() is not directory:
        raise EnvironmentBuildFailed(f"{rest} is {'no' if directory else 'a'} directory")
    return Path(rest), ""


def _pull(reference: str, destination: Path, progress: Progress, variables: Mapping[str, str]) -> Path:
    _require_reference(reference)
    _require_tool("skopeo")
    progress(f"copying {reference} (skopeo)")
    # Of an index, skopeo takes the image for this platform; said here so that it is the host's and no other.
    platform = ["--override-os=linux", f"--override-arch={image_archives.find_architecture()}"]
    _call(["skopeo", *platform, "copy", f"docker://{reference}", f"oci:{destination}"], variables)
    return destination


def _save(reference: str, destination: Path, progress: Progress, variables: Mapping[str, str]) -> None:
    """Write the image of this reference to an archive, with the container tool at hand; pulls it if it is not local."""
    _require_reference(reference)
    for tool in ("podman", "docker"):
        if shutil.which(tool):
            if _run([tool, "image", "inspect", reference], variables, _QUESTION_SECONDS).returncode:
                progress(f"pulling {reference} ({tool})")
                _call([tool, "pull", reference], variables)
            progress(f"saving {reference} ({tool})")
            return _call([tool, "save", "--output", str(destination), reference], variables)
    if shutil.which("skopeo"):
        progress(f"copying {reference} (skopeo)")
        return _call(["skopeo", "copy", f"docker://{reference}", f"oci-archive:{destination}"], variables)
    raise EnvironmentBuildFailed(
        f"there is no file {reference}; to fetch an image by reference, install podman, docker or skopeo"
    )


def _require_reference(reference: str) -> None:
    if not _REFERENCE.fullmatch(reference):
        raise EnvironmentBuildFailed(f"{reference!r} is neither a file nor a reference of an image")


def _require_tool(tool: str) -> None:
    if shutil.which(tool) is None:
        raise EnvironmentBuildFailed(f"{tool} is missing: install Debian's package {tool} (apt-get install {tool})")


def _run(command: list[str], variables: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, env=dict(variables), capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentBuildFailed(f"{_name(command)} failed: {error}") from None


def _call(command: list[str], variables: Mapping[str, str]) -> None:
    done = _run(command, variables, _STEP_SECONDS)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        raise EnvironmentBuildFailed(f"{_name(command)} failed: {said or done.returncode}")


def _name(command: list[str]) -> str:
    """The tool and its verb."""
    return " ".join([each for each in command if not each.startswith("-")][:2])
