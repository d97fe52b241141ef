"""What a sandbox installed, taken over into an image whose other files are not its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.images import layer
from kernels.images.layer import Layer, link_root

MOST = 10 << 30
SITE = "usr/lib/python3.11/site-packages"


def write(top: Path, *names: str, text: str = "new") -> Path:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def test_files_of_the_image_below_are_shared_and_never_written(tmp_path: Path) -> None:
    base = write(tmp_path / "base", f"{SITE}/shared.py", f"{SITE}/space/old.py", text="old")
    source = write(tmp_path / "w", "p/shared.py", "p/space/new.py", "p/bin/tool")
    (source / "p/bin/tool").chmod(0o755)
    os.utime(source / "p/space/new.py", ns=(1, 5_000_000_000))
    root = tmp_path / "root"
    link_root(base, root)
    Layer(root, MOST).add(source, "p", f"/{SITE}")
    Layer(root, MOST).add(source, "nothing", f"/{SITE}")
    site = root / SITE
    assert (site / "shared.py").read_text() == (base / SITE / "shared.py").read_text() == "old"
    assert (site / "shared.py").stat().st_ino == (base / SITE / "shared.py").stat().st_ino
    assert (site / "space/new.py").stat().st_mtime_ns == 5_000_000_000
    assert [(site / name).stat().st_mode & 0o777 for name in ("space/new.py", "bin/tool")] == [0o644, 0o755]
    assert sorted(each.name for each in (base / SITE).rglob("*")) == ["old.py", "shared.py", "space"]


def test_a_file_that_grows_while_it_is_taken_is_taken_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, root, fstat = write(tmp_path / "w", "p/a.py"), tmp_path / "root", os.fstat
    (root / SITE).mkdir(parents=True)

    def grow(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            os.truncate(source / "p/a.py", 1 << 40)
        return found

    monkeypatch.setattr(layer.os, "fstat", grow)
    Layer(root, MOST).add(source, "p", f"/{SITE}")
    monkeypatch.undo()
    assert (root / SITE / "a.py").read_text() == "new"


def test_links_pipes_and_what_they_lead_to_are_left_out(tmp_path: Path) -> None:
    secret = write(tmp_path / "host", "secret.py")
    source, root = write(tmp_path / "w", "p/fine.py"), tmp_path / "root"
    (source / "p/file.py").symlink_to(secret / "secret.py")
    (source / "p/directory").symlink_to(secret)
    os.mkfifo(source / "p/pipe.py")
    (root / SITE).mkdir(parents=True)
    Layer(root, MOST).add(source, "p", f"/{SITE}")
    assert [each.name for each in (root / SITE).iterdir()] == ["fine.py"]


def test_what_an_overlay_changed_is_changed_and_other_images_keep_their_files(tmp_path: Path) -> None:
    names = (
        "etc/status",
        "etc/link-now",
        "etc/gone",
        "etc/deep/gone/too",
        "usr/lib/other",
        "opt/old/file",
        "was/below",
    )
    base = write(tmp_path / "base", *names, text="old")
    (base / "lib").symlink_to("usr/lib")
    (base / "etc/alternative").symlink_to("old")
    source = write(tmp_path / "w", "p/etc/status", "p/usr/bin/tool", "p/opt/old/new", "p/lib/now", "p/was")
    (source / "p/usr/bin/tool").chmod(0o6755)
    os.chown(source / "p/usr/bin/tool", 4_000, 4_000)
    os.setxattr(source / "p/opt/old", "trusted.overlay.opaque", b"y")
    for name, target in (("etc/link-now", "/nowhere"), ("etc/alternative", "new")):
        (source / "p" / name).symlink_to(target)
    for name in ("etc/gone", "etc/deep"):
        os.mknod(source / "p" / name, stat.S_IFCHR, os.makedev(0, 0))
    os.mkfifo(source / "p/etc/pipe")
    link_root(base, root := tmp_path / "root")
    before = snapshot(base)
    Layer(root, MOST).change(source, "p")
    assert snapshot(base) == before
    assert (root / "etc/status").read_text() == "new"
    links = [(root / name).readlink() for name in ("etc/link-now", "etc/alternative")]
    assert links == [Path("/nowhere"), Path("new")]
    tool = (root / "usr/bin/tool").stat()
    assert (tool.st_mode & 0o7777, tool.st_uid) == (0o755, 0)
    found = sorted(str(each.relative_to(root)) for each in root.rglob("*") if not each.is_dir())
    assert found == [
        *("etc/alternative", "etc/link-now", "etc/status", "lib/now", "opt/old/new"),
        *("usr/bin/tool", "usr/lib/other", "was"),
    ]


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    found = {str(each): each.lstat() for each in directory.rglob("*")}
    return {name: (seen.st_ino, seen.st_mtime_ns) for name, seen in found.items()}


def test_a_link_of_an_image_is_replaced_and_never_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "kept").mkdir(parents=True)
    root.mkdir()
    for name in ("etc", "gone", "opaque", "linked"):
        (root / name).symlink_to(outside)
    source = write(tmp_path / "w", "p/etc/passwd", "p/opaque/file")
    os.setxattr(source / "p/opaque", "trusted.overlay.opaque", b"y")
    os.mknod(source / "p/gone", stat.S_IFCHR, os.makedev(0, 0))
    (source / "p/linked").symlink_to(outside)
    Layer(root, MOST).change(source, "p")
    assert [each.name for each in outside.iterdir()] == ["kept"]
    assert sorted(str(each.relative_to(root)) for each in root.rglob("*")) == [
        *("etc", "etc/passwd", "linked", "opaque", "opaque/file"),
    ]


def test_an_image_whose_directories_are_links_is_written_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    source, root = write(tmp_path / "w", "p/space/new.py"), tmp_path / "root"
    (root / "usr").mkdir(parents=True)
    (root / "usr/lib").symlink_to(outside)
    (root / "space").symlink_to(outside)
    for place in ("/usr/lib", "/usr/lib/below", "/", "/../outside", "usr", "/a\nb", ""):
        with pytest.raises(EnvironmentBuildFailed):
            Layer(root, MOST).add(source, "p", place)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(("bound", "value"), [("MOST_FILES", 2), ("MOST_LEVELS", 2)])
def test_so_much_is_taken_over_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(layer, bound, value)
    source, root = write(tmp_path / "w", "p/a/b/one.py", "p/two.py", "p/three.py"), tmp_path / "root"
    root.mkdir()
    with pytest.raises(EnvironmentBuildFailed):
        Layer(root, MOST).add(source, "p/a/..", "/x")
    (root / "x").mkdir()
    with pytest.raises(EnvironmentBuildFailed, match=r"more than|deeper than"):
        Layer(root, MOST).add(source, "p", "/x")


def test_all_that_an_image_gets_is_counted_together(tmp_path: Path) -> None:
    source, root = write(tmp_path / "w", "debian/usr/one", "python/two.py"), tmp_path / "root"
    (root / SITE).mkdir(parents=True)
    whole = Layer(root, 5)
    whole.change(source, "debian")
    with pytest.raises(EnvironmentBuildFailed, match="has more than 5 bytes"):
        whole.add(source, "python", f"/{SITE}")
    assert sorted(each.name for each in root.rglob("*") if each.is_file()) == ["one"]


def test_holes_of_a_file_stay_holes(tmp_path: Path) -> None:
    source, root = write(tmp_path / "w", "p/begins", "p/ends", "p/hole"), tmp_path / "root"
    root.mkdir()
    for name, place in (("ends", 8 << 20), ("begins", 0)):
        with (source / "p" / name).open("wb") as file:
            file.seek(place)
            file.write(b"text")
            file.truncate(9 << 20)
    os.truncate(source / "p/hole", 9 << 20)
    Layer(root, MOST).change(source, "p")
    for name in ("begins", "ends", "hole"):
        assert (root / name).read_bytes() == (source / "p" / name).read_bytes()
        assert (root / name).stat().st_blocks * 512 <= 2 << 20


def test_a_place_of_the_sandbox_that_is_none_is_said(tmp_path: Path) -> None:
    source, root = write(tmp_path / "w", "p/file"), tmp_path / "root"
    (root / "x").mkdir(parents=True)
    (source / "link").symlink_to("p")
    (source / "loop").symlink_to("loop")
    for below in ("link/below", "loop/below", "p/file/below", "../w/p", "p/\0", "p/" * 5_000):
        with pytest.raises(EnvironmentBuildFailed, match="of the sandbox cannot be opened: "):
            Layer(root, MOST).add(source, below, "/x")
    for below in ("link", "p/file"):
        with pytest.raises(EnvironmentBuildFailed, match="cannot be taken over: "):
            Layer(root, MOST).add(source, below, "/x")
    assert list((root / "x").iterdir()) == []


def test_an_image_that_cannot_be_copied_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildFailed):
        link_root(tmp_path / "nowhere", tmp_path / "root")
    assert list(tmp_path.iterdir()) == []
