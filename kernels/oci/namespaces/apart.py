"""Starting a runtime in a mount namespace of its own, changed so that it can do its work; the host's mounts stay. Pure.

Three things need that: a runtime that refuses a mount it has no use for, one that reaches what a bundle binds as a
user who may not pass the directories above it, and what sandboxes would share. No file that several of them see may be
the same inode in all, nor a device node: watches tell one sandbox of another, and locks let two speak. So each gets
overlays, and nodes, of its own. What the runtime starts leaves this namespace for its own root, and takes those along.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

PLACE: Final = "/dev/shm"  # noqa: S108 - a mount point that every host has and everybody may pass
"""Where the host paths of `reachable` are found, by their number, in the namespace."""
IMAGE: Final = f"{PLACE}/image"
"""Where the sandbox's own view of `image` is found."""

_PREPARE: Final = """
set -e
if [ -n "$1" ]; then umount "$1"; fi
place=$2; image=$3; shift 3; number=0
if [ -n "$image" ] || [ "$1" != -- ]; then
    mount -t tmpfs -o mode=0755,size=64k,nr_inodes=64,nosuid,noexec sandcell "$place"
fi
view() { cd "$1"; mount -t overlay -o "ro,nosuid,nodev,lowerdir=$place/none:." sandcell "$2"; cd /; }
if [ -n "$image" ]; then
    mkdir "$place/none" "$place/image" "$place/dev" "$place/dev/shm"
    cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$place/dev"
    view "$image" "$place/image"
fi
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$place/$number"; else : > "$place/$number"; fi
    if [ -n "$image" ]; then view "$1" "$place/$number"; else mount --bind "$1" "$place/$number"; fi
    number=$((number + 1)); shift
done
if [ -n "$image" ]; then
    mount --rbind "$place" "$place/dev/shm"
    mount --rbind "$place/dev" /dev
fi
shift
exec "$@"
"""


def prefix(*, unmounted: Path | None = None, image: str = "", reachable: Sequence[str] = ()) -> list[str]:
    """What goes before a command: nothing, or a shell that changes a namespace of its own.

    It unmounts one mount point, puts an overlay of the directory `image` at `IMAGE` and copies of the common devices at
    /dev, and shows the paths at `PLACE`: bound, or, where there is an image, directories as overlays.
    """
    if unmounted is None and not image and not reachable:
        return []
    unshare = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _PREPARE, "sandcell"]
    return [*unshare, str(unmounted or ""), PLACE, image, *reachable, "--"]
