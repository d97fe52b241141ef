"""Images from archives and into them: what is kept, what hostile layers are left to, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.environment import Environment, NetworkMode
from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment
from kernels.launcher.checks import Bounds, Checks
from kernels.launcher.wire import Create
from kernels.oci import environments, image_archives
from kernels.oci import recipe as recipes

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
IPYKERNEL = "usr/lib/python3/dist-packages/ipykernel/__init__.py"
Entry = tuple[tarfile.TarInfo, bytes]


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: Any
) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.type, found.size = kind, len(content)
    for field, value in fields.items():
        setattr(found, field, value)
    return found, content


PYTHON = [
    member("usr/bin/python3.11", b"#!", mode=0o755),
    member("usr/bin/python3", kind=tarfile.SYMTYPE, linkname="python3.11"),
]
BASE = [*PYTHON, member(IPYKERNEL, b"__version__ = '7'\n", mtime=1_600_000_000)]


def layer(*members: Entry) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def config(*layers: bytes, labels: dict[str, str] | None = None, **other: Any) -> bytes:
    ids = {"type": "layers", "diff_ids": [sha(each) for each in layers]}
    return json.dumps({"architecture": MACHINE, "rootfs": ids, "config": {"Labels": labels}, **other}).encode()


def oci(place: Path, settings: bytes, *layers: bytes, compressed: bool = True) -> Path:
    blobs = [gzip.compress(each) if compressed else each for each in layers]
    manifest = json.dumps(
        {"config": {"digest": sha(settings)}, "layers": [{"digest": sha(each)} for each in blobs]}
    ).encode()
    names = {f"blobs/sha256/{sha(each)[7:]}": each for each in (settings, manifest, *blobs)}
    return pack(place, {"index.json": json.dumps({"manifests": [{"digest": sha(manifest)}]}).encode(), **names})


def docker(place: Path, settings: bytes, *layers: bytes) -> Path:
    names = {f"{number}/layer.tar": each for number, each in enumerate(layers)}
    saved = [{"Config": "config.json", "Layers": list(names), "RepoTags": ["x:latest"]}]
    return pack(place, {"manifest.json": json.dumps(saved).encode(), "config.json": settings, **names})


def pack(place: Path, files: dict[str, bytes]) -> Path:
    place.write_bytes(layer(*(member(name, content) for name, content in files.items())))
    return place


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., Environment]:
    """Import an archive as `own` into a directory of the test's own."""

    def take(archive: Path, name: str = "own", python: str = "") -> Environment:
        return image_archives.import_image(archive, name, python, tmp_path / "environments", lambda _line: None)

    return take


@pytest.mark.parametrize("write", [oci, docker])
def test_an_image_is_named_by_its_config_and_its_layers_lie_on_each_other(
    take: Callable[..., Environment], tmp_path: Path, write: Callable[..., Path]
) -> None:
    above = layer(
        member("etc/changed", b"new"),
        member("etc/.wh.gone"),
        member("opt/.wh..wh..opq"),
        member("opt/kept", b"of this layer"),
        member("usr/bin/linked", kind=tarfile.LNKTYPE, linkname="usr/bin/python3.11"),
    )
    first = layer(*BASE, member("etc/changed", b"old"), member("etc/gone", b"x"), member("opt/old/file", b"x"))
    labels = {"io.sandcell.python": "/usr/bin/python3.11", "io.sandcell.description": "what it is for"}
    settings = config(first, above, labels=labels)
    found = take(write(tmp_path / "image.tar", settings, first, above))
    root = Path(found.root)
    assert (found.name, found.digest, found.python) == ("own", sha(settings), "/usr/bin/python3.11")
    assert found.description == "what it is for"
    assert (root / "etc/changed").read_text() == "new"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["changed"]
    assert sorted(path.name for path in (root / "opt").iterdir()) == ["kept", "sandcell"]
    assert (root / "usr/bin/linked").samefile(root / "usr/bin/python3.11")
    assert (root / IPYKERNEL).stat().st_mtime == 1_600_000_000
    assert (root / "workspace").is_dir()
    assert environments.installed(tmp_path / "environments") == {"own": found}
    assert take(tmp_path / "image.tar") == found


