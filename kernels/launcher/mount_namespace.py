"""The file system as the service finds it: a mount namespace of its own, made while it is still root.

Sandboxes' mounts are taken out of it: a copy of one would hold its file system beyond the sandbox's end. Where a
directory on the way to something that the service needs is closed to its user (a home of mode 0700 above the Python it
runs on), a small file system takes that directory's place and holds that one thing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kernels import system_calls
from kernels.launcher.handover import Confinement
from kernels.oci.namespaces import mounts

_NEW_MOUNTS: Final = 0x00020000  # CLONE_NEWNS
_NEW_NETWORK_IPC_AND_NAMES: Final = 0x40000000 | 0x08000000 | 0x04000000  # CLONE_NEWNET, NEWIPC, NEWUTS
_PROGRAMS: Final = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
_RECURSIVELY, _SLAVE = 0x4000, 0x80000  # MS_REC, MS_SLAVE
_NOSUID, _NODEV = 0x2, 0x4  # MS_NOSUID, MS_NODEV
_SANDBOX: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(/|$)")
_COVER: Final = b"size=256k,mode=0755,uid=0,gid=0"


def enter(plan: Confinement) -> None:
    """Make the namespace and arrange it. What the launcher mounts later below `views` appears in it too."""
    if system_calls.libc.unshare(_NEW_MOUNTS | (_NEW_NETWORK_IPC_AND_NAMES if plan.apart else 0)) != 0:
        raise system_calls.failure("unshare")
    system_calls.mount(None, "/", None, _RECURSIVELY | _SLAVE)
    for place in sandboxes(Path("/proc/self/mountinfo").read_text(), plan):
        mounts.detach(place)
    if plan.apart:
        for directory, needed in find_hidden(Path("/"), plan.reach).items():
            _cover(directory, needed)
    for directory, needed in find_closed(plan.reach, plan.uid).items():
        _cover(directory, needed)


def find_closed(reach: Iterable[str], uid: int) -> dict[Path, list[Path]]:
    """Topmost directories that this user cannot pass, each with what is needed beneath it."""
    found: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(each for name in reach for each in (Path(name), Path(name).resolve())):
        for directory in reversed(path.parents):
            try:
                status = directory.lstat()
            except OSError:
                break
            if stat.S_ISLNK(status.st_mode):  # where it leads is looked at by itself
                break
            if not _passable(status, uid):
                found.setdefault(directory, []).append(path)
                break
    return found


def find_hidden(top: Path, reach: Iterable[str]) -> dict[Path, list[Path]]:
    """Directories of the top that hold other things than the system's programs, each with what is needed beneath it.

    One in which something needed is reached through a link is left as it is: permissions alone close it.
    """
    paths = list(dict.fromkeys(each for name in reach for each in (Path(name), Path(name).resolve())))
    found = {}
    for directory in sorted(top.iterdir()):
        needed = [path for path in paths if path.is_relative_to(directory)]
        linked = any(path.parent.resolve() != path.parent or path.is_symlink() for path in needed)
        if directory.is_dir() and not directory.is_symlink() and not linked and directory not in needed:
            found[directory] = needed
    return {directory: needed for directory, needed in found.items() if directory.name not in _PROGRAMS}


def require_reach(reach: Iterable[str]) -> None:
    """As the service's user: raise `OSError` for the first thing that is still out of reach."""
    for name in reach:
        path = Path(name)
        (path / "." if path.is_dir() else path).stat()


def _passable(status: os.stat_result, uid: int) -> bool:
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == uid else 0
    return bool(status.st_mode >> shift & 0o1)


def sandboxes(mountinfo: str, plan: Confinement) -> list[Path]:
    """Every sandbox's mount, of this and of other services, deepest first; not a disk that the service needs."""
    found = []
    for line in reversed(mountinfo.splitlines()):
        place = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]))
        needed = place.is_relative_to(plan.views) or any(Path(each).is_relative_to(place) for each in plan.reach)
        if _SANDBOX.search(str(place)) and not needed:
            found.append(place)
    return found


def _cover(directory: Path, needed: list[Path]) -> None:
    with ExitStack() as open_trees:
        kept = [
            (path, path.is_dir(), open_trees.enter_context(mounts.clone(path, recursive=True)))
            for path in sorted(needed)
            if path.exists()
            and not path.is_symlink()
            and not any(path.is_relative_to(other) for other in needed if other != path)
        ]
        system_calls.mount("sandcell", str(directory), "tmpfs", _NOSUID | _NODEV, _COVER)
        for path, is_directory, tree in kept:
            if is_directory:
                path.mkdir(parents=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            mounts.place(tree, path)
