"""Calling a runtime in a mount namespace of its own, changed so that it can do its work; the host's mounts stay.

Three things need that: a runtime that refuses a mount it has no use for, one that reaches what a bundle binds as a
user who may not pass the directories above it, and what sandboxes would share. No file that several of them see may be
the same inode in all, nor a device node: watches tell one sandbox of another, and locks let two speak. So each gets
overlays, and nodes, of its own. What the runtime starts leaves this namespace for its own root, and takes those along.

The namespace is that of one thread, which ends with the call. A dozen programs (a shell, mount, mkdir, cp) would do the
same, for more processor time than the runtime's own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from kernels import system_calls

PLACE: Final = "/dev/shm"  # noqa: S108 - a mount point that every host has and everybody may pass
"""Where the host paths of `reachable` are found, by their number, in the namespace."""
IMAGE: Final = f"{PLACE}/image"
"""Where the sandbox's own view of `image` is found."""

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_NOTHING: Final = f"{PLACE}/none"
_NEW_MOUNTS: Final = 0x20000  # CLONE_NEWNS
_READ_ONLY, _NOSUID, _NODEV, _NOEXEC = 0x1, 0x2, 0x4, 0x8
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000

T = TypeVar("T")


def call(work: Callable[[], T], *, unmounted: Path | None = None, image: str = "", reachable: Sequence[str] = ()) -> T:
    """What `work` returns, which may start programs: by itself, or in a thread whose mounts are its own.

    There one mount point is unmounted, an overlay of the directory `image` is at `IMAGE` with copies of the common
    devices at /dev, and the paths are at `PLACE`: bound, or, where there is an image, directories as overlays. Raises
    `OSError` where that cannot be had.
    """
    if unmounted is None and not image and not reachable:
        return work()

    def work_apart() -> T:
        _leave()
        if unmounted is not None:
            _unmount(unmounted)
        if image or reachable:
            _prepare(image, reachable)
        return work()

    with ThreadPoolExecutor(1, thread_name_prefix="apart") as thread:  # used once: its namespace goes with it
        try:
            working = thread.submit(work_apart)
        except RuntimeError as error:  # no thread can be had
            raise OSError(errno.EAGAIN, str(error)) from None
        return working.result()


def _leave() -> None:
    """Give this thread a copy of the mounts, from which nothing gets back, and a working directory of its own."""
    if system_calls.libc.unshare(_NEW_MOUNTS) != 0:
        raise system_calls.failure("unshare")
    system_calls.mount(None, "/", None, _RECURSIVE | _PRIVATE)


def _unmount(place: Path) -> None:
    if system_calls.libc.umount2(os.fsencode(place), 0) != 0:
        raise system_calls.failure(f"umount {place}")


def _prepare(image: str, reachable: Sequence[str]) -> None:
    system_calls.mount("sandcell", PLACE, "tmpfs", _NOSUID | _NOEXEC, b"mode=0755,size=64k,nr_inodes=64")
    if image:
        _make_directory(_NOTHING)
        _show_own(image, IMAGE)
    for number, path in enumerate(reachable):
        if image:
            _show_own(path, f"{PLACE}/{number}")
        else:
            _bind(path, f"{PLACE}/{number}")
    if image:
        _copy_devices()


def _show_own(path: str, place: str) -> None:
    """An overlay of the directory `path` alone; its own path may have any characters in it."""
    _make_directory(place)
    os.chdir(path)
    options = f"lowerdir={_NOTHING}:.".encode()
    system_calls.mount("sandcell", place, "overlay", _READ_ONLY | _NOSUID | _NODEV, options)
    os.chdir("/")


def _bind(path: str, place: str) -> None:
    if Path(path).is_dir():
        _make_directory(place)
    else:
        Path(place).touch()
    system_calls.mount(path, place, None, _BIND)


def _copy_devices() -> None:
    """Have /dev hold nodes that no other sandbox has, and `PLACE` again."""
    devices = f"{PLACE}/dev"
    _make_directory(devices)
    for name in _DEVICES:
        node, copy = Path("/dev", name).stat(), Path(devices, name)
        os.mknod(copy, node.st_mode, node.st_rdev)
        os.chown(copy, node.st_uid, node.st_gid)
        copy.chmod(stat.S_IMODE(node.st_mode))
    _make_directory(f"{devices}/shm")
    system_calls.mount(PLACE, f"{devices}/shm", None, _BIND | _RECURSIVE)
    system_calls.mount(devices, "/dev", None, _BIND | _RECURSIVE)


def _make_directory(path: str) -> None:
    directory = Path(path)
    directory.mkdir()
    directory.chmod(0o755)  # whatever the umask: every sandbox's root passes
