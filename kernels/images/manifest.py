"""What an image says of itself: its manifest and its config, as an OCI layout has them or as `docker save` writes them.

Formats: OCI image specification 1.1 (`index.json`), and docker's `manifest.json`. Everything named by a digest is held
against it.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kernels.errors import EnvironmentBuildFailed
from kernels.oci.image_archives import find_architecture
from kernels.oci.image_layers import Parts

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LONGEST_JSON_BYTES: Final = 8 << 20
_MOST_LAYERS: Final = 500
_MOST_VARIABLES: Final = 200
_LONGEST_VARIABLES_BYTES: Final = 64 << 10
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_REFERENCE: Final = "org.opencontainers.image.ref.name"


class _Descriptor(msgspec.Struct):
    digest: str
    platform: dict[str, Any] = {}
    annotations: dict[str, str] = {}


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
    repo_tags: list[str] | None = None


class _RootFs(msgspec.Struct):
    diff_ids: list[str]


class _Settings(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None
    env: list[str] | None = None
    user: str = ""


class _Config(msgspec.Struct):
    architecture: str
    rootfs: _RootFs
    os: str = "linux"
    config: _Settings | None = None


class Image(msgspec.Struct, frozen=True):
    """`layers` are names among the parts, each with its digest when unpacked; `digest` is that of the config."""

    digest: str
    labels: Mapping[str, str]
    layers: tuple[tuple[str, str], ...]
    variables: Mapping[str, str]
    user: str

    @property
    def path(self) -> tuple[str, ...]:
        """The directories in which programs of the image are looked for."""
        found = self.variables.get("PATH", "") or DEFAULT_PATH
        return tuple(each for each in found.split(":") if each.startswith("/"))


def read_image(parts: Parts, reference: str = "") -> Image:
    """The image for this machine; `reference` names it where there are several. Raises `EnvironmentBuildFailed`."""
    names = parts.names()
    if "index.json" in names:
        index = msgspec.json.decode(_read(parts, "index.json"), type=_Index)
        manifest = _find_manifest(parts, _choose_named(index.manifests, reference))
        if manifest.config is None:
            raise EnvironmentBuildFailed("the archive's manifest names no config")
        text = _read_blob(parts, manifest.config.digest)
        layers = [_name_blob(each.digest) for each in manifest.layers]
    elif "manifest.json" in names:
        images = msgspec.json.decode(_read(parts, "manifest.json"), type=list[_Saved])
        images = [each for each in images if not reference or reference in (each.repo_tags or [])]
        if len(images) != 1:
            raise EnvironmentBuildFailed(f"the archive holds {len(images) or 'no'} images; save one")
        (saved,) = images
        text, layers = _read(parts, saved.config), saved.layers
    else:
        raise EnvironmentBuildFailed("it is no image: neither an OCI archive nor what `docker save` writes")
    return _make_image(text, layers)


def _make_image(text: bytes, layers: list[str]) -> Image:
    config = msgspec.json.decode(text, type=_Config)
    if config.os != "linux":
        raise EnvironmentBuildFailed(f"the image is for {config.os[:40]}; sandboxes run images for linux")
    if config.architecture != find_architecture():
        raise EnvironmentBuildFailed(f"the image is for {config.architecture[:40]}, this host is {platform.machine()}")
    if len(layers) != len(config.rootfs.diff_ids):
        raise EnvironmentBuildFailed("the image's config names other layers than its manifest")
    if len(layers) > _MOST_LAYERS:
        raise EnvironmentBuildFailed(f"the image has {len(layers):,} layers; {_MOST_LAYERS} are the most")
    settings = config.config or _Settings()
    return _read_settings(settings, make_digest(text), tuple(zip(layers, config.rootfs.diff_ids, strict=True)))


def _read_settings(settings: _Settings, named: str, layers: tuple[tuple[str, str], ...]) -> Image:
    variables = dict(each.partition("=")[::2] for each in settings.env or [])
    long = sum(map(len, settings.env or [])) > _LONGEST_VARIABLES_BYTES
    if long or len(variables) > _MOST_VARIABLES or not all(_VARIABLE.fullmatch(each) for each in variables):
        raise EnvironmentBuildFailed(
            f"the image's ENV is not usable: it may have {_MOST_VARIABLES} variables of letters, digits and `_`,"
            f" {_LONGEST_VARIABLES_BYTES >> 10} KB in all"
        )
    if any("\0" in value for value in variables.values()):
        raise EnvironmentBuildFailed("the image's ENV holds a zero byte")
    return Image(named, settings.labels or {}, layers, variables, settings.user.partition(":")[0])


def _choose_named(offered: list[_Descriptor], reference: str) -> list[_Descriptor]:
    return [each for each in offered if not reference or each.annotations.get(_REFERENCE) == reference]


def _find_manifest(parts: Parts, offered: list[_Descriptor], depth: int = 0) -> _Manifest:
    """The manifest for this machine, of those an index offers."""
    wanted = find_architecture()
    fitting = [
        each
        for each in offered
        if each.platform.get("architecture", wanted) == wanted and each.platform.get("os", "linux") == "linux"
    ]
    if not fitting:
        there = ", ".join(
            sorted({f"{e.platform.get('os')}/{e.platform.get('architecture')}"[:40] for e in offered})[:8]
        )
        raise EnvironmentBuildFailed(f"it holds no image for linux/{wanted}; there are: {there or 'none'}")
    if len(fitting) > 1 or depth > 1:
        raise EnvironmentBuildFailed(f"it holds {len(fitting)} images for linux/{wanted}; name one, or save one")
    found = msgspec.json.decode(_read_blob(parts, fitting[0].digest), type=_Manifest)
    return _find_manifest(parts, found.manifests, depth + 1) if found.manifests else found


def make_digest(content: bytes) -> str:
    """As images name what they consist of."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _name_blob(named: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", named):
        raise EnvironmentBuildFailed(f"the image names something by {named[:80]!r}, which is no SHA-256 digest")
    return f"blobs/sha256/{named.removeprefix('sha256:')}"


def _read_blob(parts: Parts, named: str) -> bytes:
    content = _read(parts, _name_blob(named))
    if make_digest(content) != named:
        raise EnvironmentBuildFailed(f"{named} in the archive has another digest")
    return content


def _read(parts: Parts, name: str) -> bytes:
    with parts.open(name) as file:
        return file.read(_LONGEST_JSON_BYTES)
