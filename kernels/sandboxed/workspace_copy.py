"""The service's copy of a workspace that is on another machine: laid out there once, and brought up to date from there.

For a runtime whose `SandboxInfo` says `workspace_copy`. All goes through the guest, which is hostile: what it lists is
held to the bounds of the workspace, names lead nowhere but into the copy, and no link is followed. Only the service
writes in the copy, so what was looked at stays as it was. What code has closed to itself is unknown, and stays.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from kernels.errors import GuestRefused, KernelsError, SandboxFailed
from kernels.guest_client.answers import FileStat
from kernels.guest_client.client import GuestClient

MOST_NAMES: Final = 100_000
LONGEST_PATH_BYTES: Final = 4095
"""Of what a system call takes as a path. Code may go deeper, step by step."""
UNPACK_SECONDS: Final = 300.0
THREADS: Final = 4
_TOP: Final = "workspace"
_PACKED: Final = "tmp/.sandcell-workspace.tar"
_UNPACK: Final = (
    "f=/tmp/.sandcell-workspace.tar; { tar -xpf $f -C /workspace || python3 -I -m tarfile -e $f /workspace; }; s=$?;"
    " rm -f $f; exit $s"
)
_PIECE: Final = 256 * 1024
_PART: Final = "incoming"
_WHOLE: Final = "whole"
SMALL_BYTES: Final = 64 * 1024
"""Files up to this size are fetched many at once."""
MOST_TOGETHER: Final = 256
TOGETHER_BYTES: Final = 4 * 1024 * 1024
_PATHS_BYTES: Final = 200_000
"""Of their names: the longest still fit into one request as JSON writes them."""
_CHANGING: Final = ("not_found", "file_changed", "not_a_file", "is_a_directory", "not_a_directory", "is_a_link")
"""What a guest says of files that are not any more as they were listed."""


T = TypeVar("T")
_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="workspace-copy")
"""Of their own: those of the loop may all wait for a copy to be up to date, which is what these do."""


class WorkspaceCopy:
    """`directory` is the copy, alone in a directory of the service's; it holds at most `most_bytes`."""

    def __init__(self, guest: GuestClient, directory: str, most_bytes: int) -> None:
        self._guest = guest
        self._top = Path(directory)
        self._most_bytes = most_bytes
        self._versions: dict[str, tuple[str, str, int]] = {}
        self._taken: list[FileStat] | None = None
        """What the guest listed the last time, if the copy has all of it."""
        self._live = False
        self._pulling = asyncio.Lock()
        self.unknown: Mapping[bytes, str] = {}
        """Paths that could not be looked at the last time, with all beneath them, and why."""

    @property
    def whole(self) -> bool:
        """Whether all of the workspace has been here: else what is missing here is no sign that it was removed."""
        return self._top.with_name(_WHOLE).exists()

    async def push(self) -> None:
        """Lay the copy out in the sandbox, whose workspace is empty: it is live then. Raises KernelsError."""
        with tempfile.TemporaryFile() as packed:
            if await _in_thread(_pack, self._top, packed):
                await self._guest.write_file(_PACKED, _read(packed), everywhere=True)
                done = await self._guest.run_command(_UNPACK, timeout_seconds=UNPACK_SECONDS, output_bytes=4096)
                if done.exit_code != 0:
                    raise SandboxFailed(f"the workspace could not be laid out: {done.stderr.strip()[:500]}")
        self._top.with_name(_WHOLE).touch()
        self.go_on()

    def go_on(self) -> None:
        """From now on the sandbox has what counts."""
        self._live = True

    async def pull(self) -> None:
        """Bring the copy up to date, while it is live. Raises KernelsError, OSError; then it is in between."""
        async with self._pulling:
            if self._live:
                await self._pull()

    async def finish(self, seconds: float) -> str:
        """The last time, before nothing runs there any more: why it is not up to date, empty when it is."""
        try:
            async with asyncio.timeout(seconds):
                await self.pull()
        except (KernelsError, OSError, TimeoutError) as error:
            return str(error) or "it took too long"
        finally:
            self._live = False
        return ""

    async def aclose(self) -> None:
        self._live = False
        await self._guest.aclose()

    async def _pull(self) -> None:
        listed = await self._guest.list_tree(_TOP, limit=MOST_NAMES)
        if listed == self._taken:  # as after most executions
            return
        self._taken = None
        wanted, beyond = split_reachable(check(listed, self._most_bytes), len(os.fsencode(self._top)))
        gone = await _in_thread(_find_gone, self._top, wanted, self._most_bytes)
        if gone:  # under another name they may be among what is still to come: until then the store keeps them
            self._top.with_name(_WHOLE).unlink(missing_ok=True)
        await _in_thread(_remove, gone)
        self._versions = {path: known for path, known in self._versions.items() if path in wanted}
        unknown = {os.fsencode(path): "cannot be listed" for path, entry in wanted.items() if entry.unread}
        unknown |= {os.fsencode(path): "its path is too long" for path in beyond}
        small: dict[str, FileStat] = {}
        for path, entry in wanted.items():  # a directory comes before what is in it
            place, known = self._top / path, _describe(entry)
            if self._versions.get(path) == known:
                continue
            if entry.kind == "directory":
                await _in_thread(_make_directory, place, entry.mode)
            elif entry.kind == "link":
                await self._take_link(entry, place)
            elif entry.kind == "file" and entry.size <= SMALL_BYTES:
                small[path] = entry
                continue
            elif entry.kind != "file" or not await self._take_file(entry, place, unknown):
                continue
            self._versions[path] = known
        for group in share_out(small):
            for path in await self._take_together(group, unknown):
                self._versions[path] = _describe(small[path])
        self.unknown = unknown
        self._top.with_name(_WHOLE).touch()
        if not unknown and self._versions == {path: _describe(entry) for path, entry in wanted.items()}:
            self._taken = listed

    async def _take_together(self, group: Mapping[str, FileStat], unknown: dict[bytes, str]) -> list[str]:
        """Put these files there; gives those that could be. The others are as with `_take_file`."""
        try:
            found = await self._guest.read_files([entry.path for entry in group.values()])
        except GuestRefused:  # the guest of an earlier release
            return [path for path, entry in group.items() if await self._take_file(entry, self._top / path, unknown)]
        taken: dict[str, bytes] = {}
        for (path, entry), content in zip(group.items(), found, strict=True):
            if isinstance(content, GuestRefused):
                if content.code not in (*_CHANGING, "too_large"):
                    unknown[os.fsencode(path)] = f"cannot be read: {content}"
            elif len(content) == entry.size:  # else it changes meanwhile
                taken[path] = content
        await _in_thread(self._put, group, taken)
        return list(taken)

    def _put(self, group: Mapping[str, FileStat], taken: Mapping[str, bytes]) -> None:
        unfinished = self._top.with_name(_PART)
        try:
            for path, content in taken.items():
                unfinished.write_bytes(content)
                _finish(unfinished, group[path], self._top / path)
        finally:
            unfinished.unlink(missing_ok=True)

    async def _take_link(self, entry: FileStat, place: Path) -> None:
        """It changes meanwhile, or is gone: the next time, perhaps."""
        try:
            target = (await self._guest.stat_file(entry.path, everywhere=True)).target
        except GuestRefused:
            return
        place.unlink(missing_ok=True)
        if target and "\0" not in target:
            place.symlink_to(target)

    async def _take_file(self, entry: FileStat, place: Path, unknown: dict[bytes, str]) -> bool:
        """Put one file there; False when it changes meanwhile, is gone or unknown: the next time, perhaps."""
        unfinished = self._top.with_name(_PART)
        try:
            with unfinished.open("wb") as file:
                _, chunks = await self._guest.open_file(entry.path, max_bytes=entry.size, everywhere=True)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        await _in_thread(_append, file, chunk)
                await _in_thread(file.truncate)
            _finish(unfinished, entry, place)
        except GuestRefused as refused:
            if refused.code not in _CHANGING:
                unknown[os.fsencode(place.relative_to(self._top))] = f"cannot be read: {refused}"
            return False
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()
        return True


