"""Images written to files: an OCI archive of an environment, or of any root file system."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kernels.environment import Environment
from kernels.errors import UnknownEnvironment
from kernels.oci import environments, image_layers
from kernels.oci import recipe as recipes
from kernels.oci.environments import Progress, megabytes

LABEL: Final = "io.sandcell."
"""How the names of our own labels begin."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def export_image(name: str, directory: Path, destination: Path, progress: Progress) -> None:
    """Write the environment's image to an OCI archive of one layer. Needs root, which may read all of it."""
    found = environments.find_installed(directory).get(name)
    if found is None:
        raise UnknownEnvironment(f"no environment {name!r} is built in {directory}")
    labels = {"name": found.name, "description": found.description, "python": found.python}
    labels["recipe"] = _recipe_digest(directory, found)
    settings = {
        "User": "1000:1000",
        "WorkingDir": "/workspace",
        "Env": [
            f"{key}={value}" for key, value in ({"PATH": _PATH, "LANG": "C.UTF-8"} | dict(found.variables)).items()
        ],
        "Labels": {LABEL + label: value for label, value in labels.items() if value},
    }
    pack_root(Path(found.root), destination, f"sandcell-{name}:latest", progress, settings=settings)
    progress(f"wrote {destination}: {megabytes(destination.stat().st_size)}")


def pack_root(
    root: Path,
    destination: Path,
    reference: str,
    progress: Progress,
    *,
    settings: Mapping[str, Any] | None = None,
    above: Sequence[Path] = (),
) -> None:
    """Write a root file system to an OCI archive of one layer; `settings` are the image's, of its config.

    Trees `above` are laid over it.
    """
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".sandcell-") as place:
        layer = Path(place, "layer")
        blob, content = image_layers.pack(root, layer, progress, above)
        config = _encode_config(settings or {}, content)
        manifest = _encode_manifest(config, blob, layer.stat().st_size)
        unfinished = Path(place, "archive")
        with tarfile.open(unfinished, "w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(archive, "index.json", _encode_index(manifest, reference))
            for each in (config, manifest):
                _add(archive, f"blobs/sha256/{_digest(each)}", each)
            archive.add(layer, f"blobs/sha256/{blob}", filter=image_layers.own_by_root)
        unfinished.replace(destination)


def _recipe_digest(directory: Path, found: Environment) -> str:
    """The recipe that an environment was built from, also one that was imported as such; empty for another."""
    with contextlib.suppress(UnknownEnvironment):
        digest = recipes.read(found.name).digest
        place = environments.locate(directory, found.name, digest)
        if place.exists() and place.resolve() == Path(found.root).parent.resolve():
            return digest
    return ""


def find_architecture() -> str:
    """This machine's, as images call it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _encode_config(settings: Mapping[str, Any], content: str) -> bytes:
    config = {
        "architecture": find_architecture(),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{content}"]},
    }
    return json.dumps(config).encode()


def _encode_manifest(config: bytes, blob: str, size: int) -> bytes:
    oci = "application/vnd.oci.image"
    described = {"mediaType": f"{oci}.config.v1+json", "digest": f"sha256:{_digest(config)}", "size": len(config)}
    layer = {"mediaType": f"{oci}.layer.v1.tar+gzip", "digest": f"sha256:{blob}", "size": size}
    manifest = {"schemaVersion": 2, "mediaType": f"{oci}.manifest.v1+json", "config": described, "layers": [layer]}
    return json.dumps(manifest).encode()


def _encode_index(manifest: bytes, reference: str) -> bytes:
    described = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": f"sha256:{_digest(manifest)}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": reference},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
