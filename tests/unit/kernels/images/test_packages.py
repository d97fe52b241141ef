"""What is installed in an image: trees as Debian, Docker's Python and conda lay them out, and hostile ones."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from kernels.images import packages, reading
from kernels.images.packages import InstalledPackage, canonicalize, find_importable, read_packages

STATUS = """Package: zlib1g
Status: install ok installed
Version: 1:1.2.13.dfsg-1
Description: compression
 Package: not-a-field

Package: removed
Status: deinstall ok config-files
Version: 1

Package: jq
Version: 1.6
Status: install ok installed
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def metadata(name: str, version: str, more: str = "") -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: of-the-text\n{more}"


def read(root: Path, python: str = "/usr/bin/python3") -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.name, one.version, one.source) for one in read_packages(str(root), python)]


def test_packages_of_python_and_of_the_system_are_found_where_images_have_them(tmp_path: Path) -> None:
    local, debian = "usr/local/lib/python3.11/dist-packages", "usr/lib/python3/dist-packages"
    root = write(
        tmp_path,
        {
            f"{local}/pandas-3.1.1.dist-info/METADATA": metadata("pandas", "3.1.1"),
            f"{local}/pandas-3.1.1.dist-info/INSTALLER": "pip\n",
            f"{debian}/yaml-6.0.egg-info/PKG-INFO": metadata("PyYAML", "6.0"),
            f"{debian}/six-1.0.egg-info": metadata("six", "1.0"),
            "opt/env/lib/python3.12/site-packages/mine-1.dist-info/METADATA": metadata("mine", "1"),
            "opt/env/lib/python3.12/site-packages/mine-1.dist-info/INSTALLER": "uv",
            "opt/env/conda-meta/r-base-4.3.1-h1_0.json": "{}",
            "opt/env/conda-meta/history": "",
            "var/lib/dpkg/status": STATUS,
            "var/lib/dpkg/status.d/base": "Package: base-files\nVersion: 12\n",
        },
    )
    system = [("system", "base-files", "12", "apt"), ("system", "jq", "1.6", "apt")]
    zlib = ("system", "zlib1g", "1:1.2.13.dfsg-1", "apt")
    python = [("python", "PyYAML", "6.0", ""), ("python", "pandas", "3.1.1", "pip"), ("python", "six", "1.0", "")]
    assert read(root) == [*python, *system, zlib]
    assert read(root, "/opt/env/bin/python") == [
        ("python", "PyYAML", "6.0", ""),
        ("python", "mine", "1", "pip"),
        *python[1:],
        *system,
        ("system", "r-base", "4.3.1", "conda"),
        zlib,
    ]


def test_of_a_package_that_is_there_twice_an_interpreter_imports_the_first(tmp_path: Path) -> None:
    own, shared = "opt/env/lib/python3.12/site-packages", "usr/lib/python3/dist-packages"
    root = write(
        tmp_path,
        {
            f"{own}/typing_ext-4.dist-info/METADATA": metadata("Typing.Ext", "4"),
            f"{shared}/typing_ext-3.egg-info": metadata("typing_ext", "3"),
            f"{shared}/six-1.egg-info/PKG-INFO": metadata("six", "1"),
        },
    )
    assert find_importable(str(root), [f"/{own}", f"/{shared}"]) == {"typing-ext": "4", "six": "1"}
    assert find_importable(str(root), [f"/{shared}", "/nowhere"]) == {"typing-ext": "3", "six": "1"}


def test_an_image_that_is_gone_has_none(tmp_path: Path) -> None:
    assert read(tmp_path / "nowhere") == read(tmp_path) == []


