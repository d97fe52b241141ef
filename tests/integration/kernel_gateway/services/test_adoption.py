"""What a start of the service takes up of the process before, when something goes wrong meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.server import sandboxes
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.sessions.session_variables import LOST_SANDBOX
from kernels.guest_client import answers
from sandcell.models.sessions import Restored, Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.lost_kernels import lose_kernels_when_open
from tests.lost_hosts import reboot
from workspace_sync import Mirror
from workspace_sync.directory.changes import Watched
from workspace_sync.errors import MirrorClosed


async def keep_session(house: House, **body: Any) -> Session:
    """A session that the service leaves running."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start(**body)
        await gateway.run(session, "open('f', 'w').write('kept'); x = 1")
        await gateway.run(session, "x")  # waits until they are kept, where that is asked for
        return session


async def require_new_generation(gateway: Gateway, session: Session, why: str) -> None:
    """The session goes on in another sandbox, with its files, and its notebook says why."""
    assert await gateway.text(session, "open('f').read()") == "'kept'"
    assert (await gateway.show(session)).generation == 2
    assert (await gateway.run(session, "x")).status == "error"

    async def noted() -> bool:
        return why in (await gateway.services.notebooks.notebook(gateway.me, session.id)).decode()

    await gateway.until(noted)


def test_a_sandbox_that_dies_while_it_is_adopted_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        session = await keep_session(house)
        with monkeypatch.context() as patches:
            lose_kernels_when_open(patches, house.settings.data_dir)
            gateways = house.gateway()
            gateway = await gateways.__aenter__()
        try:
            await require_new_generation(gateway, session, "its first process is gone")
        finally:
            await gateways.__aexit__(None, None, None)

    asyncio.run(test())


def test_what_ran_in_a_sandbox_of_an_older_release_ends_and_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse_older_start(value: dict[str, Any]) -> answers.KernelStarted:
        return replace(parse_start(value), has_relay=False)

    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            running = await gateway.submit(session, "import time; time.sleep(2); x = 'went on'")
            await gateway.until_running(session, running)
        async with house.gateway() as gateway:
            cut_short = await gateway.services.executions.get(gateway.me, session.id, running.id)
            assert (cut_short.status, cut_short.death) == ("interrupted", None)
            assert "of an older release" in str(cut_short.why)
            assert await gateway.text(session, "x") == "'went on'"
            assert b"The service restarted" in await gateway.services.notebooks.notebook(gateway.me, session.id)

    parse_start = answers.parse_start
    monkeypatch.setattr(answers, "parse_start", parse_older_start)
    asyncio.run(test())


def test_an_adoption_that_fails_closes_the_mirror_that_it_has_made(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Mirror] = []

    def make_mirror(mirrors: Mirrors, *arguments: Any) -> Mirror:
        made.append(make(mirrors, *arguments))
        return made[-1]

    def fail(_watched: Watched) -> None:
        raise OSError(24, "Too many open files")

    async def test() -> None:
        session = await keep_session(house)
        monkeypatch.setattr(Mirrors, "mirror", make_mirror)
        with monkeypatch.context() as patches:
            patches.setattr(Watched, "look", fail)
            gateways = house.gateway()
            gateway = await gateways.__aenter__()
        try:
            await require_new_generation(gateway, session, "Too many open files")
            closed = [is_closed(each) for each in made]
            assert closed == [True, True, False], "the adopted one's, that which saved its files, and the next one's"
        finally:
            await gateways.__aexit__(None, None, None)

    make = Mirrors.mirror
    asyncio.run(test())


def test_a_disk_that_cannot_be_shown_again_passes_for_no_empty_workspace(house: House) -> None:
    """The host went down, and the image of the sandbox's disk is gone; an empty directory is where it was shown."""

    async def test() -> None:
        session = await keep_session(house)
        data, run = Path(house.settings.data_dir), Path(house.settings.run_dir)
        (sandbox,) = reboot(data, run)
        (data / "sandboxes" / sandbox / "storage.img").unlink()
        empty = sandboxes.make_runtime(house.settings).places.of(sandbox).view  # type: ignore[attr-defined]
        empty.mkdir(parents=True)
        async with house.gateway() as gateway:
            await require_new_generation(gateway, session, "the sandbox was gone when the service started again")

    asyncio.run(test())


