"""Texts longer than what is stored of them: kept once, in full, whatever happens to store, disk and service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import executions
from sandcell.models.executions import Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

Test = Callable[[Gateway], Awaitable[None]]
LINES = "for n in range(6_000): print((f'{n:07},' * 10)[:-1])"
TEXT = "".join((f"{n:07}," * 10)[:-1] + "\n" for n in range(6_000)).encode()


async def full(gateway: Gateway, session: Session, execution: Execution) -> list[dict[str, Any]]:
    row = await gateway.services.database.run(lambda c: executions.find(c, session.id, execution.id))
    assert row is not None
    return list((row.provenance or {}).get("full", []))


async def read(gateway: Gateway, session: Session, digest: str, start: int = 0, end: int | None = None) -> bytes:
    found = await gateway.services.outputs.read(
        gateway.me, session.id, digest, lambda size: (start, size if end is None else end)
    )
    return b"".join([chunk async for chunk in found.chunks])


def waiting(house: House) -> list[str]:
    return sorted(path.name for path in (house.settings.state_path / "outputs").glob("*/*"))


def stored(house: House, session: Session) -> dict[str, bytes]:
    beside = Path(house.settings.data_dir, "store/workspaces/sessions", session.id, "history_files")
    return {path.name: path.read_bytes() for path in beside.glob("*")}


def test_what_was_cut_is_whole_beside_the_notebook_once(house: House, on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        digest = hashlib.sha256(TEXT).hexdigest()
        href = f"/v1/sessions/{session.id}/outputs/{digest}"
        for _ in range(2):
            execution = await gateway.run(session, LINES)
            assert await full(gateway, session, execution) == [
                {"stream": "stdout", "sha256": digest, "size": len(TEXT), "href": href}
            ]
            assert await read(gateway, session, digest) == TEXT
            assert await read(gateway, session, digest, 300_000, 300_008) == TEXT[300_000:300_008]
        small = await gateway.run(session, "print('x' * 200_000)")
        assert await full(gateway, session, small) == []
        notebook = json.loads(await gateway.services.notebooks.notebook(gateway.me, session.id))
        cells = [cell["metadata"]["sandcell"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert [len(each.get("full", [])) for each in cells] == [1, 1, 0]
        await gateway.services.kept_outputs.deliver(session.id)
        assert waiting(house) == []
        assert stored(house, session) == {f"{digest}.txt": TEXT}
        assert await read(gateway, session, digest) == TEXT
        assert await read(gateway, session, digest, 100, 108) == TEXT[100:108]

    on_gateway(test)


def test_both_streams_progress_bars_and_more_than_is_kept(house: House) -> None:
    async def test() -> None:
        async with house.gateway(stored_text_bytes=10_000, full_output_bytes=50_000) as gateway:
            session = await gateway.start()
            both = await gateway.run(
                session, "import sys\nfor n in range(2_000): print('out', n); print('err', n, file=sys.stderr)"
            )
            told = await full(gateway, session, both)
            assert [each["stream"] for each in told] == ["stdout", "stderr"]
            assert (await read(gateway, session, told[1]["sha256"])).startswith(b"err 0\nerr 1\n")
            much = await gateway.run(session, "for n in range(3_000): print((f'{n:07},' * 10)[:-1])")
            (about,) = await full(gateway, session, much)
            assert (about["size"], about["omitted_bytes"]) == (50_000, 190_000)
            assert await read(gateway, session, about["sha256"]) == TEXT[:50_000]
            cleared = await gateway.run(
                session,
                "from IPython.display import clear_output\n"
                "print('x' * 30_000)\nclear_output(wait=True)\nprint('y' * 20_000)",
            )
            (about,) = await full(gateway, session, cleared)
            assert await read(gateway, session, about["sha256"]) == b"y" * 20_000 + b"\n"
            assert await full(gateway, session, await gateway.run(session, "clear_output(); print('z')")) == []

    asyncio.run(test())


def test_a_store_that_is_away_gets_them_when_it_is_back_and_a_restart_loses_none(house: House) -> None:
    async def test() -> None:
        digest = hashlib.sha256(TEXT).hexdigest()
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            gateway.store.away = True
            await gateway.run(session, LINES)
            assert await read(gateway, session, digest) == TEXT
            with_a_part = house.settings.state_path / "outputs" / session.id / "cut-off.part"
            with_a_part.write_bytes(b"half")
        assert waiting(house) == sorted([f"{digest}.txt", "cut-off.part"])
        async with house.gateway() as gateway:
            assert waiting(house) == [f"{digest}.txt"]
            assert await read(gateway, session, digest) == TEXT
            await gateway.services.kept_outputs.deliver_all()
            assert waiting(house) == []
            await gateway.services.sessions.stop(gateway.me, session.id)
            assert await read(gateway, session, digest) == TEXT
            assert stored(house, session)[f"{digest}.txt"] == TEXT

    asyncio.run(test())


def test_others_and_what_is_no_digest_find_nothing(on_gateway: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway) -> None:
        session, other = await gateway.start(), await gateway.start()
        (about,) = await full(gateway, session, await gateway.run(session, LINES))
        stranger = Principal(id="somebody", name="else", admin=True)
        for who, where, what in (
            (stranger, session, about["sha256"]),
            (gateway.me, other, about["sha256"]),
            (gateway.me, session, "0" * 64),
            (gateway.me, session, "../" * 21 + "x"),
            (gateway.me, session, about["sha256"].upper()),
            (gateway.me, session, "*" * 64),
        ):
            with pytest.raises(NotFound):
                await gateway.services.outputs.read(who, where.id, what, lambda size: (0, size))

    on_gateway(test)


@pytest.fixture
def full_disk(house: House) -> Iterator[Path]:
    """The directory of outputs on a disk of its own, of a megabyte."""
    directory = house.settings.state_path / "outputs"
    directory.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)


def test_a_full_disk_costs_the_text_and_not_the_execution(house: House, full_disk: Path) -> None:
    async def test() -> None:
        async with house.gateway(disk_reserve_bytes=0) as gateway:
            session = await gateway.start()
            gateway.store.away = True
            much = await gateway.run(session, "for n in range(30_000): print((f'{n:07},' * 10)[:-1])")
            assert much.status == "ok"
            (about,) = await full(gateway, session, much)
            assert about["size"] == 2_400_000
            assert "No space left" in about["lost"]
            assert list(full_disk.glob("*/*")) == []
            fits = await gateway.run(session, LINES)
            assert len(await read(gateway, session, (await full(gateway, session, fits))[0]["sha256"])) == 480_000
            gateway.store.away = False

    asyncio.run(test())


def test_secrets_are_struck_out_of_the_full_text_too(house: House) -> None:
    async def test() -> None:
        async with house.gateway(redact_patterns="key-[0-9]+") as gateway:
            session = await gateway.start()
            (about,) = await full(gateway, session, await gateway.run(session, "print('a key-' + '1' * 400_000 + '!')"))
            text = await read(gateway, session, about["sha256"])
            assert text == b"a [redacted]!\n"
            assert hashlib.sha256(text).hexdigest() == about["sha256"]

    asyncio.run(test())


def test_a_session_has_a_bound_of_its_own(house: House) -> None:
    async def test() -> None:
        async with house.gateway(session_output_bytes=500_000) as gateway:
            session = await gateway.start()
            assert "sha256" in (await full(gateway, session, await gateway.run(session, LINES)))[0]
            (about,) = await full(gateway, session, await gateway.run(session, LINES))
            assert about == {
                "stream": "stdout",
                "size": 480_000,
                "lost": "the session's outputs in full are as large as they may be together",
            }

    asyncio.run(test())