def share_out(files: Mapping[str, FileStat]) -> Iterator[dict[str, FileStat]]:
    """Small files in groups that one answer has room for (pure)."""
    group: dict[str, FileStat] = {}
    held = names = 0
    for path, entry in files.items():
        size, length = entry.size, len(os.fsencode(path))
        if group and (len(group) >= MOST_TOGETHER or held + size > TOGETHER_BYTES or names + length > _PATHS_BYTES):
            yield group
            group, held, names = {}, 0, 0
        group[path] = entry
        held, names = held + size, names + length
    if group:
        yield group


def _describe(entry: FileStat) -> tuple[str, str, int]:
    """What differs once it has changed."""
    return entry.kind, entry.version, entry.mode


def _finish(unfinished: Path, entry: FileStat, place: Path) -> None:
    """Put what was fetched in its place."""
    unfinished.chmod(entry.mode & 0o777 | 0o600)
    seconds = int(max(entry.modified, 0) * 1e9)
    os.utime(unfinished, ns=(seconds, seconds))
    unfinished.replace(place)


def _append(file: IO[bytes], chunk: bytes) -> None:
    """Zeros become a hole: holes come as the zeros that they read as, and take no room here either."""
    if chunk.strip(b"\0"):
        file.write(chunk)
    else:
        file.seek(len(chunk), os.SEEK_CUR)


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """A caller that is cancelled waits until the thread is done: the next pull writes to the same places."""
    doing = asyncio.get_running_loop().run_in_executor(_threads, work, *arguments)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise


