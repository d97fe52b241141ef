"""Layers of every kind of entry, in every order: what is made lies in the root, is root's, and harms nothing."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import EnvironmentBuildFailed
from kernels.oci import image_layers

PARTS = ("a", "b", "link", "etc", "..", ".", "", "tmp", ".wh.a", ".wh.link", ".wh..wh..opq", ".wh.", "x" * 300)
KINDS = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE),
    *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE),
)
names = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join)
targets = st.one_of(names, st.sampled_from(["/", "@", "../" * 30 + "@", "/proc/self/cwd", "/etc/passwd", ""]))


@st.composite
def entries(draw: st.DrawFn) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(draw(names))
    found.type = draw(st.sampled_from(KINDS))
    found.mode = draw(st.integers(0, 0o7777))
    found.uid = draw(st.sampled_from([0, 1000, 2**31]))
    found.linkname = draw(targets)
    found.mtime = draw(st.sampled_from([0, 1_600_000_000, -1]))
    content = draw(st.binary(max_size=40)) if found.isreg() else b""
    found.size = len(content)
    if draw(st.booleans()):
        found.pax_headers = {"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}
    return found, content


def write(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], outside: Path) -> None:
    """The layer; `@` in a link is the place outside, as the host has it."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as layer:
        for member, content in members:
            member.linkname = member.linkname.replace("@", str(outside))
            layer.addfile(member, io.BytesIO(content))


@settings(max_examples=15, deadline=None)
@given(layers=st.lists(st.lists(entries(), max_size=12), min_size=1, max_size=2))
def test_whatever_a_layer_holds_nothing_outside_the_root_changes(
    layers: list[list[tuple[tarfile.TarInfo, bytes]]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        root, outside = place / "root", place / "outside"
        for each in (root, outside):
            each.mkdir()
        (outside / "kept").write_text("as it was")
        before = sorted(
            (str(path), path.lstat().st_mode, path.lstat().st_nlink) for path in [outside, *outside.iterdir()]
        )
        for number, members in enumerate(layers):
            write(place / f"{number}.tar", members, outside)
            with contextlib.suppress(EnvironmentBuildFailed):
                image_layers.add_layer(place / f"{number}.tar", root)
        after = sorted(
            (str(path), path.lstat().st_mode, path.lstat().st_nlink) for path in [outside, *outside.iterdir()]
        )
        assert after == before
        assert (outside / "kept").read_text() == "as it was"
        for path in (root, *root.rglob("*")):
            seen = path.lstat()
            assert (seen.st_uid, seen.st_gid) == (0, 0)
            assert stat.S_IFMT(seen.st_mode) in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
            assert stat.S_ISLNK(seen.st_mode) or not seen.st_mode & 0o7022
            assert "security.capability" not in os.listxattr(path, follow_symlinks=False)
