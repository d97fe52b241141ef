"""The token that `sandcell serve` saves: the client finds it, and only its user may read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernel_gateway.server.token_file import open_token_file
from kernels.launcher.token_file import TokenFile
from sandcell.saved import Address, find_address
from sandcell.settings import read_settings

URL = "http://127.0.0.1:1234"
TOKEN = 'a"token\\'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's settings are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "deep/config"))
    for name in ("SANDCELL_URL", "SANDCELL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "deep/config"


def save() -> Path:
    """What the service and its launcher do at a first start."""
    opened = open_token_file()
    assert opened.error == ""
    try:
        TokenFile(opened.plan(URL)).save(TOKEN)
        assert opened.holds_one()
    finally:
        os.close(opened.descriptor)
    return Path(opened.path)


def test_what_is_saved_is_found_again_and_private(config: Path) -> None:
    path = save()
    assert path == config / "sandcell/client.toml"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert find_address(settings=read_settings()) == Address(URL, TOKEN)


@pytest.mark.parametrize("made", ["nothing", "by root"])
def test_what_root_saves_in_a_users_home_is_the_users(config: Path, tmp_path: Path, made: str) -> None:
    """As under sudo, where the home is the caller's and the process root's; also in a directory of an earlier start."""
    owned = tmp_path
    if made == "by root":
        (config / "sandcell").mkdir(parents=True)
        owned = config
    os.chown(owned, 1234, 1234)
    path = save()
    ours = {path, *path.parents} - {owned, *owned.parents}
    assert {(each.stat().st_uid, each.stat().st_gid) for each in ours} == {(1234, 1234)}
