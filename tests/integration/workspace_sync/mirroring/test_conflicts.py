"""Another client changes, adds or removes objects of a workspace that a live directory is mirrored to."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from workspace_sync import Mirror, ObjectStore, TransferLimits
from workspace_sync.stores.local import LocalStore
from workspace_sync.stores.s3.store import S3Store

DEADLINE_SECONDS = 120.0
LIMITS = TransferLimits(settle_seconds=0.0)


@pytest.fixture(params=["local", "moto"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "local":
        yield LocalStore(str(tmp_path / "store"))
        return
    s3 = S3Store(BUCKET, uuid.uuid4().hex, endpoint_url=request.getfixturevalue("moto_endpoint"), access_key=ACCESS_KEY)
    yield s3
    s3.close()


class Workspace:
    """One directory under a mirror, and what another client does to its objects meanwhile."""

    def __init__(self, store: ObjectStore, executor: ThreadPoolExecutor, top: Path) -> None:
        self.store = store
        self.directory = top / "live"
        self.directory.mkdir()
        self._top = top
        self._executor = executor
        self.mirror = self.made(self.directory)

    def made(self, directory: Path) -> Mirror:
        return Mirror(str(directory), self.store, "workspace-of-two", limits=LIMITS, executor=self._executor)

    async def flush(self, *, final: bool = False) -> None:
        await asyncio.sleep(0.03)  # so that what is unchanged since is known to be
        await self.mirror.flush(DEADLINE_SECONDS, final=final)

    async def remake(self) -> None:
        await self.mirror.aclose()
        self.mirror = self.made(self.directory)

    def put(self, path: str, content: bytes) -> None:
        self.store.put(f"workspace-of-two/workspace/{path}", io.BytesIO(content), len(content))

    def remove(self, path: str) -> None:
        self.store.delete([f"workspace-of-two/workspace/{path}"])

    def objects(self) -> dict[str, bytes]:
        found = {}
        for each in self.store.list("workspace-of-two/workspace/"):
            with self.store.get(each.key) as stream:
                found[each.key.removeprefix("workspace-of-two/workspace/")] = stream.read()
        return found

    def agrees(self, path: str) -> bool:
        """Whether the manifest names the object that is there."""
        with self.store.get("workspace-of-two/manifest.json") as stream:
            rows = {row["path"]: row for row in msgspec.json.decode(stream.read())["entries"]}
        return bool(self.store.stat(f"workspace-of-two/workspace/{path}").etag == rows.get(path, {}).get("etag"))

    async def next_session(self) -> dict[str, bytes]:
        """The files that it begins with."""
        directory = self._top / uuid.uuid4().hex
        directory.mkdir()
        mirror = self.made(directory)
        try:
            await mirror.restore()
        finally:
            await mirror.aclose()
        return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def carry_out(
    store: ObjectStore, executor: ThreadPoolExecutor, tmp_path: Path
) -> Callable[[Callable[[Workspace], Awaitable[None]]], None]:
    """Runs a scenario that begins with two files in the store."""

    async def run(scenario: Callable[[Workspace], Awaitable[None]]) -> None:
        workspace = Workspace(store, executor, tmp_path)
        try:
            (workspace.directory / "mine").write_bytes(b"as it was")
            (workspace.directory / "other").write_bytes(b"another")
            await workspace.flush()
            await scenario(workspace)
        finally:
            await workspace.mirror.aclose()

    return lambda scenario: asyncio.run(run(scenario))


Scenarios = Callable[[Callable[[Workspace], Awaitable[None]]], None]


def test_what_the_session_leaves_alone_stays_as_the_other_left_it(carry_out: Scenarios) -> None:
    async def scenario(workspace: Workspace) -> None:
        workspace.put("mine", b"as theirs")  # of the same size
        workspace.put("added", b"added")
        (workspace.directory / "new").write_bytes(b"new")
        await workspace.flush(final=True)
        left = {"mine": b"as theirs", "other": b"another", "added": b"added", "new": b"new"}
        assert workspace.objects() == left
        assert not workspace.agrees("mine")
        assert not workspace.agrees("added")
        assert workspace.agrees("other")
        assert await workspace.next_session() == left

    carry_out(scenario)


def test_what_the_session_changes_or_removes_afterwards_is_the_sessions(carry_out: Scenarios) -> None:
    async def scenario(workspace: Workspace) -> None:
        workspace.put("mine", b"as theirs")
        workspace.put("other", b"theirs too")
        (workspace.directory / "mine").write_bytes(b"changed here")
        (workspace.directory / "other").unlink()
        await workspace.flush()
        assert workspace.objects() == {"mine": b"changed here"}
        assert workspace.agrees("mine")

    carry_out(scenario)


def test_what_the_other_removed_is_sent_again_by_a_mirror_remake_only(carry_out: Scenarios) -> None:
    async def scenario(workspace: Workspace) -> None:
        workspace.remove("mine")
        await workspace.flush(final=True)
        assert workspace.objects() == {"other": b"another"}
        await workspace.remake()
        await workspace.flush()
        assert workspace.objects() == {"mine": b"as it was", "other": b"another"}
        assert workspace.agrees("mine")

    carry_out(scenario)


def test_a_mirror_remake_writes_what_the_directory_has_and_removes_nothing_of_the_others(
    carry_out: Scenarios,
) -> None:
    async def scenario(workspace: Workspace) -> None:
        await workspace.mirror.aclose()
        workspace.put("mine", b"as theirs")
        workspace.put("added", b"added")
        (workspace.directory / "other").unlink()
        await workspace.remake()
        await workspace.flush()
        assert workspace.objects() == {"mine": b"as it was", "added": b"added"}
        (workspace.directory / "added").mkdir()
        (workspace.directory / "added" / "below").write_bytes(b"the session's directory")
        await workspace.flush()
        assert workspace.objects() == {"mine": b"as it was", "added/below": b"the session's directory"}

    carry_out(scenario)


@pytest.mark.parametrize("theirs", [b"as theirs", None], ids=["changed", "removed"])
def test_a_rename_copies_no_bytes_that_are_not_the_sessions(carry_out: Scenarios, theirs: bytes | None) -> None:
    async def scenario(workspace: Workspace) -> None:
        if theirs is None:
            workspace.remove("mine")
        else:
            workspace.put("mine", theirs)
        (workspace.directory / "mine").rename(workspace.directory / "renamed")
        await workspace.flush()
        assert workspace.objects() == {"renamed": b"as it was", "other": b"another"}
        assert workspace.agrees("renamed")

    carry_out(scenario)
