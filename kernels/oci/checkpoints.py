"""Ends the processes of a sandbox of gVisor's and restores them: its own checkpoints, one file for each sandbox.

Blocking. A saved sandbox has its directories, and no process, no memory and no control group; its mounts come back
when they are wanted. What it holds lies in `SandboxPlaces.saved`, which only root may open, and goes once it is
restored, or with the sandbox. The guest has closed its sockets before, or it could not be saved. One that fails to be
saved, or to be restored, is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import KernelsError, SandboxFailed, SandboxGone
from kernels.oci import bundle, storage
from kernels.oci.cgroups import Cgroups, Counters
from kernels.oci.command import OciCommand
from kernels.oci.places import SandboxPlaces
from kernels.sandbox import MOST_SAVING_SECONDS, PagedOut

log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 5.0
"""For the guest to close its sockets once it has said that it will."""
POLL_SECONDS: Final = 0.01
SAVING_SECONDS: Final = 150.0
"""For what a sandbox holds to be written or read, and more by how much that is: one that is cut off costs it."""
SECONDS_PER_GB: Final = 100.0
SOCKETS: Final = ("http.sock", "relay.sock")
SAFE: Final = "safe"
"""Beside an image, once it and the sandbox's disk would outlive a loss of power."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
AWAKE: Final = "awake"
"""What the guest waits for before it listens again, as `Options.awake_mark` in it."""


class _Before(msgspec.Struct, frozen=True):
    """What a sandbox had counted when it was saved: its next control group begins at nothing.

    And by which build of the runtime it was saved, with the digest of its image: runsc restores a damaged one unseen.
    `boot` is when the host was started last before that, as it says.
    """

    counters: Counters
    memory_limit_bytes: int
    build: str = ""
    digest: str = ""
    boot: str = ""


class Checkpoints:
    """The caller sees to it that one call at a time is about a sandbox. `reserve_bytes` of the disk stay free."""

    def __init__(self, cgroups: Cgroups, *, reserve_bytes: int) -> None:
        self._cgroups = cgroups
        self._reserve_bytes = reserve_bytes

    def save(self, places: SandboxPlaces, command: OciCommand, wanted: threading.Event) -> PagedOut:
        """Save the sandbox and end it, or say why not. Raises `SandboxGone`, and `SandboxFailed`: then it is lost."""
        held = self._cgroups.held_bytes(places.sandbox_id)
        free = shutil.disk_usage(places.home).free
        if free < held + self._reserve_bytes:
            return PagedOut(0, f"the disk has {free:,} bytes free, and the sandbox may take {held:,} of them")
        if not _is_closed(places, wanted):
            return PagedOut(0, "its guest did not close its sockets")
        before = self._count(places)
        try:
            shutil.rmtree(places.unsaved, ignore_errors=True)  # of a launcher that was killed
            places.unsaved.mkdir(mode=0o700)
            command.checkpoint(places.sandbox_id, places.unsaved, places.log, find_deadline(held))
            build, digest = command.version() or "", _digest(places.unsaved)
            before = msgspec.structs.replace(before, build=build, digest=digest, boot=_BOOT.read_text())
            unfinished = places.before.with_suffix(".part")
            unfinished.write_bytes(msgspec.json.encode(before))
            unfinished.replace(places.before)
            places.unsaved.rename(places.saved)
        except (OSError, KernelsError) as error:
            shutil.rmtree(places.unsaved, ignore_errors=True)
            raise SandboxFailed(f"the sandbox could not be saved, and is lost: {error}") from error
        command.delete(places.sandbox_id)
        self._cgroups.remove(places.sandbox_id)
        return PagedOut(measure_saved(places))

    def restore(self, places: SandboxPlaces, command: OciCommand, root: int, user: int) -> None:
        """Have a saved sandbox go on as it was. Raises `SandboxGone` for one that cannot: the log says more."""
        why = "the image of its processes could not be restored"
        try:
            before = _read_before(places)
            if before.build != (command.version() or ""):
                why = "the image of its processes is of another build of its runtime"
                raise SandboxFailed(f"it was saved by {before.build}")
            if before.digest != _digest(places.saved):
                why = "the image of its processes is damaged"
                raise SandboxFailed("its image has another digest than it had")
            if not places.transport.is_mount():  # the host has been started again
                places.transport.mkdir(mode=0o700, exist_ok=True)
                storage.mount_transport(places.transport)
                storage.make_socket_directories(places.transport, root, user)
            mark_awake(places)
            seconds = find_deadline(before.counters.memory_held_bytes)
            command.restore(places.sandbox_id, places.bundle, places.saved, places.log, seconds)
            # Its control group is new: what a session's has besides what its bundle says.
            self._cgroups.give_full_share(places.sandbox_id)
            limit = self._cgroups.memory_limit(places.sandbox_id)
            self._cgroups.limit_sockets(places.sandbox_id, bundle.socket_bytes(limit))
        except (OSError, KernelsError, msgspec.DecodeError) as error:
            log.error("sandbox_not_restored %s: %s", places.sandbox_id, error)
            raise SandboxGone(why) from error
        finally:
            _discard(places.saved)

    @staticmethod
    def make_safe(places: SandboxPlaces, command: OciCommand) -> bool:
        """Once its disk is not mounted any more: have it outlive a loss of power, and say whether it does.

        It does not where the host was started again before this was done: what was not written yet is lost, and files
        of that disk must not pass for those of the session, which the store has.
        """
        mark = places.saved / SAFE
        try:
            if mark.exists():
                return True
            if _read_before(places).boot != _BOOT.read_text():
                return False
            command.delete(places.sandbox_id)  # the launcher may have been killed before it did
            for each in (places.image, places.before, *places.saved.iterdir()):
                with each.open("rb") as file:
                    os.fsync(file.fileno())
            mark.touch()
        except (OSError, KernelsError, msgspec.DecodeError) as error:
            log.warning("saved_sandbox_not_safe %s: %s", places.sandbox_id, error)
            return False
        return True

    def counters(self, places: SandboxPlaces) -> tuple[Counters, int]:
        """What it has counted in all its control groups, and the limit of its memory; raises `SandboxGone`."""
        found = self._count(places)
        return found.counters, found.memory_limit_bytes

    def _count(self, places: SandboxPlaces) -> _Before:
        before = None
        with contextlib.suppress(FileNotFoundError):
            before = _read_before(places)
        if before is not None and places.saved.exists():
            none = msgspec.structs.replace(before.counters, memory_bytes=0, memory_held_bytes=0, pids=0)
            return _Before(none, before.memory_limit_bytes)
        # Not from the bundle, most of which is the seccomp profile: each execution may ask.
        now, limit = self._cgroups.counters(places.sandbox_id), self._cgroups.memory_limit(places.sandbox_id)
        return _Before(now if before is None else _add(before.counters, now), limit)


