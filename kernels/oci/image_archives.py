"""Images as files: an environment from an OCI archive or from what `docker save` wrote, and an OCI archive from one.

The image is named by the digest of its config, which names its layers by theirs; each is held against that while it is
unpacked (`unpacking`). What root imported is trusted like what root built: it may run in sandboxes, and runs nowhere
else.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from kernels.environment import Environment
from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment
from kernels.oci import environments, image_layers
from kernels.oci import recipe as recipes
from kernels.oci.environments import Progress, megabytes
from kernels.oci.unpacking import Archive

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,400}")
_LABEL: Final = "io.sandcell."
_LONGEST_JSON_BYTES: Final = 8 << 20
_MOST_LAYERS: Final = 500
_STEP_SECONDS: Final = 1800
_QUESTION_SECONDS: Final = 60
_DAMAGE: Final = (
    *(OSError, ValueError, KeyError, EOFError, RecursionError, OverflowError, MemoryError),
    *(tarfile.TarError, zlib.error, lzma.LZMAError, msgspec.MsgspecError),
)
"""What readers of a damaged archive, or of one that was made to be, raise."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class _Descriptor(msgspec.Struct):
    digest: str
    platform: dict[str, Any] = {}


class _Index(msgspec.Struct):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct):
    config: _Descriptor | None = None
    layers: list[_Descriptor] = []
    manifests: list[_Descriptor] = []
    """Of an index within the index, as an image for several architectures is one."""


