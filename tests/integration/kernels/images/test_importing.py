"""Images from archives and into them: what is kept, what hostile layers are left to, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.environment import Environment, NetworkMode
from kernels.errors import EnvironmentBuildFailed, UnknownEnvironment
from kernels.images import importing, sources
from kernels.images.importing import Import
from kernels.launcher.checks import Bounds, Checks
from kernels.launcher.wire import Create
from kernels.oci import environments, image_archives, image_layers, unpacking
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


def bare(size: int, format: int) -> bytes:  # noqa: A002 - as tarfile calls it
    """A header that declares so many bytes, and none of them."""
    return member("x", size=size)[0].tobuf(format)


def layer(*members: Entry, first: bytes = b"") -> bytes:
    packed = io.BytesIO(first)
    packed.seek(len(first))
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


def take_source(
    source: str, wanted: Import, directory: Path, progress: Callable[[str], None] = lambda _line: None
) -> Environment:
    variables = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1"}  # nothing here is to be fetched
    with sources.open_source(source, progress, variables=variables) as opened:
        wanted = replace(wanted, reference=opened.reference, variables=variables)
        return importing.import_image(opened.parts, wanted, directory, progress)


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., Environment]:
    """Import an archive as `own` into a directory of the test's own."""

    def take(archive: Path, name: str = "own", python: str = "") -> Environment:
        return take_source(str(archive), Import(name, python), tmp_path / "environments")

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
    assert environments.find_installed(tmp_path / "environments") == {"own": found}
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
    bounds = Bounds(memory_mb=2048, storage_mb=512, pids=64, vcpus=2.0, sandboxes=3, runtimes=("runc",))
    request = Create(
        "f9a0947f-0bce-4b68-9cf0-1fe53c27111e",
        "own",
        found.digest,
        1,
        "x",
        2048,
        512,
        64,
        1.0,
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
        "the layer cannot be unpacked at '/way': File exists",
    ),
    "a file that is far larger than what is read of it": (
        [member("x", b"y", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": str(100 << 20)})],
        "sparse",
    ),
    "a header that declares more than is ever needed": (
        [member("x", pax_headers={"comment": "x" * (1 << 20)})],
        "a header of 1,048,[0-9]+ bytes",
    ),
    "a file of less than no bytes": (bare(-512, tarfile.GNU_FORMAT), "a file of -512 bytes"),
    "a file of less than no bytes, by an extended header": (bare(-1024, tarfile.PAX_FORMAT), "a file of -1024 bytes"),
    "a timestamp that is none": ([member("x", b"y", mtime=1 << 70)], "timestamp out of range"),
    "headers of headers": (member("x", kind=tarfile.XHDTYPE)[0].tobuf(tarfile.USTAR_FORMAT) * 1500, "recursion"),
    "directories that Python does not go down": (
        [member(f"{'d/' * 1200}x", b"x")],
        "recursion",
    ),
    "a hard link to the host's": ([member("x", kind=tarfile.LNKTYPE, linkname="/etc/hostname")], "No such file"),
}


@pytest.mark.parametrize("name", BAD_LAYERS)
def test_a_layer_that_reaches_out_is_refused_and_leaves_nothing(
    take: Callable[..., Environment], tmp_path: Path, name: str
) -> None:
    members, reason = BAD_LAYERS[name]
    bad = layer(*BASE, first=members) if isinstance(members, bytes) else layer(*BASE, *members)
    with pytest.raises(EnvironmentBuildFailed, match=reason) as refused:
        take(oci(tmp_path / "image.tar", config(bad), bad))
    assert "\n" not in str(refused.value)
    assert sorted(path.name for path in (tmp_path / "environments/own").iterdir()) == [".lock"]


def test_what_is_not_what_it_says_is_refused(take: Callable[..., Environment], tmp_path: Path) -> None:
    base, other, place = layer(*BASE), layer(*BASE, member("more", b"x")), tmp_path / "image.tar"
    zstd = b"\x28\xb5\x2f\xfd" + bytes(100)
    damaged = gzip.compress(base)[:10] + bytes([255]) * 100
    cut = oci(tmp_path / "cut.tar", config(base), base)
    cut.write_bytes(cut.read_bytes()[:1500])
    (tmp_path / "no.tar").write_bytes(b"no archive" * 100)
    (tmp_path / "whole.tar.xz").write_bytes(lzma.compress(cut.read_bytes() * 100, preset=0))
    damaged_xz = bytearray((tmp_path / "whole.tar.xz").read_bytes())
    damaged_xz[-100:] = bytes([255]) * 100
    (tmp_path / "damaged.tar.xz").write_bytes(damaged_xz)
    (tmp_path / "image.tar.zst").write_bytes(zstd)
    for archive, reason in (
        (lambda: oci(place, config(base), other), "its digest differs"),
        (lambda: oci(place, config(base, base), base), "other layers than its manifest"),
        (lambda: oci(place, config(base, architecture="s390x"), base), "is for s390x"),
        (lambda: oci(place, config(zstd), zstd, compressed=False), "zstd"),
        (lambda: oci(place, config(damaged), damaged, compressed=False), "cannot be imported"),
        (lambda: oci(place, config(layer(*PYTHON)), layer(*PYTHON)), "ipykernel for Python 3.11 could not be fetched"),
        (
            lambda: oci(place, config(layer(BASE[2])), layer(BASE[2])),
            "no python3 in /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; install Python 3.9 to 3.14",
        ),
        (lambda: pack(place, {"x": b""}), "neither an OCI archive nor"),
        (lambda: pack(place, {"index.json": b"{"}), "cannot be imported"),
        (lambda: pack(place, {"manifest.json": b"[]"}), "holds no images"),
        (lambda: cut, "cannot be imported|or a damaged one"),
        (lambda: tmp_path / "no.tar", "is no tar archive, or a damaged one"),
        (lambda: tmp_path / "damaged.tar.xz", "is no tar archive, or a damaged one"),
        (lambda: tmp_path / "image.tar.zst", "compressed by zstd"),
        (lambda: pack(place, {"index.json": b'{"manifests": ' + b"[" * 100_000}), "cannot be imported"),
        (lambda: oci(place, config(*[base] * 501), *[base] * 501), "501 layers"),
    ):
        with pytest.raises(EnvironmentBuildFailed, match=reason) as refused:
            take(archive())
        assert "\n" not in str(refused.value)
    assert environments.find_installed(tmp_path / "environments") == {}
    with pytest.raises(EnvironmentBuildFailed, match="with --name"):
        take(oci(place, config(base), base), name="")
    with pytest.raises(EnvironmentBuildFailed, match=r"'\.\./\.\./etc' is no name for an environment"):
        take(place, name="../../etc")


def test_an_archive_that_declares_much_is_refused_before_it_is_read(
    take: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be compressed: then a few bytes of it may become any number."""
    place, wide = tmp_path / "image.tar.xz", member("x", pax_headers={"comment": "x" * (1 << 20)})
    sparse = member("x", b"1\n" * 256, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    for archive, reason in (
        (layer(wide), "a header of 1,048,[0-9]+ bytes"),
        (layer(member("x"), wide), "a header of 1,048,[0-9]+ bytes"),
        (layer(sparse), "sparse"),
        (layer(member("x", kind=tarfile.GNUTYPE_SPARSE)), "sparse"),
        (layer(member("x"), first=bare(-512, tarfile.GNU_FORMAT)), "a file of -512 bytes"),
        (layer(member("x"), first=bare(-1024, tarfile.PAX_FORMAT)), "a file of -1024 bytes"),
        (layer(member("x"), first=bare(1 << 50, tarfile.GNU_FORMAT)), "larger than 68,719 MB"),
        (layer(member("x"), first=BAD_LAYERS["headers of headers"][0]), "recursion"),
    ):
        place.write_bytes(lzma.compress(archive, preset=0))
        with pytest.raises(EnvironmentBuildFailed, match=reason):
            take(place)
    monkeypatch.setattr(unpacking.Archive, "most_files", 3)
    place.write_bytes(lzma.compress(layer(*(member(str(number)) for number in range(4)))))
    with pytest.raises(EnvironmentBuildFailed, match="more than 3 files"):
        take(place)


def test_the_files_of_all_layers_count_together(
    take: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, more = layer(*BASE), layer(member("x"), member("y"))
    monkeypatch.setattr(image_layers, "_MOST_FILES", 5)
    take(oci(tmp_path / "image.tar", config(base, more), base, more))
    with pytest.raises(EnvironmentBuildFailed, match="more than 5 files"):
        take(oci(tmp_path / "image.tar", config(base, more, layer(member("z"))), base, more, layer(member("z"))))


def test_nothing_stays_of_a_tree_that_is_deeper_than_python_goes(
    take: Callable[..., Environment], tmp_path: Path
) -> None:
    """Through links a few short names make it."""
    steps: list[Entry] = []
    for number in range(4):
        above, below = f"link{number}" if number else "deep", "d/" * 400
        steps += [
            member(f"{above}/{below}x", b"x"),
            member(f"link{number + 1}", kind=tarfile.SYMTYPE, linkname=f"{above}/{below}"),
        ]
    bad = layer(*BASE, *steps, member("../escaped"))
    try:
        with pytest.raises(EnvironmentBuildFailed, match="leads out of it"):
            take(oci(tmp_path / "image.tar", config(bad), bad))
        assert sorted(path.name for path in (tmp_path / "environments/own").iterdir()) == [".lock"]
    finally:  # pytest's own cleanup cannot go down there either
        subprocess.run(["rm", "-rf", str(tmp_path / "environments")], check=True)


def test_links_of_an_image_are_followed_inside_it(take: Callable[..., Environment], tmp_path: Path) -> None:
    links = {"usr/bin/python3": "/opt/python/bin/python3", "opt/python": "/srv/py", "srv/py/lib": "/srv/lib"}
    inside = layer(
        *(member(name, kind=tarfile.SYMTYPE, linkname=target) for name, target in links.items()),
        member("srv/py/bin/python3", kind=tarfile.SYMTYPE, linkname="../../../../srv/py/bin/python3.13"),
        member("srv/py/bin/python3.13", b"#!", mode=0o755),
        member("srv/lib/python3.13/site-packages/ipykernel/__init__.py"),
    )
    assert take(oci(tmp_path / "image.tar", config(inside), inside)).python == "/usr/bin/python3"
    host = tmp_path / "host/dist-packages/ipykernel/__init__.py"
    host.parent.mkdir(parents=True)
    host.touch()
    outside = layer(*PYTHON, member("usr/lib/python3", kind=tarfile.SYMTYPE, linkname=str(tmp_path / "host")))
    with pytest.raises(EnvironmentBuildFailed, match=r"ipykernel for Python 3\.11 could not"):
        take(oci(tmp_path / "image.tar", config(outside), outside))
    shell = layer(*BASE[1:], member("usr/bin/python3.11", kind=tarfile.SYMTYPE, linkname="../" * 40 + "bin/sh"))
    with pytest.raises(EnvironmentBuildFailed, match="no python3 in /usr/local/sbin:"):
        take(oci(tmp_path / "image.tar", config(shell), shell))


def layout(place: Path, *manifests: dict[str, Any], blobs: tuple[bytes, ...] = ()) -> Path:
    """An OCI image layout, as a directory."""
    (place / "blobs/sha256").mkdir(parents=True)
    for each in blobs:
        (place / "blobs/sha256" / sha(each)[7:]).write_bytes(each)
    (place / "index.json").write_text(json.dumps({"manifests": manifests}))
    return place


def manifest_of(settings: bytes, *layers: bytes) -> bytes:
    return json.dumps(
        {"config": {"digest": sha(settings)}, "layers": [{"digest": sha(each)} for each in layers]}
    ).encode()


def test_of_an_index_the_image_for_this_host_is_taken_and_of_several_the_one_that_is_named(
    take: Callable[..., Environment], tmp_path: Path
) -> None:
    base, more = layer(*BASE), layer(*BASE, member("more"))
    here, other = config(base), config(more)
    ours, theirs = manifest_of(here, base), manifest_of(other, more)
    index = json.dumps(
        {
            "manifests": [
                {"digest": sha(theirs), "platform": {"architecture": "s390x", "os": "linux"}},
                {"digest": sha(theirs), "platform": {"architecture": MACHINE, "os": "windows"}},
                {"digest": sha(theirs), "platform": {"architecture": "unknown", "os": "unknown"}},
                {"digest": sha(ours), "platform": {"architecture": MACHINE, "os": "linux"}},
            ]
        }
    ).encode()
    blobs = (base, more, here, other, ours, theirs, index)
    found = take(Path(f"oci:{layout(tmp_path / 'index', {'digest': sha(index)}, blobs=blobs)}"))
    assert found.digest == sha(here)
    named = [
        {"digest": sha(each), "annotations": {"org.opencontainers.image.ref.name": name}}
        for name, each in (("one", ours), ("two", theirs))
    ]
    several = layout(tmp_path / "several", *named, blobs=blobs)
    with pytest.raises(EnvironmentBuildFailed, match=f"2 images for linux/{MACHINE}; name one"):
        take(Path(f"oci:{several}"))
    assert take(Path(f"oci:{several}:two"), "two").digest == sha(other)
    foreign = layout(
        tmp_path / "foreign", {"digest": sha(theirs), "platform": {"architecture": "arm", "os": "linux"}}, blobs=blobs
    )
    with pytest.raises(EnvironmentBuildFailed, match=f"no image for linux/{MACHINE}; there are: linux/arm$"):
        take(Path(f"oci:{foreign}"))


def test_in_a_directory_no_link_is_followed_and_no_pipe_waited_for(
    take: Callable[..., Environment], tmp_path: Path
) -> None:
    base, secret = layer(*BASE), tmp_path / "secret"
    settings = config(base)
    manifest = manifest_of(settings, base)
    secret.write_bytes(settings)
    place = layout(tmp_path / "image", {"digest": sha(manifest)}, blobs=(base, manifest))
    blob = place / "blobs/sha256" / sha(settings)[7:]
    blob.symlink_to(secret)
    with pytest.raises(EnvironmentBuildFailed, match="cannot be imported"):
        take(Path(f"oci:{place}"))
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(EnvironmentBuildFailed, match="is no file"):
        take(Path(f"oci:{place}"))
    blob.unlink()
    blob.write_bytes(settings)
    assert take(Path(f"oci:{place}")).digest == sha(settings)


def test_a_root_file_system_becomes_an_image(take: Callable[..., Environment], tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("usr/bin", "usr/lib/python3/dist-packages/ipykernel"):
        (root / name).mkdir(parents=True)
    (root / "usr/bin/python3.12").touch(0o755)
    (root / "usr/bin/python3").symlink_to("python3.12")
    (root / IPYKERNEL).touch()
    os.mkfifo(root / "pipe")
    found = take(Path(f"dir:{root}"))
    assert Path(found.root, "usr/bin/python3").readlink() == Path("python3.12")
    assert not Path(found.root, "pipe").exists()
    for source, reason in (
        (f"dir:{root}/usr/bin/python3", "is no directory"),
        ("oci-archive:/none.tar", "no file /none"),
        ("none.tar", r"no file none\.tar$"),
    ):
        with pytest.raises(EnvironmentBuildFailed, match=reason):
            take(Path(source))


def python(minor: int, prefix: str = "usr") -> list[Entry]:
    return [
        member(f"{prefix}/bin/python3.{minor}", b"#!", mode=0o755),
        member(f"{prefix}/bin/python3", kind=tarfile.SYMTYPE, linkname=f"python3.{minor}"),
        member(f"{prefix}/lib/python3.{minor}/site-packages/ipykernel/__init__.py"),
    ]


def settings_of(*layers: bytes, **settings: Any) -> bytes:
    ids = {"type": "layers", "diff_ids": [sha(each) for each in layers]}
    return json.dumps({"architecture": MACHINE, "os": "linux", "rootfs": ids, "config": settings}).encode()


def test_its_python_is_the_first_on_its_path_that_will_do(take: Callable[..., Environment], tmp_path: Path) -> None:
    for number, (layers, path, expected) in enumerate(
        (
            ([*python(8), *python(13, "opt/conda")], "/usr/bin:/opt/conda/bin", "/opt/conda/bin/python3"),
            ([*python(9)], "", "/usr/bin/python3"),
            ([*python(14, "x"), *python(11)], "relative:/x/bin:/usr/bin", "/x/bin/python3"),
        )
    ):
        base = layer(*layers)
        archive = oci(tmp_path / f"{number}.tar", settings_of(base, Env=[f"PATH={path}", "A=b=c"]), base)
        found = take(archive, f"own{number}")
        assert (found.python, dict(found.variables)) == (expected, {"PATH": path, "A": "b=c"})
    refused = (
        (python(8), {}, "is Python 3.8; install Python 3.9 to 3.14"),
        (python(15), {}, "is Python 3.15; install Python 3.9 to 3.14"),
        (python(11), {"Env": ["PATH=/opt/bin"]}, "no python3 in /opt/bin; install Python 3.9 to 3.14"),
        (python(11), {"Labels": {"io.sandcell.python": "usr/bin/python3"}}, "has no usr/bin/python3; install Python"),
        (python(11), {"Env": ["no name=x"]}, "ENV is not usable"),
        (python(11), {"Env": ["A=" + "x" * 70_000]}, "ENV is not usable"),
        (python(11), {"User": "web"}, "USER is 'web', which its /etc/passwd does not have"),
        (python(11), {"User": "70000:5"}, "USER is 70000; a sandbox has users 0 to 65535"),
    )
    for members, settings, reason in refused:
        base = layer(*members)
        with pytest.raises(EnvironmentBuildFailed, match=reason):
            take(oci(tmp_path / "bad.tar", settings_of(base, **settings), base))
    base = layer(*python(11))
    foreign = json.loads(settings_of(base)) | {"os": "windows"}
    with pytest.raises(EnvironmentBuildFailed, match="the image is for windows; sandboxes run images for linux"):
        take(oci(tmp_path / "bad.tar", json.dumps(foreign).encode(), base))


def test_two_environments_of_one_image_store_its_files_once(take: Callable[..., Environment], tmp_path: Path) -> None:
    base = layer(*BASE, member("usr/bin/tool", b"#!", mode=0o4755))
    archive = oci(tmp_path / "image.tar", config(base), base)
    first, second = take(archive, "first"), take(archive, "second")
    assert (first.digest, first.python) == (second.digest, second.python)
    assert [each.name for each in (first, second)] == ["first", "second"]
    assert Path(first.root, IPYKERNEL).samefile(Path(second.root, IPYKERNEL))
    assert tree(Path(first.root)) == tree(Path(second.root))
    assert take(archive, "second") == second
    subprocess.run(["rm", "-rf", str(Path(first.root).parent)], check=True)
    assert Path(second.root, IPYKERNEL).read_text() == "__version__ = '7'\n"


def test_another_python_of_an_image_is_another_environment(take: Callable[..., Environment], tmp_path: Path) -> None:
    base = layer(*python(11), *python(13, "opt/conda"))
    archive = oci(tmp_path / "image.tar", settings_of(base), base)
    first, other = take(archive), take(archive, python="/opt/conda/bin/python3.13")
    assert (first.python, other.python) == ("/usr/bin/python3", "/opt/conda/bin/python3.13")
    assert first.digest != other.digest
    assert take(archive) == first
    (Path(first.root).parent / "environment.json").write_text(
        json.dumps(  # as a version wrote it that kept no origin
            {"name": "own", "digest": first.digest, "description": "", "python": first.python}
        )
    )
    assert take(archive).root == first.root
    assert [path.name for path in (tmp_path / "environments/own").glob(".*")] == [".lock"]


def test_what_the_images_user_may_read_code_may_read(take: Callable[..., Environment], tmp_path: Path) -> None:
    base = layer(
        *python(11),
        member("etc/passwd", b"root:x:0:0::/:/bin/sh\nweb:x:1234:1234::/srv:/bin/sh\n"),
        member("srv", kind=tarfile.DIRTYPE, mode=0o700, uid=1234),
        member("srv/settings", b"x", mode=0o640, uid=1234),
        member("etc/shadow", b"x", mode=0o640),
    )
    root = Path(take(oci(tmp_path / "image.tar", settings_of(base, User="web"), base)).root)
    modes = [(root / name).stat().st_mode & 0o7777 for name in ("srv", "srv/settings", "etc/shadow")]
    assert modes == [0o705, 0o644, 0o640]


def unpacks() -> bool:
    """Whether a child of this process is unpacking a layer; one that has ended has no command line any more."""
    children = [number for each in Path("/proc/self/task").glob("*/children") for number in each.read_text().split()]
    return any(b"unpacking.py" in _read_command(number) for number in children)


def _read_command(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_layer_that_takes_too_long_is_given_up(
    take: Callable[..., Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = layer(*BASE, member("large", bytes(image_layers._PIECE)))
    archive = oci(tmp_path / "image.tar", config(base), base)
    monkeypatch.setattr(image_layers, "_STEP_SECONDS", 1)
    monkeypatch.setattr(image_layers, "_SAY_SECONDS", -1.0)

    def wait(line: str) -> None:
        while "unpacked" in line and unpacks():
            time.sleep(0.05)

    with pytest.raises(EnvironmentBuildFailed, match="did not end in 1 s"):
        take_source(str(archive), Import("own"), tmp_path / "environments", wait)


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
    made = take_source(str(oci(tmp_path / "a.tar", config(base), base)), Import("python"), here)
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
    assert environments.find_installed(there)["python"].digest == found.digest
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
        take_source("--root=/", Import("own"), tmp_path)


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentBuildFailed, match=r"skopeo is missing: install .* \(apt-get install skopeo\)"):
        take_source("docker://registry.example/own@sha256:" + "0" * 64, Import("own"), tmp_path)
    with (
        pytest.raises(EnvironmentBuildFailed, match=r"buildah is missing: install .* \(apt-get install buildah\)"),
        sources.build_source(tmp_path, lambda _line: None, variables={}),
    ):
        pytest.fail("there is no buildah")
    with (
        pytest.raises(EnvironmentBuildFailed, match=r"there is no .*/none"),
        sources.build_source(tmp_path / "none", lambda _line: None, variables={}),
    ):
        pytest.fail("there is no such directory")


def test_a_tool_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin/podman"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexec sleep 987654\n")
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(sources, "_QUESTION_SECONDS", 0.1)
    with pytest.raises(EnvironmentBuildFailed, match=r"podman image failed: .* timed out after 0\.1 seconds"):
        take_source("own:1", Import("own"), tmp_path)