def check(listed: list[FileStat], most_bytes: int) -> dict[str, FileStat]:
    """By path below the workspace, what the guest lists, when it can be the tree of a workspace (pure)."""
    wanted: dict[str, FileStat] = {}
    if len(listed) >= MOST_NAMES:
        raise SandboxFailed(f"the workspace has {MOST_NAMES:,} names or more")
    if sum(each.size for each in listed if each.kind == "file") > most_bytes:
        raise SandboxFailed(f"the workspace holds more than {most_bytes:,} bytes")
    for each in listed:
        if not _is_one_name(each.path):
            raise SandboxFailed(f"the guest lists what no file system calls a file: {each.path[:200]!a}")
        top, _, path = each.path.partition("/")
        parts = path.split("/")
        if top != _TOP or path in wanted or any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise SandboxFailed(f"the guest lists what is not in the workspace: {each.path[:200]!a}")
        above = "/".join(parts[:-1])
        if above and (above not in wanted or wanted[above].kind != "directory"):
            raise SandboxFailed(f"the guest lists what is in no directory: {each.path[:200]!a}")
        wanted[path] = each
    return wanted


def split_reachable(wanted: dict[str, FileStat], above_bytes: int) -> tuple[dict[str, FileStat], list[str]]:
    """What a copy below a path of so many bytes can hold, and the first of each branch that is too deep (pure)."""
    near: dict[str, FileStat] = {}
    beyond: list[str] = []
    for path, entry in wanted.items():
        above = path.rpartition("/")[0]
        if above_bytes + 1 + len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
            near[path] = entry
        elif not above or above in near:
            beyond.append(path)
    return near, beyond


def _is_one_name(path: str) -> bool:
    """Whether no other text is the same name on a disk, which compares bytes: so no two entries are one."""
    try:
        return os.fsdecode(os.fsencode(path)) == path
    except UnicodeEncodeError:
        return False


def _make_directory(place: Path, mode: int) -> None:
    """There already, perhaps; but never through a link, which would lead out of the copy."""
    try:
        place.mkdir()
    except FileExistsError:
        if _kind(place) != "directory":
            raise SandboxFailed(f"the copy of the workspace has something else at {place.name!a}") from None
    place.chmod(mode & 0o777 | 0o700)


def _find_gone(top: Path, wanted: dict[str, FileStat], most_bytes: int) -> list[Path]:
    """What is not there any more, or is there as another kind of thing.

    Raises SandboxFailed where what stays, as nobody can look at it, and what comes are together more than a workspace.
    """
    gone: list[Path] = []
    kept: set[str] = set()
    names, held = len(wanted), sum(each.size for each in wanted.values() if each.kind == "file")
    for directory, directories, files in os.walk(top, topdown=True):
        above, lost = os.path.relpath(directory, top), set()
        unread = above in kept or (above in wanted and wanted[above].unread)
        for name in (*directories, *files):
            place = Path(directory, name)
            path, kind = str(place.relative_to(top)), _kind(place)
            entry, size = wanted.get(path), place.lstat().st_size if kind == "file" else 0
            if entry is None and unread:
                kept.add(path)
                names, held = names + 1, held + size
            elif entry is not None and entry.kind == kind:
                held += max(0, size - entry.size) if kind == "file" else 0  # what comes may not come: then it stays
            else:
                gone.append(place)
                lost.add(name)
        directories[:] = [name for name in directories if name not in lost]
    if names >= MOST_NAMES or held > most_bytes:
        raise SandboxFailed(f"the workspace with what cannot be read holds {names:,} names, {held:,} bytes: too many")
    return gone


def _remove(gone: list[Path]) -> None:
    for place in gone:
        if _kind(place) == "directory":
            shutil.rmtree(place)
        else:
            place.unlink()


def _kind(place: Path) -> str:
    mode = place.lstat().st_mode
    return "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"


def _pack(top: Path, packed: IO[bytes]) -> bool:
    """All that is in a directory, as a tar file; False when it is empty."""
    names = sorted(os.listdir(top))  # noqa: PTH208 - names
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            archive.add(top / name, name)
    packed.seek(0)
    return bool(names)


async def _read(packed: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await _in_thread(packed.read, _PIECE):
        yield piece
