"""What a watch and a listing of all files enter, and how a watch ends; with the kernel's own inotify."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import GuestRefused
from kernels.guest.refusal import Refusal
from kernels.guest.workspace import files, watching
from kernels.guest.workspace.sandbox_tree import CLOSED, SandboxTree
from kernels.guest.workspace.watching import Watch
from kernels.guest_client import answers


async def watch(root: Path, path: str = "", *, recursive: bool = True) -> Watch:
    found = Watch(SandboxTree(str(root)), asyncio.to_thread, recursive=recursive)
    await found.open(path)
    return found


async def names_until(seen: Watch, last: str) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(120):
        while last not in found:
            found.append((await seen.next())["name"])
    return found


def test_what_is_closed_is_neither_listed_nor_watched_from_above(tmp_path: Path) -> None:
    for name in (*CLOSED, "home", "home/proc"):
        (tmp_path / name / "inner").mkdir(parents=True)

    async def test() -> list[str]:
        seen = await watch(tmp_path)
        for path in tmp_path.glob("**/inner"):
            (path / "x").touch()
        (tmp_path / "last").touch()
        found = await names_until(seen, "last")
        seen.close()
        return found

    assert set(asyncio.run(test())) - {"last"} == {"home/inner/x", "home/proc/inner/x"}
    inner = {"home/proc/inner", "home/proc/inner/x"}
    listed = {each["path"] for each in SandboxTree(str(tmp_path)).list("", recursive=True, limit=99)}
    assert listed == {*CLOSED, "last", "home", "home/inner", "home/inner/x", "home/proc", *inner}
    with pytest.raises(Refusal, match="the root stays"):
        SandboxTree(str(tmp_path)).remove("", recursive=True)


def test_no_link_leads_a_watch_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "proc/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("proc")
    for path in ("link", "link/inner"):
        with pytest.raises(NotADirectoryError):
            asyncio.run(watch(tmp_path, path))


def test_attempts_count_and_have_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(watching, "MAX_DIRECTORIES", 3)

    def fail(*_: object) -> int:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(watching, "open_directory", fail)
        with pytest.raises(Refusal, match="at most 3 directories"):
            asyncio.run(watch(tmp_path))
    monkeypatch.setattr(files, "WALK_SECONDS", -1.0)
    with pytest.raises(TimeoutError):
        asyncio.run(watch(tmp_path))


def test_a_closed_watch_stops_its_look(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    late: list[Callable[[], object]] = []

    async def hold_back(function: Callable[..., object], below: str) -> None:
        if below:
            late.append(lambda: function(below))
        else:
            function(below)

    async def test() -> None:
        seen = Watch(SandboxTree(str(tmp_path)), hold_back, recursive=True)
        await seen.open("")
        (tmp_path / "new").mkdir()
        await names_until(seen, "new")
        await asyncio.sleep(0)
        seen.close()
        with pytest.raises(OSError, match="it was closed"):
            late[0]()

    asyncio.run(test())


def test_lost_changes_end_a_watch(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()

    async def test() -> dict[str, object]:
        seen = await watch(tmp_path, recursive=False)
        for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 2 + 1):
            (tmp_path / "a").chmod(0o600)
            (tmp_path / "b").chmod(0o600)
        async with asyncio.timeout(120):
            while (event := await seen.next())["event"] == "change":
                pass
        seen.close()
        return event

    with pytest.raises(GuestRefused, match="more changed at once"):
        answers.parse_change(asyncio.run(test()))