def test_the_launcher_takes_it_like_one_that_was_built(take: Callable[..., Environment], tmp_path: Path) -> None:
    """Also one of somebody whose files are his group's by default, in a directory that was made so."""
    base = layer(*BASE)
    mask = os.umask(0o002)
    try:
        (tmp_path / "environments").mkdir()
        found = take(oci(tmp_path / "image.tar", config(base), base))
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(mask)
    bounds = Bounds(memory_mb=2048, storage_mb=512, pids=64, sandboxes=3, runtimes=("runc",))
    request = Create(
        "f9a0947f-0bce-4b68-9cf0-1fe53c27111e",
        "own",
        found.digest,
        1,
        "x",
        2048,
        512,
        64,
        "",
        NetworkMode.SANDBOX,
        None,
    )
    spec = Checks(tmp_path / "environments", bounds).spec(request, sandboxes=0)
    assert spec.environment.root == found.root


def test_what_a_hostile_layer_makes_is_roots_and_in_its_place(take: Callable[..., Environment], tmp_path: Path) -> None:
    before = sorted(path.name for path in Path("/etc").iterdir())
    first = layer(
        *BASE,
        member("etc/hostname", b"the image's"),
        member("way", kind=tarfile.SYMTYPE, linkname="/etc"),
        member("up", kind=tarfile.SYMTYPE, linkname="../../../../../../../../etc"),
        member("bin/root", b"#!", mode=0o6777, uid=1000, gid=1000),
        member("shared", kind=tarfile.DIRTYPE, mode=0o1777, uid=1000),
        member("disk", kind=tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666),
        member("null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666),
        member("pipe", kind=tarfile.FIFOTYPE),
    )
    second = layer(
        member("way/planted", b"x"), member("up/more", b"x"), member("way/.wh.hostname"), member("/absolute", b"x")
    )
    root = Path(take(oci(tmp_path / "image.tar", config(first, second), first, second)).root)
    assert sorted(path.name for path in Path("/etc").iterdir()) == before
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["more", "planted"]
    assert (root / "absolute").read_text() == "x"
    assert not any((root / name).exists() for name in ("disk", "null", "pipe"))
    for path in (root, *root.glob("**/*")):
        seen = path.lstat()
        assert (seen.st_uid, seen.st_gid) == (0, 0), path
        assert path.is_symlink() or not seen.st_mode & 0o7022, path


BAD_LAYERS = {
    "a name above": ([member("../escaped", b"x")], "leads out of it"),
    "a name above, inside": ([member("a/../../escaped", b"x")], "leads out of it"),
    "a hard link above": ([member("x", kind=tarfile.LNKTYPE, linkname="../../etc/shadow")], "leads out of it"),
    "a file below a link that leads nowhere in the image": (
        [member("way", kind=tarfile.SYMTYPE, linkname="/proc/self"), member("way/x", b"x")],
        "File exists: '/way'",
    ),
    "a file that is far larger than what is read of it": (
        [member("x", b"y", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": str(100 << 20)})],
        "sparse",
    ),
    "a hard link to the host's": ([member("x", kind=tarfile.LNKTYPE, linkname="/etc/hostname")], "No such file"),
}


@pytest.mark.parametrize("name", BAD_LAYERS)
def test_a_layer_that_reaches_out_is_refused_and_leaves_nothing(
    take: Callable[..., Environment], tmp_path: Path, name: str
) -> None:
    members, reason = BAD_LAYERS[name]
    bad = layer(*BASE, *members)
    with pytest.raises(EnvironmentBuildFailed, match=reason):
        take(oci(tmp_path / "image.tar", config(bad), bad))
    assert sorted(path.name for path in (tmp_path / "environments/own").iterdir()) == [".lock"]


def test_what_is_not_what_it_says_is_refused(take: Callable[..., Environment], tmp_path: Path) -> None:
    base, other, place = layer(*BASE), layer(*BASE, member("more", b"x")), tmp_path / "image.tar"
    zstd = b"\x28\xb5\x2f\xfd" + bytes(100)
    damaged = gzip.compress(base)[:10] + bytes([255]) * 100
    cut = oci(tmp_path / "cut.tar", config(base), base)
    cut.write_bytes(cut.read_bytes()[:1500])
    (tmp_path / "no.tar").write_bytes(b"no archive" * 100)
    for archive, reason in (
        (lambda: oci(place, config(base), other), "its digest differs"),
        (lambda: oci(place, config(base, base), base), "other layers than its manifest"),
        (lambda: oci(place, config(base, architecture="s390x"), base), "is for s390x"),
        (lambda: oci(place, config(zstd), zstd, compressed=False), "zstd"),
        (lambda: oci(place, config(damaged), damaged, compressed=False), "cannot be imported"),
        (lambda: oci(place, config(layer(*PYTHON)), layer(*PYTHON)), "no ipykernel"),
        (lambda: oci(place, config(layer(BASE[2])), layer(BASE[2])), "no /usr/bin/python3"),
        (lambda: pack(place, {"x": b""}), "neither an OCI archive nor"),
        (lambda: pack(place, {"index.json": b"{"}), "cannot be imported"),
        (lambda: pack(place, {"manifest.json": b"[]"}), "holds no images"),
        (lambda: cut, "cannot be imported"),
        (lambda: tmp_path / "no.tar", "cannot be imported"),
    ):
        with pytest.raises(EnvironmentBuildFailed, match=reason):
            take(archive())
    assert environments.installed(tmp_path / "environments") == {}
    with pytest.raises(EnvironmentBuildFailed, match="with --name"):
        take(oci(place, config(base), base), name="")
    with pytest.raises(EnvironmentBuildFailed, match="with --name"):
        take(place, name="../../etc")


def test_a_blob_of_another_digest_is_refused(take: Callable[..., Environment], tmp_path: Path) -> None:
    base = layer(*BASE)
    archive = oci(tmp_path / "image.tar", config(base), base)
    archive.write_bytes(archive.read_bytes().replace(b'"Labels": null', b'"Labels": {  }'))
    with pytest.raises(EnvironmentBuildFailed, match="has another digest"):
        take(archive)


def test_an_exported_image_comes_back_and_counts_as_built(take: Callable[..., Environment], tmp_path: Path) -> None:
    """As `sandcell environments build` would find it, on a host that has only the archive."""
    base = layer(*BASE, member("etc/special", b"x", mode=0o4755))
    here, there = tmp_path / "here", tmp_path / "environments"
    recipe = recipes.read("python").digest.replace(":", "-")
    made = image_archives.import_image(oci(tmp_path / "a.tar", config(base), base), "python", "", here, lambda _: None)
    environments.point(here / "python" / recipe, Path(made.root).parent.name)
    lines: list[str] = []
    image_archives.export_image("python", here, tmp_path / "out.tar", lines.append)
    assert lines[-1].startswith(f"wrote {tmp_path / 'out.tar'}: ")
    assert sorted(path.name for path in tmp_path.glob(".sandcell*")) == []
    found = take(tmp_path / "out.tar", name="")
    assert found.name == "python"
    assert tree(Path(found.root)) == tree(Path(made.root))
    assert environments.build("python", there, lines.append, variables={}).root == str(
        there / "python" / recipe / "root"
    )
    assert environments.installed(there)["python"].digest == found.digest
    with pytest.raises(UnknownEnvironment, match="no environment 'ruby'"):
        image_archives.export_image("ruby", here, tmp_path / "ruby.tar", lines.append)


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in root.glob("**/*"):
        seen = path.lstat()
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        times = int(seen.st_mtime) if path.is_file() and not path.is_symlink() else 0
        found[str(path.relative_to(root))] = (seen.st_mode, times, content)
    return found


def test_a_reference_without_a_tool_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernel_gateway", "environments", "import", "quay.io/somebody/image:1"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), "SANDCELL_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 7
    assert (
        "no file quay.io/somebody/image:1; to fetch an image by reference, install podman, docker or skopeo"
        in done.stderr
    )
    with pytest.raises(EnvironmentBuildFailed, match="neither a file nor a reference"):
        image_archives.fetch("--root=/", tmp_path / "x", lambda _: None, variables={})
