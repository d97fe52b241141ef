"""Signing in to the console: by a token or a link, for as long as both the sign-in and the token count."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway.errors import Forbidden, NotFound, Unauthorized
from kernel_gateway.identity.principal import Caller
from kernel_gateway.identity.roles import Rights
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.sign_ins import LINK_SECONDS, MOST_SIGN_INS, SIGN_IN_SECONDS, SignIns
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.settings import Settings
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from tests.doubles.turned_clock import TurnedClock

TOKEN = "the-token-of-the-first-administrator"


class Scene:
    """An administrator, a tenant with a token for looking, and who is signed in."""

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        self.clock = TurnedClock()
        self.database = Database(f"sqlite:///{directory / 'database'}")
        self.identity = Identity(self.database, self.clock.now)
        self.tokens = Tokens(self.database, self.identity, self.clock)
        self.sign_ins = SignIns(settings or Settings(), self.database, self.clock, self.identity)

    async def open(self) -> Caller:
        await self.database.open()
        await self.identity.open(TOKEN, self.clock.now())
        return await self.identity.authenticate(TOKEN)

    async def link(self, caller: Caller) -> str:
        return (await self.sign_ins.create_link(caller)).link.removeprefix("/#sign-in=")


def play(directory: Path, act: Callable[[Scene, Caller], Awaitable[None]]) -> None:
    async def whole() -> None:
        scene = Scene(directory)
        try:
            await act(scene, await scene.open())
        finally:
            await scene.database.aclose()

    asyncio.run(whole())


def test_a_link_signs_in_once_and_soon(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        code = await scene.link(admin)
        with pytest.raises(Unauthorized):  # it is no sign-in itself
            await scene.sign_ins.authenticate(code)
        signed_in = await scene.sign_ins.use_link(code)
        scene.clock.advance(LINK_SECONDS + 1)
        caller = await scene.sign_ins.authenticate(signed_in.secret)
        assert caller.principal == admin.principal
        assert caller.expires == scene.clock.now() - LINK_SECONDS - 1 + SIGN_IN_SECONDS
        with pytest.raises(Unauthorized):
            await scene.sign_ins.use_link(code)
        with pytest.raises(Unauthorized):  # and a sign-in is no link
            await scene.sign_ins.use_link(signed_in.secret)
        late = await scene.link(admin)
        scene.clock.advance(LINK_SECONDS + 1)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.use_link(late)

    play(tmp_path, act)


def test_a_sign_in_ends_by_time_by_signing_out_and_with_its_token(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        made = await scene.tokens.create(admin.principal, "ada", scope="read", ttl_seconds=2 * SIGN_IN_SECONDS)
        secrets = [(await scene.sign_ins.use_token(made.token or "")).secret for _ in range(3)]
        caller = await scene.sign_ins.authenticate(secrets[0])
        assert (caller.principal.name, caller.scope, caller.principal.admin) == ("ada", "read", False)
        assert caller.expires == scene.clock.now() + SIGN_IN_SECONDS
        await scene.sign_ins.sign_out(secrets[0])
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(secrets[0])
        await scene.sign_ins.authenticate(secrets[1])
        await scene.tokens.revoke(admin.principal, made.id)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(secrets[1])
        own = await scene.sign_ins.use_token(TOKEN)
        scene.clock.advance(SIGN_IN_SECONDS + 1)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(own.secret)

    play(tmp_path, act)


def test_a_sign_in_counts_after_a_restart_until_it_is_signed_out_there(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        signed_in, code = await scene.sign_ins.use_token(TOKEN), await scene.link(admin)
        again = Scene(tmp_path)
        await again.open()
        try:
            assert await again.sign_ins.authenticate(signed_in.secret) == signed_in.caller
            await again.sign_ins.use_link(code)
            await again.sign_ins.sign_out(signed_in.secret)
        finally:
            await again.database.aclose()
        for ask, secret in ((scene.sign_ins.authenticate, signed_in.secret), (scene.sign_ins.use_link, code)):
            with pytest.raises(Unauthorized):
                await ask(secret)

    play(tmp_path, act)


@pytest.mark.parametrize(
    "changed",
    [
        replace(Settings(), oidc_roles="viewer groups=all"),
        replace(Settings(), oidc_issuer="https://login.example.com"),
        None,
    ],
)
def test_a_person_is_signed_out_by_a_restart_with_another_provider_or_other_roles(
    tmp_path: Path, changed: Settings | None
) -> None:
    async def act(scene: Scene, _admin: Caller) -> None:
        person = await scene.sign_ins.use_rights("vera", Rights("administrator"))
        token = await scene.sign_ins.use_token(TOKEN)
        again = Scene(tmp_path, changed)
        await again.open()
        try:
            assert await again.sign_ins.authenticate(token.secret) == token.caller
            if changed is None:
                assert await again.sign_ins.authenticate(person.secret) == person.caller
                return
            for ask in (again.sign_ins.authenticate(person.secret), again.sign_ins.look_at(person.secret, "")):
                with pytest.raises(Unauthorized, match="sign in again"):
                    await ask
        finally:
            await again.database.aclose()

    play(tmp_path, act)


def test_a_token_that_ends_sooner_ends_its_sign_in(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        made = await scene.tokens.create(admin.principal, "ada", ttl_seconds=60)
        signed_in = await scene.sign_ins.use_token(made.token or "")
        assert signed_in.caller.expires == scene.clock.now() + 60
        scene.clock.advance(61)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(signed_in.secret)

    play(tmp_path, act)


def test_a_link_made_by_who_is_signed_in_lasts_no_longer_than_that(tmp_path: Path) -> None:
    async def act(scene: Scene, _admin: Caller) -> None:
        signed_in = await scene.sign_ins.use_token(TOKEN)
        end = scene.clock.now() + SIGN_IN_SECONDS
        scene.clock.advance(SIGN_IN_SECONDS - 30)
        code = await scene.link(await scene.sign_ins.authenticate(signed_in.secret))
        assert (await scene.sign_ins.look_at_link(code)).expires == end
        again = await scene.sign_ins.use_link(code)
        assert again.caller.expires == end
        scene.clock.advance(31)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(again.secret)

    play(tmp_path, act)


def test_the_oldest_sign_ins_of_a_token_go_and_nobody_elses(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        made = await scene.tokens.create(admin.principal, "ada")
        other = await scene.sign_ins.use_token(made.token or "")
        secrets = [(await scene.sign_ins.use_token(TOKEN)).secret for _ in range(MOST_SIGN_INS + 1)]
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(secrets[0])
        await scene.sign_ins.authenticate(secrets[1])
        await scene.sign_ins.authenticate(other.secret)

    play(tmp_path, act)


@pytest.mark.parametrize("nonsense", ["", "x", "sandcell_" + "x" * 43, "\udcff"])
def test_nonsense_signs_nobody_in(tmp_path: Path, nonsense: str) -> None:
    async def act(scene: Scene, _admin: Caller) -> None:
        for ask in (
            scene.sign_ins.use_link,
            scene.sign_ins.look_at_link,
            scene.sign_ins.use_token,
            scene.sign_ins.authenticate,
        ):
            with pytest.raises(Unauthorized):
                await ask(nonsense)

    play(tmp_path, act)


def test_a_person_has_the_role_that_the_provider_gave_and_looks_at_whom_it_names(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        await scene.tokens.create(admin.principal, "agent-7")
        signed_in = await scene.sign_ins.use_rights("vera@example.com", Rights("viewer", ("agent-7", "nobody")))
        own = await scene.sign_ins.authenticate(signed_in.secret)
        assert (own.principal.name, own.scope, own.may("run")) == ("vera@example.com", "read", False)
        looking = await scene.sign_ins.look_at(signed_in.secret, "agent-7")
        assert looking == await scene.sign_ins.authenticate(signed_in.secret)
        assert (looking.principal.name, looking.scope, looking.principal.looked_at_by) == (
            "agent-7",
            "read",
            "vera@example.com",
        )
        for name, error in (("admin", Forbidden), ("nobody", NotFound)):
            with pytest.raises(error):
                await scene.sign_ins.look_at(signed_in.secret, name)
        with pytest.raises(Forbidden, match="with a token"):  # it would outlive what the provider said
            await scene.sign_ins.create_link(looking)
        assert await scene.sign_ins.look_at(signed_in.secret, "") == own
        scene.clock.advance(SIGN_IN_SECONDS)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(signed_in.secret)

    play(tmp_path, act)


def test_a_user_only_looks_at_others_and_an_administrator_is_one_by_the_role(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        made = await scene.tokens.create(admin.principal, "ada", scope="run")
        user = await scene.sign_ins.use_rights("ada", Rights("user", ("admin",)))
        own = await scene.sign_ins.authenticate(user.secret)
        assert own.principal == (await scene.identity.authenticate(made.token or "")).principal
        assert (own.scope, own.principal.admin) == ("run", False)
        looking = await scene.sign_ins.look_at(user.secret, "admin")
        assert (looking.principal.name, looking.scope, looking.principal.admin) == ("admin", "read", False)
        raised = await scene.sign_ins.use_rights("ada", Rights("administrator"))
        assert (await scene.sign_ins.authenticate(raised.secret)).principal.admin
        assert not (await scene.identity.authenticate(made.token or "")).principal.admin  # the role is the sign-in's
        with pytest.raises(Forbidden, match="administrator's name"):
            await scene.sign_ins.use_rights("admin", Rights("user"))

    play(tmp_path, act)


def test_a_person_whose_principal_is_disabled_is_signed_out_also_while_they_look_at_another(tmp_path: Path) -> None:
    async def act(scene: Scene, admin: Caller) -> None:
        await scene.tokens.create(admin.principal, "agent-7")
        signed_in = await scene.sign_ins.use_rights("vera", Rights("viewer", ("agent-7",)))
        await scene.sign_ins.look_at(signed_in.secret, "agent-7")
        vera = await scene.database.run(lambda c: principals.find_by_name(c, "vera"))
        assert vera is not None
        await scene.database.run(lambda c: principals.disable(c, vera.id, scene.clock.now()))
        scene.identity.forget()
        with pytest.raises(Unauthorized):
            await scene.sign_ins.authenticate(signed_in.secret)
        with pytest.raises(Unauthorized):
            await scene.sign_ins.use_rights("vera", Rights("viewer"))

    play(tmp_path, act)
