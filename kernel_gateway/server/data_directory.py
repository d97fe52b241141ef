"""The data directory: who owns what in it, and that one service at a time uses it. Done by root, before the service.

The directory is root's, and so are `sandboxes/`, `guest/`, `environments/` and `.layers/`. `state/` (the database, what
waits for the store) and the default store belong to the service's user; no other user enters them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import IO, Final

from kernel_gateway.errors import SettingInvalid, StartRefused
from kernel_gateway.settings import Settings
from kernels.images import added_packages
from workspace_sync.stores import url as store_url
from workspace_sync.stores.local import INCOMING

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TAKEN_SECONDS: Final = 1.0
"""How long a start waits for the lock, which another gateway holds for a moment while it takes a sandbox over."""
_POLL_SECONDS: Final = 0.02
_ONCE_BESIDE: Final = ("sandcell.db", "sandcell.db-wal", "sandcell.db-shm", "spool")
"""What versions without a launcher kept in the data directory itself."""


def only_one(data_dir: Path) -> IO[str]:
    """The lock of the data directory, held while it is open: two services would remove each other's sandboxes."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
        lock = (data_dir / "lock").open("a")
        os.fchmod(lock.fileno(), 0o600)  # who may read it may hold its lock, and keep the service from starting
    except OSError as error:
        raise SettingInvalid(f"the data directory {data_dir} cannot be used: {error.strerror}") from None
    give_up = time.monotonic() + _TAKEN_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > give_up:
                lock.close()
                message = f"another service runs on {data_dir}; stop it, or choose another data_dir"
                raise SettingInvalid(message) from None
        time.sleep(_POLL_SECONDS)


def prepare(settings: Settings) -> None:
    """Make and give away what belongs to the service's user; raises StartRefused when that is not possible."""
    data, uid = Path(settings.data_dir), settings.service_uid
    try:
        owner = os.geteuid()  # root, or the service's own user where it needs no root
        os.chown(data, owner, owner)
        data.chmod(0o711)
        layers = data / added_packages.NAME
        layers.mkdir(exist_ok=True)
        layers.chmod(0o755)
        _give(settings.state_path, uid)
        _move_in(data, settings.state_path, uid)
        if not settings.store:
            _give(data / "store", uid)
    except OSError as error:
        raise StartRefused(f"the data directory {data} cannot be prepared: {error}") from error
    for place, what in _list_chosen(settings):
        _require(place, what, uid)


def list_places(settings: Settings) -> list[Path]:
    """Directories and files outside the installation that the service uses."""
    chosen = [Path(settings.environments_file)] if settings.environments_file else []
    if settings.tls_cert:  # their directories: a renewed certificate is another file
        files = (Path(settings.tls_cert), Path(settings.tls_key))
        chosen += [each for file in files for each in dict.fromkeys((file.parent, file.resolve().parent))]
    return [
        Path(settings.data_dir),
        settings.environments_path,
        Path(settings.data_dir) / added_packages.NAME,
        *(place for place, _ in _list_chosen(settings)),
        *chosen,
    ]


def _list_chosen(settings: Settings) -> list[tuple[Path, str]]:
    """Directories that an operator chose for what the service writes."""
    found = []
    if settings.store.startswith("file:"):
        found.append((Path(store_url.local_directory(settings.store)), "store"))
    if settings.database:
        from sqlalchemy.engine import make_url  # noqa: PLC0415 - takes a quarter of this process's time; few need it

        url = make_url(settings.database)
        if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
            found.append((Path(url.database).absolute().parent, "database's directory"))
    if settings.audit_file and settings.audit_files:
        found.append((Path(settings.audit_file).parent, "audit file's directory"))
    return found


def _require(place: Path, what: str, uid: int) -> None:
    """A directory that is not there or empty is given to the service; one that others fill must be given by hand."""
    try:
        if not place.exists() or all(os.fsencode(each.name) == INCOMING for each in place.iterdir()):
            _give(place, uid)
        status = place.stat()
    except OSError as error:
        raise StartRefused(f"the {what} {place} cannot be used: {error}") from error
    if status.st_uid != uid and not status.st_mode & stat.S_IWOTH:
        raise StartRefused(
            f"the {what} {place} must be writable for the service's user (service_uid, {uid}): choose a directory of"
            f" its own, or chown -R {uid} {place}"
        )


def _give(place: Path, uid: int) -> None:
    """A directory for this user alone; what is in it changes hands when the user did.

    What root left at its top is given too: `sandcell doctor` tries the store as root.
    """
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(place, _DIRECTORY)
    try:
        before = os.fstat(descriptor).st_uid
        if before != uid:
            _hand_over(descriptor, before, uid)
        for name in os.listdir(descriptor):  # noqa: PTH208 - of a descriptor
            if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid == 0:
                _give_one(descriptor, name, 0, uid)
        os.fchown(descriptor, uid, uid)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _hand_over(top: int, before: int, uid: int) -> None:
    """What belonged to the former owner beneath a directory now belongs to this user. No link is followed."""
    for _, directories, files, directory in os.fwalk(".", topdown=False, dir_fd=top, follow_symlinks=False):
        for name in (*directories, *files):
            _give_one(directory, name, before, uid)


def _give_one(directory: int, name: str, before: int, uid: int) -> None:
    """One file or directory; never one that has other names, which may lie elsewhere."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if status.st_uid == before and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
        os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)


def _move_in(data: Path, state: Path, uid: int) -> None:
    """Once, after an upgrade: move what lay next to it into the service's own directory."""
    for name in _ONCE_BESIDE:
        old, new = data / name, state / name
        with contextlib.suppress(FileNotFoundError):
            if old.is_dir():
                _give(old, uid)
            elif not old.is_symlink():
                os.chown(old, uid, uid)
            if not new.exists():
                old.rename(new)