class _Saved(msgspec.Struct, rename="pascal"):
    """An entry of `manifest.json`, as `docker save` writes it."""

    config: str
    layers: list[str]


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _Settings(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None


class _Config(msgspec.Struct):
    architecture: str
    rootfs: _RootFs
    config: _Settings | None = None


@dataclass(frozen=True)
class _Image:
    """What an archive says of its image: `layers` are members of the archive, each with its digest when unpacked."""

    digest: str
    labels: Mapping[str, str]
    layers: tuple[tuple[str, str], ...]


def fetch(reference: str, destination: Path, progress: Progress, *, variables: Mapping[str, str]) -> None:
    """Write the image of this reference to an archive, with the container tool at hand; pulls it where it is not local.

    Raises `EnvironmentBuildFailed`.
    """
    if not _REFERENCE.fullmatch(reference):
        raise EnvironmentBuildFailed(f"{reference!r} is neither a file nor a reference of an image")
    for tool in ("podman", "docker"):
        if shutil.which(tool):
            if not _holds(tool, reference, variables):
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


def import_image(archive: Path, name: str, python: str, directory: Path, progress: Progress) -> Environment:
    """The environment made of an archive; empty `name` and `python` are as the image's labels say.

    An image that was exported from a build of this installation's recipe counts as that build. Raises
    `EnvironmentBuildFailed` and leaves nothing of the image then. Needs root.
    """
    if os.geteuid() != 0:
        raise EnvironmentBuildFailed("importing an image makes a root file system: run it as root (sudo)")
    try:
        with _open(archive) as opened:
            return _import(opened, name, python, directory, progress)
    except _DAMAGE as error:
        # Of the many lines of an archive that no reader takes, the first says so.
        reason = str(error).partition("\n")[0].rstrip(":")
        raise EnvironmentBuildFailed(f"{archive} cannot be imported: {reason or type(error).__name__}") from None


def _open(archive: Path) -> tarfile.TarFile:
    with archive.open("rb") as file:
        if file.read(len(image_layers.ZSTD)) == image_layers.ZSTD:  # which only some versions of Python read
            raise EnvironmentBuildFailed(f"{archive} is compressed by zstd; decompress it first (unzstd)")
    return Archive.open(archive)


def export_image(name: str, directory: Path, destination: Path, progress: Progress) -> None:
    """Write the environment's image to an OCI archive of one layer. Needs root, which may read all of it."""
    found = environments.find_installed(directory).get(name)
    if found is None:
        raise UnknownEnvironment(f"no environment {name!r} is built in {directory}")
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".sandcell-") as place:
        layer = Path(place, "layer")
        blob, content = image_layers.pack(Path(found.root), layer, progress)
        config = _encode_config(found, content, _recipe_digest(directory, found))
        manifest = _encode_manifest(config, blob, layer.stat().st_size)
        unfinished = Path(place, "archive")
        with tarfile.open(unfinished, "w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(archive, "index.json", _encode_index(manifest, name))
            for each in (config, manifest):
                _add(archive, f"blobs/sha256/{_digest(each)}", each)
            archive.add(layer, f"blobs/sha256/{blob}", filter=image_layers.own_by_root)
        unfinished.replace(destination)
    progress(f"wrote {destination}: {megabytes(destination.stat().st_size)}")


def _import(archive: tarfile.TarFile, name: str, python: str, directory: Path, progress: Progress) -> Environment:
    image = _read(archive)
    name = name or image.labels.get(_LABEL + "name", "")
    if not NAME.fullmatch(name):
        raise EnvironmentBuildFailed("the image says no name that an environment can have: give one with --name")
    python = python or image.labels.get(_LABEL + "python", "/usr/bin/python3")
    target = environments.locate(directory, name, image.digest)
    with environments.building(directory / name):
        if not (target / "environment.json").exists():
            with environments.stage(target) as unfinished:
                image_layers.unpack(archive, image.layers, unfinished / "root", progress)
                image_layers.require_python(unfinished / "root", python)
                description = image.labels.get(_LABEL + "description", "")
                environments.declare(unfinished, name=name, digest=image.digest, description=description, python=python)
        recipe = recipes.read(name).digest if name in recipes.recipes() else ""
        built = environments.locate(directory, name, recipe)
        if recipe and recipe == image.labels.get(_LABEL + "recipe") and (built.is_symlink() or not built.exists()):
            environments.point(built, target.name)
        environments.point(directory / name / "current", target.name)
    return environments.find(directory, name, image.digest)


def _recipe_digest(directory: Path, found: Environment) -> str:
    """The recipe that an environment was built from, also one that was imported as such; empty for another."""
    with contextlib.suppress(UnknownEnvironment):
        digest = recipes.read(found.name).digest
        place = environments.locate(directory, found.name, digest)
        if place.exists() and place.resolve() == Path(found.root).parent.resolve():
            return digest
    return ""


def _read(archive: tarfile.TarFile) -> _Image:
    names = _read_names(archive)
    if "index.json" in names:
        manifest = _manifest(archive, msgspec.json.decode(_json(archive, "index.json"), type=_Index).manifests)
        if manifest.config is None:
            raise EnvironmentBuildFailed("the archive's manifest names no config")
        text = _blob(archive, manifest.config.digest)
        layers = [_blob_name(each.digest) for each in manifest.layers]
    elif "manifest.json" in names:
        images = msgspec.json.decode(_json(archive, "manifest.json"), type=list[_Saved])
        if len(images) != 1:
            raise EnvironmentBuildFailed(f"the archive holds {len(images) or 'no'} images; save one")
        (saved,) = images
        text, layers = _json(archive, saved.config), saved.layers
    else:
        raise EnvironmentBuildFailed("it is no image: neither an OCI archive nor what `docker save` writes")
    config = msgspec.json.decode(text, type=_Config)
    if config.architecture != _architecture():
        raise EnvironmentBuildFailed(f"the image is for {config.architecture}, this host is {platform.machine()}")
    if len(layers) != len(config.rootfs.diff_ids):
        raise EnvironmentBuildFailed("the image's config names other layers than its manifest")
    if len(layers) > _MOST_LAYERS:
        raise EnvironmentBuildFailed(f"the image has {len(layers):,} layers; {_MOST_LAYERS} are the most")
    labels = (config.config.labels if config.config else None) or {}
    return _Image(f"sha256:{_digest(text)}", labels, tuple(zip(layers, config.rootfs.diff_ids, strict=True)))


def _read_names(archive: tarfile.TarFile) -> set[str]:
    names = set()
    for member in archive:
        # Before the next header is looked for: in a compressed archive all up to there is decompressed for it.
        image_layers.require_size(member.offset_data + member.size)
        names.add(member.name)
    return names


def _manifest(archive: tarfile.TarFile, offered: list[_Descriptor], depth: int = 0) -> _Manifest:
    """The manifest for this machine, of those an index offers."""
    wanted = _architecture()
    fitting = [each for each in offered if each.platform.get("architecture", wanted) == wanted]
    if len(fitting) != 1 or depth > 1:
        raise EnvironmentBuildFailed(f"the archive holds {len(fitting)} images for this machine; one is needed")
    found = msgspec.json.decode(_blob(archive, fitting[0].digest), type=_Manifest)
    return _manifest(archive, found.manifests, depth + 1) if found.manifests else found


def _architecture() -> str:
    """This machine's, as images call it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _blob_name(digest: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise EnvironmentBuildFailed(f"the image names something by {digest[:80]!r}, which is no SHA-256 digest")
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _blob(archive: tarfile.TarFile, digest: str) -> bytes:
    content = _json(archive, _blob_name(digest))
    if f"sha256:{_digest(content)}" != digest:
        raise EnvironmentBuildFailed(f"{digest} in the archive has another digest")
    return content


def _json(archive: tarfile.TarFile, name: str) -> bytes:
    return image_layers.open_member(archive, name).read(_LONGEST_JSON_BYTES)


def _holds(tool: str, reference: str, variables: Mapping[str, str]) -> bool:
    return _run([tool, "image", "inspect", reference], variables, _QUESTION_SECONDS).returncode == 0


def _run(command: list[str], variables: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, env=dict(variables), capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentBuildFailed(f"{' '.join(command[:2])} failed: {error}") from None


def _call(command: list[str], variables: Mapping[str, str]) -> None:
    done = _run(command, variables, _STEP_SECONDS)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        raise EnvironmentBuildFailed(f"{' '.join(command[:2])} failed: {said or done.returncode}")


def _encode_config(found: Environment, content: str, recipe: str) -> bytes:
    labels = {"name": found.name, "description": found.description, "python": found.python, "recipe": recipe}
    config = {
        "architecture": _architecture(),
        "os": "linux",
        "config": {
            "User": "1000:1000",
            "WorkingDir": "/workspace",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "Labels": {_LABEL + name: value for name, value in labels.items() if value},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{content}"]},
    }
    return json.dumps(config).encode()


def _encode_manifest(config: bytes, blob: str, size: int) -> bytes:
    oci = "application/vnd.oci.image"
    described = {"mediaType": f"{oci}.config.v1+json", "digest": f"sha256:{_digest(config)}", "size": len(config)}
    layer = {"mediaType": f"{oci}.layer.v1.tar+gzip", "digest": f"sha256:{blob}", "size": size}
    manifest = {"schemaVersion": 2, "mediaType": f"{oci}.manifest.v1+json", "config": described, "layers": [layer]}
    return json.dumps(manifest).encode()


def _encode_index(manifest: bytes, name: str) -> bytes:
    described = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": f"sha256:{_digest(manifest)}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": f"sandcell-{name}:latest"},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