def find_deadline(held_bytes: int) -> float:
    """In how many seconds a sandbox that holds so much is to be saved, or restored."""
    return min(SAVING_SECONDS + held_bytes / 1e9 * SECONDS_PER_GB, MOST_SAVING_SECONDS)


def _read_before(places: SandboxPlaces) -> _Before:
    return msgspec.json.decode(places.before.read_bytes(), type=_Before)


def _digest(directory: Path) -> str:
    digests = []
    for each in sorted(each for each in directory.iterdir() if each.name != SAFE):
        with each.open("rb") as file:
            digests.append(f"{each.name} {hashlib.file_digest(file, 'sha256').hexdigest()}")
    return "\n".join(digests)


def _discard(directory: Path) -> None:
    """Remove it; the room of its files is freed in a thread, which takes a tenth of a second for 100 MB."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            for each in directory.iterdir():
                held.enter_context(each.open("rb"))
        shutil.rmtree(directory, ignore_errors=True)
        freeing = threading.Thread(target=(files := held.pop_all()).close)
        try:
            freeing.start()
        except RuntimeError:  # the host has no thread left
            files.close()


def measure_saved(places: SandboxPlaces) -> int:
    """What a saved sandbox takes on the host's disk, in bytes: its image, and what its own disk holds."""
    used, _ = storage.measure_used_bytes(places.storage)
    return used + sum(each.stat().st_blocks * 512 for each in places.saved.iterdir())


def mark_awake(places: SandboxPlaces) -> None:
    """Have a guest that stands by listen again. Its directory is hostile, and may hold no file any more."""
    guest = os.open(places.transport / "guest", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileExistsError):
            mark = os.open(AWAKE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=guest)
            os.close(mark)
    finally:
        os.close(guest)


def _is_closed(places: SandboxPlaces, wanted: threading.Event) -> bool:
    """Whether the guest listens nowhere any more, for which it gets a moment."""
    give_up = time.monotonic() + CLOSE_SECONDS
    while any(os.path.lexists(places.transport / "guest" / name) for name in SOCKETS):
        if wanted.is_set() or time.monotonic() > give_up:
            return False
        time.sleep(POLL_SECONDS)
    return not wanted.is_set()


def _add(before: Counters, now: Counters) -> Counters:
    return msgspec.structs.replace(
        now,
        memory_peak_bytes=max(before.memory_peak_bytes, now.memory_peak_bytes),
        oom_kills=before.oom_kills + now.oom_kills,
        cpu_seconds=before.cpu_seconds + now.cpu_seconds,
    )
