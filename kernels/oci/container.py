"""Readies a container to hold sandboxes, then becomes the service: the entry point of the service's image.

An engine's privileged container lacks two things that a host has: nodes for loop devices made after it started, and, on
cgroup v2, a group of its own that may hand controllers to its children. What cannot be readied is left to the checks at
the service's start, which refuse with a remedy.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Final

from kernels.oci import environments

LOOP_NODES: Final = 4096
"""Loop devices that sandboxes can use, one each; as many as there are uid ranges by default."""

_LOOP_MAJOR: Final = 7
_LOOP_CONTROL: Final = (10, 237)
"""The device that gives out free loop devices, by its fixed numbers."""
_SERVICE_GROUP: Final = "service"


def main(arguments: list[str]) -> None:
    """`start ARGUMENT...` readies the container and becomes `sandcell ARGUMENT...`; `adopt NAME ROOT` is for builds."""
    match arguments:
        case ["start", *rest]:
            make_loop_nodes(Path("/dev"))
            leave_top_group(Path("/sys/fs/cgroup"))
            program = str(Path(sys.executable).with_name("sandcell"))
            os.execv(program, [program, *rest])  # noqa: S606 - a list, and no shell
        case ["adopt", name, root]:
            environments.adopt(name, Path(root))
        case _:
            sys.exit("usage: python -m kernels.oci.container start ARGUMENT... | adopt NAME ROOT")


def make_loop_nodes(devices: Path) -> None:
    """Make the nodes of loop devices that do not exist yet: the kernel adds devices on demand, but not to our /dev."""
    with contextlib.suppress(PermissionError):
        if not (devices / "loop-control").exists():
            os.mknod(devices / "loop-control", stat.S_IFCHR | 0o600, os.makedev(*_LOOP_CONTROL))
        for number in range(LOOP_NODES):
            node = devices / f"loop{number}"
            if not node.exists():
                os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(_LOOP_MAJOR, number))


def leave_top_group(mount: Path) -> None:
    """On cgroup v2, move every process of the container out of its topmost group, where sandboxes' groups then go."""
    if not (mount / "cgroup.controllers").exists() or _read_own_group() != "/":
        return
    with contextlib.suppress(OSError):
        (mount / _SERVICE_GROUP).mkdir(exist_ok=True)
        for process in (mount / "cgroup.procs").read_text().split():
            (mount / _SERVICE_GROUP / "cgroup.procs").write_text(process)


def _read_own_group() -> str:
    """This process's group on cgroup v2, as seen from the container's namespace."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), "")


if __name__ == "__main__":
    main(sys.argv[1:])