def test_after_the_host_went_down_a_session_has_what_its_disk_had(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(keep_variables="each")
            gateway.store.away = True
            await gateway.run(session, "open('f', 'w').write('kept'); x = 1")  # which no store ever got
            await gateway.run(session, "x")  # waits until they are kept
        reboot(Path(house.settings.data_dir), Path(house.settings.run_dir))
        async with house.gateway() as gateway:
            assert await gateway.text(session, "open('f').read(), x") == "('kept', 1)"
            restored = (await gateway.show(session)).restored
            assert restored is not None
            assert (restored.generation, restored.why) == (2, None)
            assert [(each.name, each.outcome == "lost") for each in restored.variables] == [("x", False)]
            notebook = (await gateway.services.notebooks.notebook(gateway.me, session.id)).decode()
            assert "the sandbox was gone when the service started again" in notebook


def test_after_the_host_went_down_what_ran_says_that_it_may_have_begun(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            running = await gateway.submit(session, "import time; time.sleep(600)")
            await gateway.until_running(session, running)
        reboot(Path(house.settings.data_dir), Path(house.settings.run_dir))
        async with house.gateway() as gateway:
            died = await gateway.services.executions.wait(gateway.me, session.id, running.id)
            assert died.death is not None
            assert (died.status, died.death.cause) == ("died", "sandbox")
            assert died.death.detail.endswith("with its kernel and /tmp; whether this code had begun is not known")

    asyncio.run(test())


def test_what_another_gateway_has_run_since_makes_carried_variables_old(house: House) -> None:
    """They lie on this host, and the session went on elsewhere: the last sandbox's disk is on no host that is seen."""

    async def test() -> None:
        data, run = Path(house.settings.data_dir), Path(house.settings.run_dir)
        session = await keep_session(house, keep_variables="each")
        reboot(data, run)
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:

            async def carried() -> bool:
                return any((data / "state").glob("carried/*.1"))

            await gateway.until(carried)
            (place,) = (data / "state" / "carried").iterdir()
            left = place.read_bytes()
            assert await gateway.text(session, "x") == "1"
            assert not place.exists()
        place.write_bytes(left)
        (sandbox,) = reboot(data, run)
        (data / "sandboxes" / sandbox / "storage.img").unlink()
        async with house.gateway() as gateway:
            assert (await gateway.run(session, "x")).status == "error"
            restored = (await gateway.show(session)).restored
            assert restored is not None
            assert (restored.generation, restored.why, restored.variables) == (3, LOST_SANDBOX, [])
            assert not place.exists()

    asyncio.run(test())

    asyncio.run(test())


def is_closed(mirror: Mirror) -> bool:
    with suppress(MirrorClosed):
        mirror.request_flush()
        return False
    return True


def test_variables_that_were_kept_before_a_restart_outlive_a_kernel_that_dies_after_it(house: House) -> None:
    async def die_and_look(gateway: Gateway, session: Session, generation: int) -> Restored:
        assert (await gateway.run(session, "import os; os.kill(os.getpid(), 9)")).status == "died"
        assert await gateway.text(session, "kept, again['kept']") == "([1], [1])"
        restored = (await gateway.show(session)).restored
        assert restored is not None
        assert (restored.generation, restored.why) == (generation, None)
        assert {each.name for each in restored.variables} == {"kept", "again"}
        assert restored.as_of is not None
        return restored

    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(keep_variables="each", keep_variables_mb=7)
            assert (session.keep_variables, session.keep_variables_mb) == ("each", 7)
            await gateway.run(session, "kept = [1]; again = {'kept': kept}")
            await gateway.run(session, "")  # which runs when those are kept
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            restored = await die_and_look(gateway, session, 2)
        async with house.gateway() as gateway:
            assert (await gateway.show(session)).restored == restored
            await die_and_look(gateway, session, 3)

    asyncio.run(test())


def test_a_restart_on_request_before_that_of_the_service_leaves_nothing(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(keep_variables="each")
            await gateway.run(session, "kept = 1")
            await gateway.services.sessions.restart(gateway.me, session.id)
        async with house.gateway() as gateway:
            assert (await gateway.run(session, "import os; os.kill(os.getpid(), 9)")).status == "died"
            assert await gateway.text(session, "'kept' in globals()") == "False"
            assert (await gateway.show(session)).restored is None

    asyncio.run(test())
