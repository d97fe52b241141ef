"""The script that adds Debian packages in a sandbox, up to where apt and dpkg begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernel_gateway.installation import debian_packages
from kernel_gateway.installation.debian_packages import fill_in, is_of_image, main, run

RELEASE = 'ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian"\n'


def test_an_image_without_apt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_packages, "PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"the image has no apt \(apt-get is missing\)"):
        main(tmp_path / "place", "http://deb.example.org/debian {codename} main", "jq")
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


def test_a_script_of_another_size_or_time_is_not_the_images(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    assert not is_of_image(one, other)
    other.write_text("b")
    os.utime(other, (1, 1))
    assert not is_of_image(one, other)
    os.utime(one, (1, 1))
    assert is_of_image(one, other)
