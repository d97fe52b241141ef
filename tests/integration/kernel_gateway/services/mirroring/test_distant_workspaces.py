"""Workspaces that only the guest reaches: what the service's copy misses, and what becomes of it past a restart."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel_gateway.server import sandboxes
from kernel_gateway.settings import Settings
from kernels.errors import SandboxFailed
from kernels.guest_client.client import GuestClient
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.kernel_launcher import KernelLauncher
from sandcell.models.sessions import Session
from tests.doubles.distant_runtime import DistantRuntime
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from workspace_sync import DurableWorkspace

GUARD_SECONDS = 120.0
WRITE = "import os; os.makedirs('d/e'); open('d/e/f', 'w').write('deep'); open('g', 'w').write('one')"


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the service has its copies."""

    def make_distant(settings: Settings) -> SandboxRuntime:
        return DistantRuntime(make(settings), tmp_path / "copies")  # type: ignore[return-value]

    make = sandboxes.make_runtime
    monkeypatch.setattr(sandboxes, "make_runtime", make_distant)
    return tmp_path / "copies"


def stored(gateway: Gateway, session: Session) -> dict[str, bytes]:
    """What the store has of a workspace."""
    workspace = DurableWorkspace(gateway.store, f"workspaces/sessions/{session.workspace_id}")
    return {each.path: b"".join(workspace.open(each.path)[1]) for each in workspace.list() if each.kind == "file"}


def test_what_code_has_closed_to_itself_stays_in_the_store_and_is_told(house: House) -> None:
    async def test() -> None:
        async with house.gateway(flush_deadline_seconds=120.0) as gateway:
            session = await gateway.start()
            await gateway.run(session, WRITE, sync="before_return")
            closed = await gateway.run(
                session,
                "os.chmod('d', 0); open('g', 'w').write('two'); os.chmod('g', 0); open('h', 'w').write('new');"
                "os.mkdir('names'); open('names/i', 'w').write('x'); os.chmod('names', 0o444)",
                sync="before_return",
            )
            assert closed.sync is not None
            assert "not mirrored: d (cannot be listed) and 2 more" in str(closed.sync.error)
            assert stored(gateway, session) == {"d/e/f": b"deep", "g": b"one", "h": b"new"}
            await gateway.run(session, "[os.chmod(n, 0o755) for n in ('d', 'g', 'names')]; os.remove('d/e/f')")
            await gateway.run(session, "pass", sync="before_return")
            assert stored(gateway, session) == {"g": b"two", "h": b"new", "names/i": b"x"}

    asyncio.run(test())


def test_who_writes_a_file_does_not_wait_for_a_guest_that_lists_none(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def hang(*_arguments: object, **_how: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def content() -> AsyncIterator[bytes]:
        yield b"written"

    async def test() -> None:
        async with house.gateway(flush_deadline_seconds=0.5) as gateway:
            session = await gateway.start()
            await gateway.run(session, "pass")
            monkeypatch.setattr(GuestClient, "list_tree", hang)
            async with asyncio.timeout(GUARD_SECONDS):
                await gateway.services.files.write(gateway.me, session.id, "f", content())
            assert asked.is_set()
            assert await gateway.text(session, "open('f').read()") == "'written'"

    asyncio.run(test())


async def leave(house: House) -> Session:
    """A session whose service has ended, and in which code has gone on."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, WRITE, sync="before_return")
        gateway.store.away = True
        code = "import threading, time\ndef go_on():\n    time.sleep(3); open('late', 'w').write('late')\n"
        await gateway.run(session, code + "threading.Thread(target=go_on).start()")
    written = Path(house.settings.data_dir) / "sandboxes" / session.id / "storage" / "workspace" / "late"
    async with asyncio.timeout(GUARD_SECONDS):
        while not written.exists() or not written.stat().st_size:
            await asyncio.sleep(0.05)
    return session


@pytest.mark.parametrize("kept", [True, False])
def test_a_sandbox_that_is_not_taken_up_is_copied_once_more(
    house: House, monkeypatch: pytest.MonkeyPatch, copies: Path, *, kept: bool
) -> None:
    async def fail(*_arguments: object) -> None:
        raise SandboxFailed("its kernel is in no state to be taken up")

    async def test() -> None:
        session = await leave(house)
        if not kept:
            shutil.rmtree(copies)
        with monkeypatch.context() as patches:
            patches.setattr(KernelLauncher, "adopt", fail)
            async with house.gateway(flush_deadline_seconds=120.0) as gateway:
                assert await gateway.text(session, "open('late').read() + open('d/e/f').read()") == "'latedeep'"

    asyncio.run(test())


def test_a_copy_that_never_had_all_is_no_workspace(house: House, monkeypatch: pytest.MonkeyPatch, copies: Path) -> None:
    """The service's disk is another one, and the sandbox does not answer any more: the store has what there is."""

    async def fail(*_arguments: object, **_how: object) -> None:
        raise SandboxFailed("it does not answer")

    async def test() -> None:
        session = await leave(house)
        shutil.rmtree(copies)
        with monkeypatch.context() as patches:
            patches.setattr(GuestClient, "list_tree", fail)
            patches.setattr(KernelLauncher, "adopt", fail)
            async with house.gateway(flush_deadline_seconds=120.0) as gateway:
                live = gateway.services.registry.get(session.id)
                assert live is not None
                await gateway.until(lambda: told(gateway, session))
                assert stored(gateway, session) == {"d/e/f": b"deep", "g": b"one"}
                assert "the last changes of the workspace are lost: it does not answer" in str(live.sandbox.unsaved)

    async def told(gateway: Gateway, session: Session) -> bool:
        live = gateway.services.registry.get(session.id)
        return live is not None and live.sandbox.unsaved is not None

    asyncio.run(test())
