"""What of the file system is closed to the service's user, and what the data directory gives to that user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_gateway.errors import SettingInvalid, StartRefused
from kernel_gateway.server import data_directory
from kernel_gateway.settings import Settings
from kernels.launcher.handover import Confinement
from kernels.launcher.mount_namespace import find_closed, find_hidden, require_reach, sandboxes

UID = 61_234


@pytest.fixture
def house() -> Iterator[Path]:
    """As a home of mode 0700 with a Python somewhere below it."""
    with tempfile.TemporaryDirectory(prefix="sch", dir="/tmp") as name:
        house = Path(name)
        house.chmod(0o755)
        (house / "home/.versions/3/bin").mkdir(parents=True)
        (house / "home").chmod(0o700)
        (house / "home/.versions").chmod(0o700)
        yield house


def test_the_topmost_closed_directory_is_found_for_all_that_is_needed_below_it(house: Path) -> None:
    home, open_one = house / "home", house / "open"
    open_one.mkdir()
    needed = [home / ".versions/3", home / ".versions/3/bin", open_one]
    assert find_closed(map(str, needed), UID) == {home: needed[:2]}
    assert find_closed(map(str, needed), home.stat().st_uid) == {}


def test_a_link_is_looked_at_where_it_leads(house: Path) -> None:
    link = house / "python"
    link.symlink_to(house / "home/.versions/3")
    assert find_closed([str(link / "bin")], UID) == {house / "home": [house / "home/.versions/3/bin"]}


def test_all_but_programs_and_what_is_needed_is_hidden(house: Path) -> None:
    for name in ("usr/bin", "etc", "opt/one", "opt/two", "links"):
        (house / name).mkdir(parents=True)
    (house / "lib").symlink_to("usr/bin")
    (house / "links/two").symlink_to(house / "opt/two")
    needed = [str(house / name) for name in ("usr/bin", "opt/one", "home/.versions/3")]
    assert find_hidden(house, needed) == {
        house / "etc": [],
        house / "home": [house / "home/.versions/3"],
        house / "links": [],
        house / "opt": [house / "opt/one"],
    }
    assert set(find_hidden(house, [str(house / "links/two")])) == {house / "etc", house / "home", house / "opt"}
    assert house / "opt" not in find_hidden(house, [str(house / "opt")])


def test_what_the_users_group_may_pass_is_not_closed(house: Path) -> None:
    os.chown(house / "home", 0, UID)
    (house / "home").chmod(0o710)
    os.chown(house / "home/.versions", UID, 0)
    assert find_closed([str(house / "home/.versions/3")], UID) == {}
    (house / "home/.versions").chmod(0o077)  # the owner's part counts for the owner, however wide the rest is
    assert find_closed([str(house / "home/.versions/3")], UID) == {
        house / "home/.versions": [house / "home/.versions/3"]
    }


def test_what_is_out_of_reach_is_named(tmp_path: Path) -> None:
    require_reach([str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="gone"):
        require_reach([str(tmp_path), str(tmp_path / "gone")])


def settings(tmp_path: Path, **more: str) -> Settings:
    return Settings(data_dir=str(tmp_path / "data"), service_uid=UID, **more)  # type: ignore[arg-type]


def test_the_service_gets_its_own_directories_and_nothing_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("root's")
    data_directory.only_one(tmp_path / "data").close()
    store = tmp_path / "data/store"
    store.mkdir()
    (store / "deep").mkdir()
    (store / "deep/file").write_text("x")
    (store / "link").symlink_to(tmp_path / "precious")
    (store / "deep/hard").hardlink_to(tmp_path / "precious")
    data_directory.prepare(settings(tmp_path))
    owners = {path: path.lstat().st_uid for path in (store, *store.rglob("*"), tmp_path / "data/state")}
    assert {path.name for path, owner in owners.items() if owner != UID} == {"hard"}
    assert (tmp_path / "precious").stat().st_uid == 0
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o711


def test_what_root_left_at_the_top_of_the_store_is_given_at_the_next_start(tmp_path: Path) -> None:
    data_directory.only_one(tmp_path / "data").close()
    data_directory.prepare(settings(tmp_path))
    (tmp_path / "data/store/.incoming").mkdir()
    data_directory.prepare(settings(tmp_path))
    assert (tmp_path / "data/store/.incoming").stat().st_uid == UID


def test_a_state_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    data_directory.only_one(tmp_path / "data").close()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data/state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartRefused, match="cannot be prepared"):
        data_directory.prepare(settings(tmp_path))
    assert (tmp_path / "elsewhere").stat().st_uid == 0


def test_an_operators_store_is_taken_when_it_is_empty_and_else_asked_for(tmp_path: Path) -> None:
    data_directory.only_one(tmp_path / "data").close()
    chosen = tmp_path / "chosen"
    data_directory.prepare(settings(tmp_path, store=f"file://{chosen}"))
    assert (chosen.stat().st_uid, chosen.stat().st_mode & 0o777) == (UID, 0o700)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letters").write_text("somebody's")
    with pytest.raises(StartRefused, match=f"chown -R {UID} {other}"):
        data_directory.prepare(settings(tmp_path, store=f"file://{other}"))
    assert (other / "letters").stat().st_uid == 0


def test_one_service_at_a_time_has_the_data_directory(tmp_path: Path) -> None:
    with data_directory.only_one(tmp_path / "data"), pytest.raises(SettingInvalid, match="another service runs"):
        data_directory.only_one(tmp_path / "data")
    data_directory.only_one(tmp_path / "data").close()


def test_nobody_but_root_can_hold_the_lock_of_the_data_directory(tmp_path: Path) -> None:
    data_directory.only_one(tmp_path / "data").close()
    lock = tmp_path / "data/lock"
    lock.chmod(0o644)  # as it was made once
    data_directory.only_one(tmp_path / "data").close()
    assert (lock.stat().st_uid, lock.stat().st_mode & 0o777) == (0, 0o600)


def test_sandboxes_mounts_are_told_from_a_disk_that_is_named_as_they_are() -> None:
    one, disk = "0a1b2c3d-0000-4000-8000-00000000000a", "/media/0a1b2c3d-0000-4000-8000-00000000000b"
    views, store = "/run/sandcell/t/views", f"{disk}/with space/store"
    places = (
        "/",
        disk,
        f"{disk}/sandboxes/{one}/storage",
        f"{disk}/with\\040space",
        views,
        f"{views}/{one}",
        f"/x/{one}",
    )
    mountinfo = "".join(f"9 1 0:1 / {place} rw - ext4 none rw\n" for place in places)
    plan = Confinement(UID, [], "/", [views, store], views, "/group", 1, 2)
    assert sandboxes(mountinfo, plan) == [Path(f"/x/{one}"), Path(f"{disk}/sandboxes/{one}/storage")]
