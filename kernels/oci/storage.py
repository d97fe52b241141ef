"""What a sandbox can write to: a file system of its own in a sparse image, and a tiny one for sockets.

The image is mounted by loop, so that a full workspace is ENOSPC inside and nothing outside. The socket directory is a
tmpfs on which no link is followed, also not by this host: user code can write there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path
from typing import Final

from kernels import system_calls
from kernels.errors import SandboxFailed
from kernels.oci import egress_sockets

TRANSPORT_BYTES: Final = 1024 * 1024
"""Size of a sandbox's socket directory."""

_COMMAND_SECONDS: Final = 30
_LOOP_TRIES: Final = 100
"""Another process may take the free loop device first; then there is another one."""
_FREE_LOOP, _CONFIGURE_LOOP, _GET_LOOP = 0x4C82, 0x4C0A, 0x4C05  # LOOP_CTL_GET_FREE, LOOP_CONFIGURE (Linux 5.8)
_LOOP_INFORMATION: Final = 232
"""Bytes of a `loop_info64`, which begins with the device and the inode of the file."""
_LOOP_GOES_WITH_MOUNT: Final = 4  # LO_FLAGS_AUTOCLEAR
_NOSUID, _NODEV, _NOEXEC, _NOSYMFOLLOW, _NOATIME = 0x2, 0x4, 0x8, 0x100, 0x400
_LAZILY, _NO_FOLLOW = 0x2, 0x8  # MNT_DETACH, UMOUNT_NOFOLLOW


def make_image(path: Path, size_bytes: int, owner: int) -> None:
    """Create a sparse ext4 image whose root directory belongs to `owner`."""
    with path.open("xb") as file:
        file.truncate(size_bytes)
    _call(
        "mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0",
        "-E", f"root_owner={owner}:{owner},lazy_itable_init=1,nodiscard", str(path),
    )  # fmt: skip


def mount_image(image: Path, directory: Path, *, new: bool = False) -> None:
    """Mount the image by loop; the loop device goes away with the mount.

    One that is not `new` may still be mounted, by what was detached while it was busy for one. That is shared: a second
    device would show the file as it is on disk, without what the first has still to write, and both would write to it.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    try:
        with image.open("r+b") as file:
            found = None if new else _find_loop(file.fileno())
            name, device = found or _open_loop(file.fileno(), os.fsencode(image))
            try:  # open until it is mounted, or it would go away at once
                system_calls.mount(name, str(directory), "ext4", _NOSUID | _NODEV | _NOATIME)
            finally:
                os.close(device)
    except OSError as error:
        raise SandboxFailed(f"the sandbox's disk cannot be mounted: {error}") from None


def _find_loop(file: int) -> tuple[str, int] | None:
    """Path and descriptor of the loop device that this file is attached to already. Raises `OSError`."""
    for entry in Path("/sys/block").glob("loop*/loop"):  # those in use alone
        name = f"/dev/{entry.parent.name}"
        try:
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # it has just gone
            continue
        if _backs(device, file):
            return name, device
        os.close(device)
    return None


def _backs(device: int, file: int) -> bool:
    """Whether the loop device, which stays as it is while it is open, is on this file."""
    try:
        information = fcntl.ioctl(device, _GET_LOOP, bytes(_LOOP_INFORMATION))
    except OSError:
        return False
    found = os.fstat(file)
    return struct.unpack_from("2Q", information) == (found.st_dev, found.st_ino)


def _open_loop(file: int, path: bytes) -> tuple[str, int]:
    """Path and descriptor of a loop device on this file, which goes away with its last use. Raises `OSError`."""
    information = struct.pack("5Q4I64s112x", 0, 0, 0, 0, 0, 0, 0, 0, _LOOP_GOES_WITH_MOUNT, path[:63])
    wanted = struct.pack("2I", file, 0) + information + bytes(64)
    with Path("/dev/loop-control").open("r+b", buffering=0) as control:
        for _ in range(_LOOP_TRIES):
            name = f"/dev/loop{fcntl.ioctl(control, _FREE_LOOP)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE_LOOP, wanted)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return name, device
    raise OSError(errno.EBUSY, "no loop device stays free")


def make_directories(storage: Path, root: int, user: int) -> None:
    """The three writable places, before anything runs that could have put a link in their way."""
    for name, owner, mode in (("workspace", user, 0o755), ("home", user, 0o755), ("tmp", root, 0o1777)):
        place = storage / name
        place.mkdir()
        os.chown(place, owner, owner)
        place.chmod(mode)


def mount_transport(directory: Path) -> None:
    """Mount the socket directory, in which only the host's root makes anything."""
    options = f"size={TRANSPORT_BYTES},nr_inodes=128,mode=0755,uid=0,gid=0"
    try:
        system_calls.mount(
            "sandcell", str(directory), "tmpfs", _NOSUID | _NODEV | _NOEXEC | _NOSYMFOLLOW, options.encode()
        )
    except OSError as error:
        raise SandboxFailed(f"the directory of sockets cannot be mounted: {error}") from None


def make_socket_directories(transport: Path, root: int, user: int) -> None:
    """One part for the guest, one for user code, and the ways out, which the host makes and the guest may use."""
    for name, owner, mode in (("guest", root, 0o700), ("kernel", user, 0o700), (egress_sockets.DIRECTORY, 0, 0o711)):
        place = transport / name
        place.mkdir()
        os.chown(place, owner, owner)
        place.chmod(mode)


def unmount(directory: Path, *, deadline_seconds: float = 5) -> None:
    """Unmount; absent is fine. A mount that stays busy is detached, so that it goes when its last user does."""
    give_up = time.monotonic() + deadline_seconds
    while directory.is_mount() and time.monotonic() < give_up:
        with contextlib.suppress(OSError):
            _unmount(directory, _NO_FOLLOW)
            continue
        time.sleep(0.02)
    if directory.is_mount():
        try:
            _unmount(directory, _NO_FOLLOW | _LAZILY)
        except OSError as error:
            raise SandboxFailed(f"what the sandbox wrote to cannot be unmounted: {error}") from None


def _unmount(directory: Path, flags: int) -> None:
    if system_calls.libc.umount2(os.fsencode(directory), flags) != 0:
        raise system_calls.failure(f"umount {directory}")


def measure_used_bytes(storage: Path) -> tuple[int, int]:
    """Bytes used and bytes in all of a mounted image."""
    figures = os.statvfs(storage)
    return (figures.f_blocks - figures.f_bfree) * figures.f_frsize, figures.f_blocks * figures.f_frsize


def _call(*command: str) -> None:
    try:
        # A session of its own: Ctrl-C in a terminal is for the service, not for what it calls.
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        raise SandboxFailed(f"{command[0]} did not end in {_COMMAND_SECONDS} s") from None
    except FileNotFoundError:
        raise SandboxFailed(f"{command[0]} is not installed; `sandcell doctor` names its package") from None
    except OSError as error:  # no process or descriptor is left on the host
        raise SandboxFailed(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        raise SandboxFailed(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
