"""Files through a real guest: the user's identity, whole writes, streams in constant memory, refusals with a word."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.errors import GuestRefused
from kernels.guest.workspace.gathering import MAX_GATHERED_BYTES
from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test, until

Runner = Callable[[Test], None]
MEGABYTE = b"x" * 1_000_000


async def content(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def refused(call: Awaitable[object]) -> tuple[int, str]:
    with pytest.raises(GuestRefused) as error:
        await call
    return error.value.status, error.value.code


async def read(guest: RunningGuest, path: str, max_bytes: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in guest.client.read_file(path, max_bytes=max_bytes)])


def test_what_is_written_is_read_and_belongs_to_the_user(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        for name in ("a/b/c.txt", "plain", "ü ö?&+%#", os.fsdecode(b"\xff\xfe"), "new\nline", "-rf", "a" * 255):
            written = await client.write_file(name, content(b"one ", b"two"))
            assert (written.path, written.kind, written.size) == (name, "file", 7)
            assert await read(guest, name) == b"one two"
            assert replace(await client.stat_file(name), version="", settled=False) == written
            at = (guest.workspace / name).stat()
            assert (at.st_uid, at.st_gid, at.st_mode & 0o777) == (guest.user, guest.user, 0o644)
        await client.write_file("empty", content())
        assert await read(guest, "empty") == b""
        os.utime(guest.workspace / "empty", (-1e9, -1e9))
        assert (await client.stat_file("empty")).modified == -1e9
        listed = await client.list_files("", recursive=True, limit=1000)
        assert {entry.path for entry in listed} == {
            str(p.relative_to(guest.workspace)) for p in guest.workspace.rglob("*")
        }
        await client.remove_file("a", recursive=True)
        await client.remove_file("plain")
        await client.remove_file("", recursive=True)
        assert list(guest.workspace.iterdir()) == []

    with_guests(test)


def test_what_is_not_the_user_s_stays_shut(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        secret, shut = guest.workspace / "secret", guest.workspace / "shut"
        secret.write_text("root's")
        secret.chmod(0o640)  # nor does group 0 help
        shut.mkdir(mode=0o700)
        client = guest.client
        assert await refused(read(guest, "secret")) == (403, "permission_denied")
        assert await refused(client.write_file("shut/x", content(b""))) == (403, "permission_denied")
        assert await refused(client.remove_file("shut", recursive=True)) == (403, "permission_denied")
        assert [entry.path for entry in await client.list_files("", recursive=True, limit=9)] == ["secret", "shut"]

    with_guests(test)


def test_refusals(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        client = guest.client
        (guest.workspace / "directory/inner").mkdir(parents=True)
        os.chown(guest.workspace / "directory", guest.user, guest.user)
        (guest.workspace / "file").touch()
        (guest.workspace / "link").symlink_to("/etc/passwd")
        (guest.workspace / "up").symlink_to("/etc")
        os.mkfifo(guest.workspace / "pipe", 0o666)
        for path in ("../x", "/etc/passwd", "directory/../../x", "a\0b", "\ud800"):
            assert await refused(client.stat_file(path)) == (400, "invalid_path")
            assert await refused(client.write_file(path, content(MEGABYTE, MEGABYTE))) == (400, "invalid_path")
        assert await refused(read(guest, "nothing")) == (404, "not_found")
        assert await refused(read(guest, "link")) == (409, "is_a_link")
        assert await refused(read(guest, "up/passwd")) == (409, "not_a_directory")
        assert await refused(read(guest, "directory")) == (409, "is_a_directory")
        assert await refused(read(guest, "pipe")) == (409, "not_a_file")
        assert await refused(read(guest, "")) == (409, "is_a_directory")
        assert await refused(client.write_file("directory", content(b""))) == (409, "is_a_directory")
        assert await refused(client.write_file("file/below", content(b""))) == (409, "not_a_directory")
        assert await refused(client.write_file("a" * 256, content(b""))) == (400, "invalid_path")
        assert await refused(client.remove_file("directory")) == (409, "directory_not_empty")
        assert await refused(client.remove_file("")) == (409, "is_a_directory")
        assert await refused(client.list_files("file", recursive=False, limit=1)) == (409, "not_a_directory")
        assert await refused(client.list_files("", recursive=False, limit=0)) == (400, "invalid_request")
        kinds = {entry.path: entry.kind for entry in await client.list_files("", recursive=False, limit=9)}
        assert kinds == {"directory": "directory", "file": "file", "link": "link", "pipe": "other", "up": "link"}

    with_guests(test)


def test_a_write_replaces_a_link_and_not_what_it_points_to(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        target = guest.workspace / "target"
        target.write_text("old")
        (guest.workspace / "name").symlink_to("target")
        await guest.client.write_file("name", content(b"new"))
        assert (target.read_text(), (guest.workspace / "name").read_text()) == ("old", "new")
        assert not (guest.workspace / "name").is_symlink()
        script = guest.workspace / "script"
        script.touch(mode=0o755)
        await guest.client.write_file("script", content(b"#!/bin/sh"))
        assert script.stat().st_mode & 0o777 == 0o755

    with_guests(test)


def test_a_write_that_breaks_off_leaves_the_old_file(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await guest.client.write_file("file", content(b"old"))

        async def broken() -> AsyncIterator[bytes]:
            yield MEGABYTE
            raise ConnectionResetError("the uploader hung up")

        with pytest.raises(ConnectionResetError):
            await guest.client.write_file("file", broken())

        async def alone() -> bool:
            return [path.name for path in guest.workspace.iterdir()] == ["file"]

        await until(alone)
        assert await read(guest, "file") == b"old"

    with_guests(test)


def test_a_full_disk_is_said_and_leaves_the_old_file(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        small = guest.workspace / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "small", str(small)]
        await asyncio.to_thread(subprocess.run, mount, check=True)
        try:
            await guest.client.write_file("small/file", content(b"old"))
            assert await refused(guest.client.write_file("small/file", content(*[MEGABYTE] * 20))) == (507, "no_space")
            assert await read(guest, "small/file") == b"old"
            assert [path.name for path in small.iterdir()] == ["file"]
        finally:
            await asyncio.to_thread(subprocess.run, ["umount", str(small)], check=True)

    with_guests(test)


def test_hundred_megabytes_pass_in_constant_memory(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        before = memory_peak_kilobytes(guest.pid)
        await guest.client.write_file("large", content(*[MEGABYTE] * 100))
        received = 0
        async for chunk in guest.client.read_file("large"):
            received += len(chunk)
        assert received == 100_000_000
        assert memory_peak_kilobytes(guest.pid) - before < 10_000
        assert await refused(read(guest, "large", max_bytes=99_999_999)) == (413, "too_large")

    with_guests(test)


def test_many_files_in_one_call(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        (guest.workspace / "taken").mkdir()
        before = memory_peak_kilobytes(guest.pid)
        files: list[tuple[str, bytes | str]] = [(f"d{each % 7}/{each}", str(each)) for each in range(3_000)]
        files += [("taken", b"x"), ("../out", b"x"), ("large", MEGABYTE * 50), ("link", "new"), ("ü", "last")]
        (guest.workspace / "link").symlink_to("d0/0")
        refused = await guest.client.write_files(files)
        assert [(number, error.code) for number, error in refused] == [
            (3_000, "is_a_directory"),
            (3_001, "invalid_path"),
        ]
        assert (guest.workspace / "d3/2999").read_text() == "2999"
        assert (guest.workspace / "d0/0").read_text() == "0", "a link is replaced, not followed"
        assert [(guest.workspace / name).stat().st_size for name in ("large", "link", "ü")] == [50_000_000, 3, 4]
        assert {path.stat().st_uid for path in guest.workspace.rglob("*") if path.name != "taken"} == {guest.user}
        assert not list(guest.workspace.rglob(".sandcell-upload-*"))
        assert memory_peak_kilobytes(guest.pid) - before < 10_000
        assert await guest.client.write_files([]) == []
        paths = [path for path, _ in files[:3_000]]
        assert [(number, error.code) for number, error in await guest.client.remove_files([*paths, "none"])] == [
            (3_000, "not_found")
        ]
        assert not any(path.is_file() for path in guest.workspace.glob("d*/*"))
        longest = "\udcff" * 4_096
        assert {error.code for _, error in await guest.client.remove_files([longest] * 200)} == {"invalid_path"}

    with_guests(test)


def test_many_small_files_come_in_one_answer(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        top = str(guest.workspace).lstrip("/")
        files: list[tuple[str, bytes | str]] = [(f"d{each % 7}/{each}", str(each) * (each % 3)) for each in range(300)]
        files += [("ü\udcff", b"\0\xff"), ("large", b"x" * MAX_GATHERED_BYTES), ("after", b"fits"), ("empty", b"")]
        assert await guest.client.write_files(files) == []
        (guest.workspace / "link").symlink_to("after")
        asked = [*(path for path, _ in files), "link", "d0", "none", "d0/../after"]
        found = await guest.client.read_files([f"{top}/{path}" for path in asked])
        said = {
            path: each.code if isinstance(each, GuestRefused) else each for path, each in zip(asked, found, strict=True)
        }
        for path, content in files:
            if path != "large":
                assert said[path] == (content if isinstance(content, bytes) else content.encode()), path
        assert said["large"] == "too_large"
        assert [said[path] for path in asked[-4:]] == ["is_a_link", "is_a_directory", "not_found", "invalid_path"]

    with_guests(test)


def test_many_files_that_break_off_or_do_not_fit(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        small = guest.workspace / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "small", str(small)]
        await asyncio.to_thread(subprocess.run, mount, check=True)
        try:
            files = [("small/a", b"a"), ("small/b", MEGABYTE * 3), ("small/c", b"c")]
            ((number, error),) = await guest.client.write_files(files)
            assert (number, error.status, error.code) == (1, 507, "no_space")
            assert sorted(path.name for path in small.iterdir()) == ["a", "c"]
        finally:
            await asyncio.to_thread(subprocess.run, ["umount", str(small)], check=True)
        endless = asyncio.create_task(guest.client.write_files([("whole", b"1"), ("broken", MEGABYTE * 90)]))
        await until(lambda: asyncio.to_thread(lambda: bool(list(guest.workspace.glob(".sandcell-upload-*")))))
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless

        async def alone() -> bool:
            return sorted(path.name for path in guest.workspace.iterdir()) == ["small", "whole"]

        await until(alone)

    with_guests(test)


def test_a_file_that_shrinks_while_it_is_read_is_no_whole_answer(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await guest.client.write_file("shrinking", content(*[MEGABYTE] * 10))

        async def read_and_shrink() -> None:
            async for _ in guest.client.read_file("shrinking"):
                os.truncate(guest.workspace / "shrinking", 10)

        with pytest.raises(GuestRefused) as refused:
            await read_and_shrink()
        assert (refused.value.status, refused.value.code) == (409, "file_changed")

    with_guests(test)


def test_a_part_is_of_the_version_that_was_looked_at(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await guest.client.write_file("data", content(b"0123456789"))
        looked = await guest.client.stat_file("data")
        assert looked.version
        for start, end in ((0, 10), (3, 7), (10, 10)):
            chunks = await guest.client.open_part(looked, start, end)
            assert b"".join([chunk async for chunk in chunks]) == b"0123456789"[start:end]
        for start, end in ((7, 3), (0, 11)):
            assert (await refused(guest.client.open_part(looked, start, end)))[0] == 400
        os.utime(guest.workspace / "data", ns=(1, 1))
        assert await refused(guest.client.open_part(looked, 3, 7)) == (409, "file_changed")

    with_guests(test)


def test_a_file_is_read_in_one_version_or_not_to_its_end(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        await guest.client.write_file("a/b", content(b"first"))
        found, chunks = await guest.client.open_file("a//b")
        assert (found.path, found.kind, found.size) == ("a/b", "file", 5)
        await guest.client.write_file("a/b", content(b"another"))
        assert b"".join([chunk async for chunk in chunks]) == b"first"
        await guest.client.write_file("large", content(*[MEGABYTE] * 10))
        received = b""

        async def read_and_write() -> None:
            nonlocal received
            async for chunk in guest.client.read_file("large"):
                if not received:
                    with (guest.workspace / "large").open("r+b") as file:
                        file.write(b"other bytes, and as many")
                received += chunk

        with pytest.raises(GuestRefused, match="changed while it was read"):
            await read_and_write()
        assert len(received) < 10 * len(MEGABYTE)

    with_guests(test)


def memory_peak_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
