"""The script that adds Debian packages in a sandbox, up to where apt and dpkg begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.images import debian_packages
from kernels.images.debian_packages import fetch, fill_in, find_reason, put_aside, run

RELEASE = 'ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian"\n'


def test_an_image_without_apt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_packages, "PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"the image has no apt \(apt-get is missing\)"):
        fetch(tmp_path / "place", "http://deb.example.org/debian {codename} main", "jq")
    assert list(tmp_path.iterdir()) == []


def test_sources_are_of_the_images_release_and_signed_by_the_keys_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = "http://deb.example.org/debian {codename}-updates main\n[trusted=yes] http://x:8000 stable main"
    monkeypatch.setattr(debian_packages, "KEYRING", str(tmp_path / "keyring.gpg"))
    first, second = fill_in(sources, RELEASE).splitlines()
    assert first == "deb http://deb.example.org/debian trixie-updates main"
    assert second == "deb [trusted=yes] http://x:8000 stable main"
    (tmp_path / "keyring.gpg").touch()
    first, second = fill_in(sources, RELEASE.replace("trixie", '"trixie"')).splitlines()
    assert first == f"deb [signed-by={tmp_path}/keyring.gpg] http://deb.example.org/debian trixie-updates main"
    assert second == "deb [trusted=yes] http://x:8000 stable main"


def test_a_release_without_a_name_needs_sources_that_have_none() -> None:
    with pytest.raises(SystemExit, match="no VERSION_CODENAME"):
        fill_in("http://deb.example.org/debian {codename} main", "ID=debian\n")
    assert fill_in("[trusted=yes] http://x stable main", "ID=debian\n") == "deb [trusted=yes] http://x stable main\n"


def test_what_failed_is_told_from_the_first_error_on() -> None:
    with pytest.raises(SystemExit) as ended:
        run(["sh", "-c", "echo 'Reading ...'; echo 'E: Unable to locate package x' >&2; exit 100"], "it failed")
    assert ended.value.code == "it failed:\nE: Unable to locate package x"
    with pytest.raises(SystemExit) as ended:
        run(["sh", "-c", "echo something else; exit 1"], "it failed")
    assert ended.value.code == "it failed:\nsomething else"


SAID = """\
Setting up libfine (1.0-1) ...
Setting up broken:amd64 (1.0-1) ...
a word before
no licence in this house
dpkg: error processing package broken:amd64 (--configure):
 installed broken package post-installation script subprocess returned error exit status 3
Setting up other (1.0-1) ...
dpkg: error processing package other (--configure):
 installed other package post-installation script subprocess was killed by signal (Killed)
Errors were encountered while processing:
 broken:amd64
 other
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "broken:amd64",
            "installed broken package post-installation script subprocess returned error exit status 3;"
            " no licence in this house",
        ),
        ("other", "installed other package post-installation script subprocess was killed by signal (Killed)"),
        ("unheard", "its script failed"),
    ],
)
def test_a_package_whose_script_failed_is_named_with_what_the_script_said_last(name: str, reason: str) -> None:
    assert find_reason(SAID, name) == reason


def test_a_script_that_failed_is_put_aside_under_the_name_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian_packages, "INFO", tmp_path)
    for name in ("libfine:amd64.postinst", "broken.postinst"):
        (tmp_path / name).write_text("exit 3")
    for package in ("libfine:amd64", "broken:amd64", "without-script"):
        put_aside(package)
    kept = sorted(path.name for path in tmp_path.iterdir() if path.read_text() == "exit 3")
    assert kept == ["broken.postinst.failed", "libfine:amd64.postinst.failed"]
    assert (tmp_path / "broken.postinst").stat().st_mode & 0o777 == 0o755
