"""What a sandbox can write to: a file system of its own in a sparse image, and a tiny one for sockets.

The image is mounted by loop, so that a full workspace is ENOSPC inside and nothing outside. The socket directory is a
tmpfs on which no link is followed, also not by this host: user code can write there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed
from kernels.oci import egress_sockets

TRANSPORT_BYTES: Final = 1024 * 1024
"""Size of a sandbox's socket directory."""

_COMMAND_SECONDS: Final = 30


def make_image(path: Path, size_bytes: int, owner: int) -> None:
    """Create a sparse ext4 image whose root directory belongs to `owner`."""
    with path.open("xb") as file:
        file.truncate(size_bytes)
    _call(
        "mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0",
        "-E", f"root_owner={owner}:{owner},lazy_itable_init=1,nodiscard", str(path),
    )  # fmt: skip


def mount_image(image: Path, directory: Path) -> None:
    """Mount the image by loop; the loop device goes away with the mount."""
    directory.mkdir(mode=0o700, exist_ok=True)
    _call("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", str(image), str(directory))


def make_directories(storage: Path, root: int, user: int) -> None:
    """The three writable places, before anything runs that could have put a link in their way."""
    for name, owner, mode in (("workspace", user, 0o755), ("home", user, 0o755), ("tmp", root, 0o1777)):
        place = storage / name
        place.mkdir()
        os.chown(place, owner, owner)
        place.chmod(mode)


def mount_transport(directory: Path) -> None:
    """Mount the socket directory, in which only the host's root makes anything."""
    options = f"size={TRANSPORT_BYTES},nr_inodes=128,mode=0755,uid=0,gid=0,nosuid,nodev,noexec,nosymfollow"
    _call("mount", "-t", "tmpfs", "-o", options, "sandcell", str(directory))


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
        with contextlib.suppress(SandboxFailed):
            _call("umount", str(directory))
            continue
        time.sleep(0.02)
    if directory.is_mount():
        _call("umount", "--lazy", str(directory))


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
