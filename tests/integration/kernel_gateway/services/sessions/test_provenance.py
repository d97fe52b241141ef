"""What is stored of an execution beside its outcome, in real sandboxes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kernel_gateway.storage import executions
from kernels.environment import Environment
from sandcell.models.executions import Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

Test = Callable[[Gateway], Awaitable[None]]


async def stored(gateway: Gateway, session: Session, execution: Execution) -> dict[str, Any]:
    row = await gateway.services.database.run(lambda c: executions.find(c, session.id, execution.id))
    assert row is not None
    return row.provenance or {}


def test_what_a_cell_used_is_stored_with_the_image_it_ran_on(
    on_gateway: Callable[[Test], None], environment: Environment
) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        wrote = await gateway.run(session, "with open('f', 'wb') as f: f.write(bytes(5_000_000))")
        found = await stored(gateway, session, wrote)
        assert found["environment_digest"] == environment.digest
        assert found["written_bytes"] >= 5_000_000
        assert found["memory_peak_bytes"] > 10_000_000
        assert found["cpu_seconds"] >= 0
        large = await gateway.run(session, "len(bytearray(b'1') * 300_000_000)")
        assert (await stored(gateway, session, large))["memory_peak_bytes"] > 300_000_000
        small = await gateway.run(session, "1")
        assert (await stored(gateway, session, small))["memory_peak_bytes"] < 300_000_000
        died = await gateway.run(session, "import os; os._exit(1)")
        await gateway.services.record.settle(session.id)
        assert await stored(gateway, session, died) == {"environment_digest": environment.digest, "files": []}

    on_gateway(test)


def test_the_files_that_each_cell_changed_are_told_with_their_hashes(on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()

        async def upload() -> AsyncIterator[bytes]:
            yield b"from outside"

        async def after(code: str) -> dict[str, Any]:
            execution = await gateway.run(session, code)
            await gateway.services.record.settle(session.id)
            found = await stored(gateway, session, execution)
            return {name: found[name] for name in found if name.startswith("files")}

        await gateway.services.files.write(gateway.me, session.id, "given", upload())
        assert await after("1") == {"files": []}
        digest = hashlib.sha256(b"one").hexdigest()
        one = {"path": "d/one", "change": "added", "size": 3, "sha256": digest}
        assert await after("import os; os.mkdir('d'); print('one', end='', file=open('d/one', 'w'))") == {
            "files": [one]
        }
        assert [each["change"] for each in (await after("os.remove('d/one'); os.remove('given')"))["files"]] == [
            "removed",
            "removed",
        ]
        many = await after("for n in range(250): open(f'{n:03}', 'w').close()")
        assert (len(many["files"]), many["files_omitted"]) == (200, 50)
        closed = await after("os.mkdir('shut'); open('shut/f', 'w').close(); os.chmod('000', 0)")
        assert [(each["path"], each["change"]) for each in closed["files"]] == [("000", "changed"), ("shut/f", "added")]
        assert await after("os.chmod('shut', 0)") == {"files": []}
        assert await after("os.chmod('shut', 0o700)") == {"files": []}
        last = await after("open('last', 'w').close(); import os; os._exit(1)")
        assert [each["path"] for each in last["files"]] == ["last"]
        assert await after("1") == {"files": []}

    on_gateway(test)


def test_a_service_that_starts_again_knows_the_image_and_the_files_as_they_are(
    house: House, environment: Environment
) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            await gateway.run(session, "open('before', 'w').close()")
        async with house.gateway() as gateway:
            execution = await gateway.run(session, "open('after', 'w').close()")
            await gateway.services.record.settle(session.id)
            found = await stored(gateway, session, execution)
            assert found["environment_digest"] == environment.digest
            assert [each["path"] for each in found["files"]] == ["after"]

    asyncio.run(test())
