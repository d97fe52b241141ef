"""Secrets at rest: what seals them, where its key lies, and what ids and secrets look like."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from kernel_gateway.errors import StartRefused
from kernel_gateway.identity.access_key import KEY_ID, SEALING_KEY, SECRET, new_key_id, new_secret
from kernel_gateway.identity.sealing import CannotOpen, Sealing, key_in
from sandcell.models.credentials import AccessKeyInfo, TokenInfo

KEY_TEXT = "00112233445566778899aabbccddeeff" * 2


def test_what_is_sealed_opens_again_and_is_never_the_same_twice() -> None:
    sealing = Sealing(KEY_TEXT)
    first, second = sealing.seal("a secret", "SCAK1"), sealing.seal("a secret", "SCAK1")
    assert first != second
    assert b"a secret" not in first
    assert Sealing(KEY_TEXT.upper()).open(first, "SCAK1") == "a secret"


@pytest.mark.parametrize("place", range(0, 36, 5))
def test_a_changed_byte_is_noticed(place: int) -> None:
    sealed = bytearray(Sealing(KEY_TEXT).seal("a secret", "SCAK1"))
    sealed[place] ^= 1
    with pytest.raises(CannotOpen):
        Sealing(KEY_TEXT).open(bytes(sealed), "SCAK1")


@pytest.mark.parametrize("cut", [0, 1, 12, 20, 35])
def test_a_cut_secret_is_noticed(cut: int) -> None:
    sealed = Sealing(KEY_TEXT).seal("a secret", "SCAK1")
    with pytest.raises(CannotOpen):
        Sealing(KEY_TEXT).open(sealed[:cut], "SCAK1")


def test_it_opens_only_for_what_it_belongs_to_and_with_its_key() -> None:
    sealed = Sealing(KEY_TEXT).seal("a secret", "SCAK1")
    with pytest.raises(CannotOpen):
        Sealing(KEY_TEXT).open(sealed, "SCAK2")
    with pytest.raises(CannotOpen):
        Sealing("ff" * 32).open(sealed, "SCAK1")


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "secrets.key"
    before = os.umask(0)
    try:
        key = key_in(file)
    finally:
        os.umask(before)
    assert SEALING_KEY.fullmatch(key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert key_in(file) == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["secrets.key"]


def test_what_a_start_that_was_cut_off_left_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "secrets.new").write_text("0011")
    assert SEALING_KEY.fullmatch(key_in(tmp_path / "secrets.key"))


@pytest.mark.parametrize("content", ["", "00", "zz" * 32, KEY_TEXT + "00", KEY_TEXT + "\n" + KEY_TEXT, "\xff" * 64])
def test_a_damaged_key_file_stops_the_start_and_stays(tmp_path: Path, content: str) -> None:
    file = tmp_path / "secrets.key"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(StartRefused, match="restore it from a backup"):
        key_in(file)
    assert file.read_text(encoding="latin-1") == content


def test_a_key_file_that_is_a_link_or_a_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(KEY_TEXT)
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "directory").mkdir()
    for name in ("link", "directory"):
        with pytest.raises(StartRefused, match="cannot be used"):
            key_in(tmp_path / name)


def test_ids_and_secrets_are_such_as_everything_takes() -> None:
    ids, secrets = {new_key_id() for _ in range(200)}, {new_secret() for _ in range(200)}
    assert len(ids) == len(secrets) == 200
    assert all(re.fullmatch(r"SCAK[A-Z2-7]{16}", each) and KEY_ID.fullmatch(each) for each in ids)
    assert all(re.fullmatch(r"[A-Za-z0-9]{40}", each) and SECRET.fullmatch(each) for each in secrets)


def test_no_secret_shows_in_a_repr() -> None:
    key = AccessKeyInfo("SCAK1", "me", "", "now", secret_access_key="s3cret-key")
    token = TokenInfo("t", "me", "", "now", token="s3cret-token")
    assert "s3cret" not in f"{key} {token!r} {[key]}"
    assert repr(key) == "AccessKeyInfo(id='SCAK1', principal='me', name='')"
