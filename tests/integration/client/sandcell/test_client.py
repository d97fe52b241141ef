"""The Python client, blocking and asynchronous, against a real service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sandcell import (
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    ErrorOutput,
    NotFound,
    Output,
    RichOutput,
    StreamOutput,
    Unauthorized,
)
from tests.running_service import RunningService


def test_a_session_for_the_length_of_a_block(service: RunningService, tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_bytes(b"a,b\n1,2\n")
    with Client(service.url, service.token) as client:
        with client.session(environment="python", name="block") as session:
            session.run("x = 41")
            assert session.run("x + 1").text == "42"
            assert session.upload("in/data.csv", source).size == 8
            assert session.run("print(open('in/data.csv').read())").text == "a,b\n1,2\n"
            assert session.download("in/data.csv") == source.read_bytes()
            copy = session.download_to("in/data.csv", tmp_path / "copy.csv")
            assert copy.read_bytes() == source.read_bytes()
            assert [each.path for each in session.files(recursive=True)] == ["in", "in/data.csv"]
            assert session.command("echo hello").stdout == "hello\n"
            assert b'"nbformat": 4' in session.notebook()
            failed = session.run("1/0")
            assert failed.error is not None
            assert (failed.status, failed.error.name) == ("error", "ZeroDivisionError")
        assert client.get_session(session.id).status == "TERMINATED"
        assert client.workspace_download(session.info.workspace_id, "in/data.csv") == source.read_bytes()
        with pytest.raises(Conflict) as caught:
            client.run(session.id, "1")
        assert caught.value.code == "session_terminated"


def test_results_that_come_when_their_files_are_in_the_store(service: RunningService) -> None:
    with Client(service.url, service.token) as client, client.session(sync="before_return") as session:
        assert session.run("open('f', 'w').write('kept')").sync.durable is True
        assert client.workspace_download(session.info.workspace_id, "f") == b"kept"
        assert session.run("1", sync="async").sync.mode == "async"
        assert session.command("echo too > g").sync.durable is True
        assert client.workspace_download(session.info.workspace_id, "g") == b"too\n"
        shown = client.get_session(session.id).sync
        assert shown.mode == "before_return"
        assert shown.durable is not None
        assert shown.durable.number == 3


def test_events_as_they_come(service: RunningService) -> None:
    with Client(service.url, service.token) as client, client.session() as session:
        execution = session.submit("for n in range(3): print(n)")
        kinds = [event.event for event in session.events(execution.id)]
        assert (kinds[0], kinds[-1]) == ("started", "ended")
        assert session.wait(execution.id).stdout == "0\n1\n2\n"


SHOWS = """
import sys
import matplotlib.pyplot as plt
print("first")
print("careful", file=sys.stderr)
plt.plot([1, 2])
plt.show()
"""


def test_outputs_as_they_come_and_plots_that_are_kept(service: RunningService, tmp_path: Path) -> None:
    seen: list[Output] = []
    with Client(service.url, service.token) as client, client.session() as session:
        result = session.run(SHOWS, on_output=seen.append, timeout=600)
        assert [each for each in seen if isinstance(each, StreamOutput)] == [
            StreamOutput("stdout", "first\n"),
            StreamOutput("stderr", "careful\n"),
        ]
        shown = next(each for each in seen if isinstance(each, RichOutput))
        assert shown.display == result.plots[0]
        assert [path.name for path in result.save(tmp_path / "plots")] == ["plot-1.png"]
        assert [path.name for path in result.save(tmp_path / "plots")] == ["plot-2.png"]
        assert (tmp_path / "plots/plot-2.png").read_bytes() == result.plots[0].content
        seen.clear()
        assert session.run("1/0", on_output=seen.append).status == "error"
        assert [(each.name, each.value) for each in seen if isinstance(each, ErrorOutput)] == [
            ("ZeroDivisionError", "division by zero")
        ]
        before = session.info.generation
        assert session.restart().generation == before + 1
        assert session.shell("exit 3").exit_code == 3


def test_progress_of_transfers(service: RunningService, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4_000
    source = tmp_path / "numbers.bin"
    source.write_bytes(content)
    seen: list[tuple[int, int | None]] = []

    def note(done: int, size: int | None) -> None:
        seen.append((done, size))

    async def scenario() -> None:
        async with AsyncClient(service.url, service.token) as client:
            session = await client.attach(session_id)
            assert (await session.upload("again.bin", content, on_progress=note)).size == len(content)
            assert await session.download("again.bin", tmp_path / "again", on_progress=note) == tmp_path / "again"

    with Client(service.url, service.token) as client, client.session() as session:
        session_id = session.id
        steps: list[Callable[[], object]] = [
            lambda: session.upload(source, on_progress=note),
            lambda: session.upload("same.bin", content, on_progress=note),
            lambda: session.download("numbers.bin", tmp_path / "back", on_progress=note),
            lambda: asyncio.run(scenario()),
        ]
        for step in steps:
            seen.clear()
            step()
            assert seen == sorted(seen) or step is steps[-1]
            assert seen[-1] == (len(content), len(content))
        assert (tmp_path / "back").read_bytes() == (tmp_path / "again").read_bytes() == content


def test_the_same_with_asyncio(service: RunningService, tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.write_bytes(b"x" * 1_000_000)

    async def scenario() -> None:
        async with AsyncClient(service.url, service.token) as client, client.session() as session:
            await session.run("x = 41")
            assert (await session.run("x + 1")).text == "42"
            await session.upload("data", source)
            target = await session.download_to("data", tmp_path / "back")
            assert target.read_bytes() == source.read_bytes()
            execution = await session.submit("print('x')")
            assert [event.event async for event in session.events(execution.id)][-1] == "ended"
            with pytest.raises(NotFound):
                await session.download("absent")

    asyncio.run(scenario())


def test_who_cannot_be_reached_or_may_not(service: RunningService) -> None:
    with Client(service.url, "wrong") as client, pytest.raises(Unauthorized):
        client.list_sessions()
    with Client("http://127.0.0.1:9", "x") as client, pytest.raises(ConnectionFailed, match="cannot reach"):
        client.list_sessions()
