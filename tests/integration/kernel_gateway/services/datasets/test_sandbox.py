"""The sandbox that a dataset is described in: what is in it, what it may take, and what of its answer is believed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from kernel_gateway.dataset_profile import packing
from kernel_gateway.errors import (
    DeadlinePassed,
    GatewayError,
    QuotaReached,
    ShuttingDown,
    StoreUnavailable,
    UnreadableFile,
)
from kernel_gateway.services.datasets import sandbox as dataset_sandbox
from kernels.sandbox import SandboxRuntime
from sandcell.models.datasets import Dataset, RegisterDataset
from tests.integration.kernel_gateway.services.conftest import Gateway, House

LOOK_AROUND = """
import json, os, socket
def reached(address):
    try:
        socket.create_connection(address, 2).close()
    except OSError as error:
        return type(error).__name__
ours = [each for each in os.environ if each.startswith(("AWS_ACCESS", "SANDCELL"))]
seen = [os.listdir("/workspace"), open("/workspace/data").read(), os.getuid(), reached(("1.1.1.1", 80)), ours]
print(json.dumps({"refused": {"reason": "seen", "message": json.dumps(seen)}}))
"""


@asynccontextmanager
async def workspace(gateway: Gateway, **files: bytes) -> AsyncIterator[str]:
    session = await gateway.start()
    await gateway.services.sessions.stop(gateway.me, session.id)
    while session.id in gateway.services.dead_sandboxes:
        await gateway.services.dead_sandboxes.wait_for_one()
    for name, content in files.items():
        await gateway.services.workspaces.write(gateway.me, session.workspace_id, f"{name}.csv", _once(content))
    yield session.workspace_id


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def register(gateway: Gateway, workspace_id: str, name: str = "file", **body: Any) -> Dataset:
    return await gateway.services.datasets.register(
        gateway.me, workspace_id, RegisterDataset(name, f"{name}.csv", "csv", **body)
    )


def takes_over(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A file has taken over the reader: from here on it runs this."""
    line = f"exec {shlex.join(['/usr/bin/python3', '-c', 'import json, sys, time' + chr(10) + program])}"
    monkeypatch.setattr(packing, "build_command", lambda _python, _arguments: line)


def test_a_file_is_alone_in_a_sandbox_that_bounds_what_has_taken_over_its_reader(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with house.gateway() as gateway, workspace(gateway, file=b"a\n1\n", other=b"b\n2\n") as workspace_id:
            takes_over(monkeypatch, LOOK_AROUND)
            refused = await refusal(gateway, workspace_id, UnreadableFile)
            assert json.loads(refused.message) == [["data"], "a\n1\n", 1000, "OSError", []]

            takes_over(monkeypatch, "kept = []\nwhile True: kept.append(bytearray(1 << 26))")
            refused = await refusal(gateway, workspace_id, UnreadableFile)
            assert refused.details["reason"] == "too_large"
            assert "2,048 MB" in refused.message

            takes_over(monkeypatch, "sys.stdout.write('[' * 3_000_000)")
            refused = await refusal(gateway, workspace_id, UnreadableFile)
            assert "broke its reader" in refused.message

            monkeypatch.setattr(dataset_sandbox, "GRACE_SECONDS", -59.0)
            takes_over(monkeypatch, "time.sleep(1_000)")
            assert "dataset_seconds" in (await refusal(gateway, workspace_id, DeadlinePassed)).message

    asyncio.run(test())


async def runs(runtime: SandboxRuntime) -> bool:
    """Whether some sandbox does."""
    return any([await runtime.running(each.sandbox_id) for each in await runtime.list()])


def test_a_sweep_lets_it_be_and_a_caller_who_leaves_ends_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with house.gateway() as gateway, workspace(gateway, file=b"a\n1\n") as workspace_id:
            takes_over(monkeypatch, "time.sleep(1_000)")
            registering = asyncio.create_task(register(gateway, workspace_id))
            runtime = gateway.services.runtime
            await gateway.until(partial(runs, runtime))
            await gateway.services.upkeep.sweep()
            assert await runs(runtime)
            registering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await registering

            async def gone() -> bool:
                return await runtime.list() == ()

            await gateway.until(gone)
            assert not gateway.services.utility_sandboxes

    asyncio.run(test())


def test_a_service_that_ends_leaves_no_sandbox(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with house.gateway() as gateway, workspace(gateway, file=b"a\n1\n") as workspace_id:
            takes_over(monkeypatch, "time.sleep(1_000)")
            registering = asyncio.create_task(register(gateway, workspace_id))
            await gateway.until(partial(runs, gateway.services.runtime))
        with pytest.raises(ShuttingDown):  # the house has seen that nothing is left
            await registering

    asyncio.run(test())


def test_a_file_beyond_the_bound_by_its_first_part_and_a_store_or_disk_that_takes_nothing(house: House) -> None:
    async def test() -> None:
        text = b"a,b\n" + b"".join(b"%d,text\n" % number for number in range(2_000))
        bounds = {"dataset_bytes": 4_000, "datasets_per_workspace": 1}
        async with house.gateway(**bounds) as gateway, workspace(gateway, file=text) as workspace_id:
            gateway.store.away = True
            await refusal(gateway, workspace_id, StoreUnavailable)
            gateway.store.away = False

            made = await register(gateway, workspace_id)
            assert made.profile is not None
            assert (made.rows_exact, made.profile.complete, made.profile.basis) == (False, False, "first_rows")
            assert made.rows == pytest.approx(2_000, rel=0.3)
            assert made.profile.rows_read < 600
            assert made.sha256 == hashlib.sha256(text).hexdigest()
            with pytest.raises(QuotaReached):
                await register(gateway, workspace_id, "another")
            with pytest.raises(UnreadableFile, match="described up to 4,000 bytes"):
                await gateway.services.datasets.register(
                    gateway.me, workspace_id, RegisterDataset("file", "file.csv", "parquet")
                )
            assert await gateway.services.runtime.list() == ()

    asyncio.run(test())


async def refusal(gateway: Gateway, workspace_id: str, kind: type[GatewayError]) -> GatewayError:
    """What registering the file is refused with; nothing is left of the sandbox."""
    with pytest.raises(kind) as refused:
        await register(gateway, workspace_id)
    assert await gateway.services.runtime.list() == ()
    assert not gateway.services.utility_sandboxes
    return refused.value
