"""What a test run could leave on the host, and whether it did."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

MARK = "TEST_RUN_OF_SANDCELL"
"""Every process that the tests start inherits this variable with the run's id."""

RUN_DIR = Path("/run/sandcell-test")
"""Where the services of the tests have their sandboxes' sockets."""

NAMESPACES = "/run/netns"

BEFORE = pytest.StashKey[dict[str, set[str]]]()


def snapshot() -> dict[str, set[str]]:
    """What is on the host now, by kind."""
    return {
        "mount": _mounts(),
        "cgroup": _cgroups(),
        "loop device": set(_lines("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE")),
        "network namespace": set(_lines("ip", "netns", "list")),
        "swap": {line.split()[0] for line in _lines("cat", "/proc/swaps") if "/sandcell-swap" in line},
        "process": _marked_processes() | _sandboxed_processes(),
        "run directory": {top for top, _, _ in os.walk(RUN_DIR) if Path(top).name.count("-") == 4},
    }


def forget_namespaces(before: dict[str, set[str]]) -> None:
    """Undo what `ip netns add` does the first time on a host: it mounts its directory over itself, for good.

    While a namespace is left in it, it stays.
    """
    while NAMESPACES not in before["mount"] and NAMESPACES in _mounts():
        if subprocess.run(["umount", NAMESPACES], capture_output=True, timeout=120, check=False).returncode != 0:
            break


def since(before: dict[str, set[str]], *, patience_seconds: float = 60) -> list[str]:
    """What is there now and was not there before; things on their way out have a moment to go."""
    give_up = time.monotonic() + patience_seconds
    while True:
        now = snapshot()
        left = [f"{kind}: {one}" for kind in now for one in sorted(now[kind] - before[kind])]
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(0.2)


def _mounts() -> set[str]:
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def _cgroups() -> set[str]:
    """Groups with our name; `os.walk` puts up with those that go while it looks."""
    return {top for top, _, _ in os.walk("/sys/fs/cgroup") if "sandcell" in Path(top).name}


def _lines(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        return []
    return [line.strip() for line in done.stdout.splitlines()]


def _marked_processes() -> set[str]:
    wanted = f"{MARK}={os.environ.get(MARK, '')}\0".encode()
    return {name for name in _processes() if name.split()[0] != str(os.getpid()) and wanted in _read(name, "environ")}


def _sandboxed_processes() -> set[str]:
    return {name for name in _processes() if b"/sandcell-" in _read(name, "cgroup")}


def _processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        command = _read(path.name, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        if command:
            found.append(f"{path.name} {command[:200]}")
    return found


def _read(process: str, name: str) -> bytes:
    try:
        return Path("/proc", process.split(maxsplit=1)[0], name).read_bytes()
    except OSError:
        return b""
