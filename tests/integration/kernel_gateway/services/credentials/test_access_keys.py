"""Access keys on a real database: made, found, listed, revoked, given by the settings, sealed at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal
from kernel_gateway.identity.sigv4 import SignatureProblem
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.credentials.access_keys import GIVEN, AccessKeys
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.settings import Settings
from kernel_gateway.storage import access_keys, principals
from kernel_gateway.storage.database import Database

Test = Callable[[AccessKeys, Principal], Coroutine[Any, Any, Any]]
ID, SECRET = "AKIDEXAMPLE", "a-secret-that-was-given"


def opened(directory: Path, test: Test, **settings: Any) -> Any:
    """Run a test on access keys as a start with these settings opens them, and with the administrator."""

    async def run() -> Any:
        database = Database(f"sqlite:///{directory}/state/sandcell.db")
        await database.open()
        try:
            await Identity(database).open("the token of the administrator", 1.0)
            keys = AccessKeys(database, Settings(data_dir=str(directory), **settings), SystemClock(), LastUse(database))
            await keys.open()
            admin = await database.run(lambda c: principals.find_by_name(c, "admin"))
            assert admin is not None
            return await test(keys, admin)
        finally:
            await database.aclose()

    return asyncio.run(run())


async def refused(keys: AccessKeys, key_id: str) -> str:
    with pytest.raises(SignatureProblem) as caught:
        await keys.find(key_id)
    assert (caught.value.code, caught.value.status) == ("UnrecognizedClientException", 403)
    return caught.value.message


def test_the_life_of_a_key(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        made = await keys.create(admin, "somebody", "for a test")
        assert made.secret_access_key
        caller, secret = await keys.find(made.id)
        owner = caller.principal
        assert (owner.name, owner.admin, secret) == ("somebody", False, made.secret_access_key)
        (listed,) = (await keys.list(admin)).items
        assert (listed.id, listed.principal, listed.name) == (made.id, "somebody", "for a test")
        assert listed.secret_access_key is None
        assert listed.revoked_at is None
        revoked = await keys.revoke(admin, made.id)
        assert (await keys.revoke(admin, made.id)).revoked_at == revoked.revoked_at
        unknown = await refused(keys, "SCAKAAAAAAAAAAAAAAAA")
        assert await refused(keys, made.id) == unknown
        assert (await keys.list(admin)).items[0].revoked_at

    opened(tmp_path, test)


def test_a_principal_may_have_several_keys_and_pages_list_them(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        made = [await keys.create(admin, "somebody", str(number)) for number in range(3)]
        first = await keys.list(admin, 2)
        rest = await keys.list(admin, 2, first.next_cursor)
        assert [each.id for each in (*first.items, *rest.items)] == [each.id for each in made]
        owners = {(await keys.find(each.id))[0].principal.id for each in made}
        assert len(owners) == 1

    opened(tmp_path, test)


@pytest.mark.parametrize("key_id", ["", "ab", "é" * 20, "A" * 129, "A/B/C", "a b c", "'; --"])
def test_what_is_no_id_is_no_key(tmp_path: Path, key_id: str) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        await refused(keys, key_id)
        with pytest.raises(errors.NotFound):
            await keys.revoke(admin, key_id)

    opened(tmp_path, test)


def test_only_administrators_manage_keys(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        made = await keys.create(admin, "somebody")
        somebody = (await keys.find(made.id))[0].principal
        for attempt in (keys.create(somebody, "me"), keys.list(somebody), keys.revoke(somebody, made.id)):
            with pytest.raises(errors.Forbidden, match="access keys"):
                await attempt
        for name, of in (("a b", ""), ("", ""), ("ok", "\0"), ("ok", "x" * 201)):
            with pytest.raises(errors.InvalidRequest):
                await keys.create(admin, name, of)

    opened(tmp_path, test)


def test_a_revoked_key_is_forgotten_although_it_was_remembered(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        made = await keys.create(admin, "somebody")
        for _ in range(3):
            await keys.find(made.id)
        await keys.revoke(admin, made.id)
        await refused(keys, made.id)

    opened(tmp_path, test)


def test_secrets_are_nowhere_on_disk(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> str:
        return (await keys.create(admin, "somebody")).secret_access_key or ""

    made = opened(tmp_path, test, access_key_id=ID, secret_access_key=SECRET)
    written = b"".join(each.read_bytes() for each in (tmp_path / "state").iterdir())
    assert ID.encode() in written
    assert made.encode() not in written
    assert SECRET.encode() not in written


def test_a_revoked_secret_is_gone(tmp_path: Path) -> None:
    async def test(keys: AccessKeys, admin: Principal) -> None:
        made = await keys.create(admin, "somebody")
        await keys.revoke(admin, made.id)
        stored = await keys._database.run(lambda c: access_keys.find(c, made.id))
        assert stored is not None
        assert (stored.sealed, stored.revoked) == (b"", True)

    opened(tmp_path, test)


def test_the_given_key_is_the_administrators_and_follows_the_settings(tmp_path: Path) -> None:
    async def found(keys: AccessKeys, admin: Principal) -> str:
        caller, secret = await keys.find(ID)
        owner = caller.principal
        assert owner == admin
        assert [each.name for each in (await keys.list(admin)).items] == [GIVEN]
        return secret

    given = {"access_key_id": ID, "secret_access_key": SECRET}
    assert opened(tmp_path, found, **given) == SECRET
    assert opened(tmp_path, found, **given) == SECRET
    assert opened(tmp_path, found, **given | {"secret_access_key": "another-secret"}) == "another-secret"
    assert opened(tmp_path, found) == "another-secret"


def test_a_given_key_that_was_revoked_stays_revoked(tmp_path: Path) -> None:
    async def revoke(keys: AccessKeys, admin: Principal) -> None:
        await keys.revoke(admin, ID)

    async def nothing(keys: AccessKeys, admin: Principal) -> None:
        await refused(keys, ID)

    given = {"access_key_id": ID, "secret_access_key": SECRET}
    opened(tmp_path, revoke, **given)
    for secret in (SECRET, "another-secret"):
        with pytest.raises(errors.SettingInvalid, match="was revoked"):
            opened(tmp_path, nothing, **given | {"secret_access_key": secret})
    opened(tmp_path, nothing)


def test_a_given_key_is_never_taken_from_somebody_else(tmp_path: Path) -> None:
    async def make(keys: AccessKeys, admin: Principal) -> str:
        return (await keys.create(admin, "somebody")).id

    key_id = opened(tmp_path, make)
    with pytest.raises(errors.SettingInvalid, match="another principal's"):
        opened(tmp_path, make, access_key_id=key_id, secret_access_key=SECRET)


def test_gateways_with_one_database_share_one_secrets_key(tmp_path: Path) -> None:
    async def make(keys: AccessKeys, admin: Principal) -> str:
        return (await keys.create(admin, "somebody")).id

    key_id = opened(tmp_path, make, secrets_key="ab" * 32)
    assert not (tmp_path / "state" / "secrets.key").exists()

    async def find(keys: AccessKeys, admin: Principal) -> str:
        return (await keys.find(key_id))[0].principal.name

    assert opened(tmp_path, find, secrets_key="AB" * 32) == "somebody"


def test_with_another_secrets_key_keys_count_no_longer_and_the_start_says_so(tmp_path: Path) -> None:
    async def make(keys: AccessKeys, admin: Principal) -> str:
        return (await keys.create(admin, "somebody")).id

    given = {"access_key_id": ID, "secret_access_key": SECRET}
    key_id = opened(tmp_path, make, **given)
    (tmp_path / "state" / "secrets.key").unlink()

    async def find(keys: AccessKeys, admin: Principal) -> None:
        await refused(keys, key_id)
        assert (await keys.find(ID))[1] == SECRET
        assert (await keys.revoke(admin, key_id)).revoked_at

    with capture_logs() as logs:
        opened(tmp_path, find, **given)
    said = [each for each in logs if each["event"] == "access_keys_sealed_with_another_key"]
    assert [each["keys"] for each in said] == [[key_id]]
    assert "secrets.key" in said[0]["remedy"]
    with capture_logs() as logs:
        opened(tmp_path, lambda *_: asyncio.sleep(0))
    assert logs == []