def test_nothing_outside_of_a_hostile_image_is_read(tmp_path: Path) -> None:
    host = write(tmp_path / "host", {"METADATA": metadata("secret", "1"), "dir/x-1.dist-info/METADATA": "Name: y"})
    site = tmp_path / "root/usr/lib/python3.11/site-packages"
    for name in ("linked", "pipe", "climbing"):
        (site / f"{name}-1.dist-info").mkdir(parents=True)
    (site / "linked-1.dist-info/METADATA").symlink_to(host / "METADATA")
    (site / "climbing-1.dist-info/METADATA").symlink_to("../../../../../../host/METADATA")
    (site / "all-1.dist-info").symlink_to(host)
    os.mkfifo(site / "pipe-1.dist-info/METADATA")
    (tmp_path / "root/usr/local").symlink_to(host / "dir")
    dpkg = tmp_path / "root/var/lib/dpkg"
    dpkg.mkdir(parents=True)
    (dpkg / "status").symlink_to(host / "METADATA")
    (dpkg / "status.d").mkdir()
    (dpkg / "status.d/loop").symlink_to("loop")
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    assert read(tmp_path / "root") == read(tmp_path / "root", "../../bin/python") == []
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_names_and_versions_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    site = "usr/lib/python3.11/site-packages"
    odd = ["", "-x", "a b", "a\x1b[31m", "x" * 101, "é", "<b>", "a/b"]
    files = {f"{site}/n{at}-1.dist-info/METADATA": metadata(name, "1") for at, name in enumerate(odd)}
    files |= {f"{site}/v{at}-1.dist-info/METADATA": metadata("fine", version) for at, version in enumerate(odd)}
    files[f"{site}/good-1.dist-info/METADATA"] = metadata("good.name_x", "1.0rc1+local.2", "x" * 1_000_000)
    files[f"{site}/bytes-1.dist-info/METADATA"] = "\udcff"
    root = tmp_path
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read(root) == [("python", "good.name_x", "1.0rc1+local.2", "")]


def test_so_many_are_read_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = "usr/lib/python3.11/site-packages"
    write(tmp_path, {f"{site}/p{at}-1.dist-info/METADATA": metadata(f"p{at}", "1") for at in range(5)})
    monkeypatch.setattr(packages, "MOST_PACKAGES", 3)
    assert len(read(tmp_path)) == 3


def test_packages_that_are_not_installed_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n \n\n"
    root = write(tmp_path, {"var/lib/dpkg/status": removed * 3 + STATUS})
    monkeypatch.setattr(packages, "MOST_PACKAGES", 4)
    assert read(root) == [("system", "zlib1g", "1:1.2.13.dfsg-1", "apt")]


def test_one_file_with_many_names_is_read_until_so_much_is_read_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = tmp_path / "var/lib/dpkg/status.d"
    write(parts, {"0-first": "Package: first\nVersion: 1\n", "large": "Package: large\nVersion: 2\n\n"})
    os.truncate(parts / "large", 16 << 20)
    for at in range(4):
        (parts / f"large-{at}").hardlink_to(parts / "large")
    write(parts, {"x-last": "Package: last\nVersion: 3\n"})
    assert [name for _, name, _, _ in read(tmp_path)] == ["first", "large"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the image {tmp_path} has more to read than is read of one: the rest is left out"
    ]


@pytest.mark.parametrize(("most", "found"), [(9, 2), (6, 1), (4, 0)])
def test_so_many_files_are_looked_at_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, found: int
) -> None:
    site = "usr/lib/python3.11/site-packages"
    write(tmp_path, {f"{site}/p{at}-1.dist-info/METADATA": metadata(f"p{at}", "1") for at in range(4)})
    monkeypatch.setattr(reading, "MOST_FILES", most)
    assert len(find_importable(str(tmp_path), [site])) == found


def test_small_files_take_little_memory(tmp_path: Path) -> None:
    root = write(tmp_path, {"var/lib/dpkg/status": "Package: curl\nStatus: install ok installed\nVersion: 8.0-1\n"})
    tracemalloc.start()
    try:
        assert read(root) == [("system", "curl", "8.0-1", "apt")]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_names_are_compared_as_indexes_do() -> None:
    assert canonicalize("Foo.Bar__baz") == canonicalize("foo-bar_baz") == "foo-bar-baz"
    assert InstalledPackage("python", "a", "1") < InstalledPackage("system", "a", "1")
