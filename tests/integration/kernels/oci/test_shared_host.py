"""A launcher takes sandboxes over from another of its gateways on this host, once that has ended."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernels import sandbox_release, shared_host
from kernels.environment import Environment
from kernels.errors import SandboxFailed, SandboxGone
from kernels.guest_client.client import GuestClient
from kernels.oci.places import HostPlaces
from kernels.runtimes import open_runtime
from kernels.sandbox import RuntimeSettings, SandboxRuntime, SandboxSpec
from kernels.sandbox_release import Wanted
from kernels.shared_host import SharedHost
from tests.shared_guest import share_guest


@asynccontextmanager
async def launcher(settings: RuntimeSettings) -> AsyncIterator[SandboxRuntime]:
    """A runtime, and the lock of its data directory, as a launcher has them."""
    with (settings.data_directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        runtime = open_runtime(settings)
        try:
            yield runtime
        finally:
            await runtime.aclose()


async def ask(runtime: SandboxRuntime, sandbox_id: str, command: str) -> str:
    guest = GuestClient(partial(runtime.dial, sandbox_id))
    try:
        await guest.wait_ready(120)
        return (await guest.run_command(command, timeout_seconds=120, output_bytes=1_000)).stdout
    finally:
        await guest.aclose()


async def ids(runtime: SandboxRuntime) -> set[str]:
    return {info.sandbox_id for info in await runtime.list()}


@pytest.mark.parametrize("runtime_name", ["runc"])
def test_taken_over_once_its_launcher_has_ended(
    runtime_name: str, tmp_path: Path, short_directory: Path, environment: Environment
) -> None:
    def settings(name: str, gateways: str = "of one database") -> RuntimeSettings:
        data = share_guest(tmp_path / name, short_directory)
        return RuntimeSettings(runtime_name, data, short_directory, gateways=gateways)

    async def try_all() -> None:
        one, two, alien = settings("one"), settings("two"), settings("alien", "of another")
        sandbox = str(uuid.uuid4())
        async with launcher(two) as taker, launcher(alien) as stranger:
            async with launcher(one) as maker:
                made = await maker.create(SandboxSpec(sandbox, environment))
                assert await ask(maker, sandbox, "echo here > kept; cat kept") == "here\n"
                assert await taker.running(sandbox)
                with pytest.raises(SandboxGone, match="lives"):
                    await taker.reopen(sandbox)
            for nobody in (stranger, open_runtime(replace(two, gateways=""))):
                assert not await nobody.running(sandbox)
                with pytest.raises(SandboxGone):
                    await nobody.reopen(sandbox)
            with pytest.raises(SandboxFailed):
                await taker.reopen("../one")
            await taker.reopen(sandbox)
            await taker.reopen(sandbox)
            assert await ids(taker) == {sandbox}
            (info,) = await taker.list()
            assert Path(info.workspace_directory, "kept").read_text() == "here\n"
            assert not Path(made.workspace_directory).exists()
            assert await ask(taker, sandbox, "cat kept") == "here\n"
            assert (await taker.usage(sandbox)).pids > 0
            async with launcher(one) as maker:  # it is back, and has nothing of it
                assert await ids(maker) == set()
                await maker.kill(sandbox)
                await maker.destroy(sandbox)
                with pytest.raises(SandboxGone):
                    await maker.usage(sandbox)
                with pytest.raises(SandboxGone, match="lives"):
                    await maker.reopen(sandbox)
        async with launcher(two) as taker:  # it knows after a restart what it had taken
            assert await ids(taker) == {sandbox}
            assert await ask(taker, sandbox, "cat kept") == "here\n"
        async with launcher(one) as maker:
            assert await maker.running(sandbox)
            await maker.reopen(sandbox)
            assert await ask(maker, sandbox, "cat kept") == "here\n"
            async with launcher(two) as taker:
                assert await ids(taker) == set()
                assert not await taker.running(str(uuid.uuid4()))
        async with launcher(two) as taker:
            await taker.reopen(sandbox)
            await taker.destroy(sandbox)
            assert await ids(taker) == set()
        async with launcher(one) as maker:
            assert await ids(maker) == set()
            assert not list(one.data_directory.glob("sandboxes/*"))

    asyncio.run(try_all())


def test_a_launcher_that_lives_is_asked(tmp_path: Path, short_directory: Path, environment: Environment) -> None:
    ended: list[str] = []

    async def end_user(sandbox_id: str) -> None:
        ended.append(sandbox_id)

    def settings(name: str) -> RuntimeSettings:
        return RuntimeSettings("runc", share_guest(tmp_path / name, short_directory), short_directory, gateways="ours")

    async def hand_over() -> None:
        one, two = settings("one"), settings("two")
        sandbox = str(uuid.uuid4())
        async with launcher(one) as maker, launcher(two) as taker:
            assert isinstance(maker, SharedHost)
            assert isinstance(taker, SharedHost)
            async with maker.releasing(end_user), taker.releasing(end_user):
                made = await maker.create(SandboxSpec(sandbox, environment))
                assert await ask(maker, sandbox, "echo here > kept; cat kept") == "here\n"
                await taker.reopen(sandbox)
                assert ended == [sandbox]
                assert (await ids(maker), await ids(taker)) == (set(), {sandbox})
                assert not Path(made.workspace_directory).exists()
                assert await ask(taker, sandbox, "cat kept") == "here\n"
                await maker.destroy(sandbox)
                await maker.reopen(sandbox)  # and back, from where it lies
                assert (await ids(maker), await ids(taker)) == ({sandbox}, set())
                with pytest.raises(SandboxGone):
                    await taker.usage(sandbox)
                await taker.reopen(sandbox)
                await taker.destroy(sandbox)
                assert ended == [sandbox] * 3
                for wrong in (sandbox, "../one"):
                    with pytest.raises((SandboxGone, SandboxFailed)):
                        await asyncio.to_thread(sandbox_release.ask, HostPlaces(one).release, Wanted(wrong, "/x"))
            assert not HostPlaces(one).release.exists()

    asyncio.run(hand_over())


def test_a_launcher_that_does_not_answer_is_asked_again_later(
    tmp_path: Path, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_release, "SECONDS", 0.1)
    place = short_directory / "release.sock"
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(place))
        stopped.listen()
        with pytest.raises(SandboxFailed, match="does not answer"):
            sandbox_release.ask(place, Wanted("a", "/x"))
    with pytest.raises(SandboxGone, match="is not asked"):
        sandbox_release.ask(place, Wanted("a", "/x"))


def test_a_launcher_that_keeps_its_turn_holds_up_no_other_for_ever(
    tmp_path: Path, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_host, "TURN_SECONDS", 0.1)
    one, two = (RuntimeSettings("runc", tmp_path / name, short_directory, gateways="ours") for name in ("one", "two"))
    sandbox = str(uuid.uuid4())
    (one.data_directory / "sandboxes" / sandbox).mkdir(parents=True)
    two.data_directory.mkdir()

    async def take() -> None:
        runtime = open_runtime(two)
        try:
            with (short_directory / "taking.lock").open("a") as turns:
                fcntl.flock(turns, fcntl.LOCK_EX)
                with pytest.raises(SandboxFailed, match="another launcher"):
                    await runtime.reopen(sandbox)
            with pytest.raises(SandboxGone, match="disk"):  # its turn has come, and there is nothing to take
                await runtime.reopen(sandbox)
        finally:
            await runtime.aclose()

    HostPlaces(one).prepare()
    asyncio.run(take())
