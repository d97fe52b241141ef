"""Stops all of a sandbox and moves its memory to swap, and lets it go on: the freezer and process_madvise(2).

Blocking. A stopped sandbox keeps its processes, sockets and timers; nothing in it runs until it is thawed. What other
processes share with it (the pages of an image's libraries) stays where it is.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kernels import system_calls
from kernels.errors import SandboxFailed
from kernels.host_memory import read_meminfo
from kernels.oci.cgroups import Cgroups
from kernels.sandbox import PagedOut

log = logging.getLogger(__name__)

FREEZE_SECONDS: Final = 5.0
"""A group that has not stopped by then, since one of its processes cannot, goes on."""
MOST_MAPPINGS: Final = 20_000
"""Of one sandbox, that hold memory; a program can make millions, and what is beyond stays where it is."""
MOST_PARTS: Final = 1_024
"""That one mapping is moved in."""
_PIECE_BYTES: Final = 16 << 20
"""Of memory moved with one call: who wants the sandbox back waits for one at most."""
_ROUNDS: Final = 4
"""A page that was used a moment ago only becomes one that can be taken in the first."""
_LITTLE_BYTES: Final = 1 << 20
_PROCESS_MADVISE: Final = 440
_MADV_PAGEOUT: Final = 21
_AT_ONCE: Final = 512
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_POLL_SECONDS: Final = 0.002
_HEADER: Final = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) ")
_NO_SWAP: Final = "the host has {free:,} bytes of swap free, less than the {needed:,} that the sandbox holds"


class _Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class IdleMemory:
    """Of the sandboxes whose groups are `cgroups`. The caller sees to it that one call at a time is about a sandbox."""

    def __init__(self, cgroups: Cgroups, *, read: Callable[[], Mapping[str, int]] = read_meminfo) -> None:
        self._cgroups = cgroups
        self._read = read

    def page_out(self, sandbox_id: str, stop: threading.Event) -> PagedOut:
        """Stop the sandbox and move what it holds. It runs on when `stop` is set meanwhile, or nothing can be moved.

        Raises `SandboxGone`, `SandboxFailed`.
        """
        freezer = self._cgroups.freezer(sandbox_id)
        if freezer is None:
            return PagedOut(0, "nothing of it runs in a control group that can be stopped")
        before = self._cgroups.held_bytes(sandbox_id)
        free = self._read().get("SwapFree", 0)
        if free < before:
            return PagedOut(0, _NO_SWAP.format(free=free, needed=before))
        kept = False
        try:
            self._cgroups.allow_swap(sandbox_id, before)
            _set_frozen(freezer, frozen=True, stop=stop)
            for process in _processes(freezer):
                if stop.is_set():
                    break
                _page_out_process(process, freezer, stop)
            left = self._reclaim(sandbox_id, stop)
            # What is left was in use by several of its processes a moment ago (gVisor's), or swap is full meanwhile.
            moved, had_room = before - left, self._read().get("SwapFree", 0) >= left
            kept = not stop.is_set() and moved > 0 and (had_room or moved * 2 > before)
        except OSError as error:
            raise SandboxFailed(f"the sandbox's memory cannot be moved to swap: {error}") from error
        finally:
            if not kept:
                self.thaw(sandbox_id)
        if kept:  # who wants it since then thaws it
            return PagedOut(moved)
        if stop.is_set():
            return PagedOut(0, "the sandbox was wanted")
        return PagedOut(0, f"the host's swap took {max(moved, 0):,} bytes of {before:,}")

    def _reclaim(self, sandbox_id: str, stop: threading.Event) -> int:
        """Have the kernel take what was written to swap, and what several processes share; says what is left."""
        for _ in range(_ROUNDS):
            while not stop.is_set() and self._cgroups.reclaim(sandbox_id, _PIECE_BYTES):
                pass
            left = self._cgroups.held_bytes(sandbox_id)
            if stop.is_set() or left < _LITTLE_BYTES:
                break
        return left

    def thaw(self, sandbox_id: str) -> None:
        """Let it go on; one that runs, or is gone, stays as it is. Its memory comes back as it is used.

        Raises `SandboxFailed`.
        """
        freezer = self._cgroups.freezer(sandbox_id)
        if freezer is None:
            return
        try:
            _set_frozen(freezer, frozen=False)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SandboxFailed(f"the sandbox cannot be made to go on: {error}") from error
        try:
            self._cgroups.allow_swap(sandbox_id, 0)
        except OSError as error:  # it goes on all the same, and is bounded again after its next move
            log.warning("swap_not_bounded %s: %s", sandbox_id, error)


def _set_frozen(freezer: Path, *, frozen: bool, stop: threading.Event | None = None) -> None:
    """Write the freezer's file and, to freeze, wait until every process has stopped, or until `stop` is set."""
    first_version = freezer.name == "freezer.state"
    words = ("THAWED", "FROZEN") if first_version else ("0", "1")
    freezer.write_text(words[frozen])
    if not frozen:
        return
    give_up = time.monotonic() + FREEZE_SECONDS
    while not _is_frozen(freezer) and not (stop is not None and stop.is_set()):
        if time.monotonic() > give_up:
            raise OSError(0, f"its processes did not stop within {FREEZE_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
        if first_version:  # a process that was made meanwhile is only found by another look
            freezer.write_text("FROZEN")


def _is_frozen(freezer: Path) -> bool:
    if freezer.name == "freezer.state":
        return freezer.read_text().strip() == "FROZEN"
    return "frozen 1" in (freezer.parent / "cgroup.events").read_text().splitlines()


def _processes(freezer: Path) -> list[int]:
    """All of the group and of groups below it."""
    groups = [Path(place) for place, _, _ in os.walk(freezer.parent)]
    return sorted({int(line) for group in groups for line in (group / "cgroup.procs").read_text().split()})


def _page_out_process(process: int, freezer: Path, stop: threading.Event) -> None:
    """Move one process's memory; one that has ended, and a mapping that cannot be moved, are passed over."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        if process not in _processes(freezer):  # its number may be another's by now
            return
        for batch in _batches(Path(f"/proc/{process}/smaps")):
            if stop.is_set():
                return
            _advise(descriptor, batch)
    except (FileNotFoundError, ProcessLookupError):
        return
    finally:
        os.close(descriptor)


def _batches(smaps: Path) -> Iterator[list[_Range]]:
    """Mappings in groups that one call moves: so many at once, which hold so much."""
    batch: list[_Range] = []
    held = 0
    for start, size, holds in _pieces(smaps):
        batch.append(_Range(start, size))
        held += holds
        if len(batch) == _AT_ONCE or held >= _PIECE_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _pieces(smaps: Path) -> Iterator[tuple[int, int, int]]:
    """Start, size and what is held of each mapping that holds anything; a large one in parts of about equal size."""
    left = MOST_MAPPINGS
    start = end = 0
    with smaps.open("rb") as lines:
        for line in lines:
            if (header := _HEADER.match(line)) is not None:
                start, end = int(header[1], 16), int(header[2], 16)
            elif line.startswith(b"Rss:") and (held := int(line.split()[1]) << 10):
                parts = min(-(-held // _PIECE_BYTES), MOST_PARTS)
                step = -(-(end - start) // parts // _PAGE) * _PAGE
                for part in range(start, end, step):
                    yield part, min(step, end - part), held // parts
                left -= 1
                if not left:
                    return


def _advise(descriptor: int, batch: list[_Range]) -> None:
    """Have the kernel move these. It stops at the first that cannot be moved: then each is tried by itself."""
    if _call(descriptor, batch) < sum(each.size for each in batch):
        for each in batch:
            _call(descriptor, [each])


def _call(descriptor: int, batch: list[_Range]) -> int:
    """How many bytes were gone through; 0 when the kernel moves none of it. Raises `ProcessLookupError`."""
    ranges = (_Range * len(batch))(*batch)
    try:
        return system_calls.call(_PROCESS_MADVISE, descriptor, ranges, len(batch), _MADV_PAGEOUT, 0)
    except ProcessLookupError:
        raise
    except OSError:  # locked, of a device, of huge pages
        return 0
