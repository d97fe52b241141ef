"""A host that goes down while a service is not there: what runs and what is kept in memory is gone, disks stay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path


def reboot(data_dir: Path, run_dir: Path) -> list[str]:
    """End every sandbox of a service and take away its mounts, control groups and run directory; gives their ids."""
    tag = sha256(str(data_dir).encode()).hexdigest()[:8]
    homes = list((data_dir / "sandboxes").iterdir())
    groups = [Path(top) for top, _, _ in os.walk("/sys/fs/cgroup", topdown=False) if f"sandcell-{tag}" in top]
    _kill(groups)
    for mount in reversed(_mounts_below(str(data_dir / "sandboxes"), str(run_dir / tag))):
        subprocess.run(["umount", "--lazy", mount], check=True, timeout=120)
    _wait_detached(data_dir / "sandboxes")
    shutil.rmtree(run_dir / tag, ignore_errors=True)
    for group in groups:
        with suppress(FileNotFoundError):
            group.rmdir()
    return [home.name for home in homes]


def _wait_detached(directory: Path) -> None:
    """Until no loop device has an image there: what was unmounted lazily may still be written to."""
    give_up = time.monotonic() + 120
    while held := [each for each in _list_images() if each.startswith(f"{directory}/")]:
        assert time.monotonic() < give_up, f"still in use: {held}"
        time.sleep(0.02)


def _list_images() -> list[str]:
    found = []
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # it is detached just now
            found.append(device.read_text().strip())
    return found


def _kill(groups: list[Path]) -> None:
    """Until nothing is in them any more: what is killed takes a moment to go."""
    give_up = time.monotonic() + 120
    while pids := {pid for group in groups for pid in (group / "cgroup.procs").read_text().split()}:
        assert time.monotonic() < give_up, f"these do not end: {pids}"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.02)


def _mounts_below(*tops: str) -> list[str]:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [each for each in mounted if any(each == top or each.startswith(f"{top}/") for top in tops)]
