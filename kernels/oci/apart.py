"""Starting a runtime in a mount namespace of its own, changed so that it can do its work; the host's mounts stay. Pure.

Two things need that: a runtime that refuses a mount it has no use for, and one that reaches what a bundle binds as a
user who may not pass the directories above it. What the runtime starts leaves this namespace for its own root.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

PLACE: Final = "/dev/shm"  # noqa: S108 - a mount point that every host has and everybody may pass
"""Where the host paths of `reachable` are found, by their number, in the namespace."""

_PREPARE: Final = """
set -e
if [ -n "$1" ]; then umount "$1"; fi
place=$2; shift 2; number=0
if [ "$1" != -- ]; then
    mount -t tmpfs -o mode=0755,size=64k,nr_inodes=64,nosuid,nodev,noexec sandcell "$place"
fi
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$place/$number"; else : > "$place/$number"; fi
    mount --bind "$1" "$place/$number"
    number=$((number + 1)); shift
done
shift
exec "$@"
"""


def prefix(*, unmounted: Path | None, reachable: Sequence[str]) -> list[str]:
    """What goes before a command: nothing, or a shell that unmounts one mount point and binds the paths to `PLACE`."""
    if unmounted is None and not reachable:
        return []
    unshare = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _PREPARE, "sandcell"]
    return [*unshare, str(unmounted or ""), PLACE, *reachable, "--"]
