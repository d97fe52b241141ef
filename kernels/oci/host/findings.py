"""What this host can enforce: the findings of `sandcell doctor`, and the refusals of a start.

Each check looks at the real thing (mounts a file system, reads the controllers), never at a version alone.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kernels.errors import KernelsError, RuntimeUnusable, SandboxFailed
from kernels.host_memory import read_meminfo
from kernels.oci import seccomp, storage
from kernels.oci.bundle import UID_RANGE
from kernels.oci.cgroups import Cgroups
from kernels.oci.command import OciCommand
from kernels.oci.host import shares as host_shares
from kernels.oci.host import trial
from kernels.oci.namespaces import idmap
from kernels.sandbox import Finding, RuntimeSettings

_TOOLS: Final = {
    "mkfs.ext4": "e2fsprogs",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
IDLE_SESSION_BYTES: Final = 130_000_000
"""Of a session that has imported pandas and holds a little data."""
ENOUGH_SESSIONS: Final = 100
_SAMPLE_ID: Final = 65_600
"""A user id for trials; nothing is left that belongs to it."""


def check(settings: RuntimeSettings, commands: Mapping[str, OciCommand], cgroups: Cgroups) -> tuple[Finding, ...]:
    """Every finding, in the order a person would mend them."""
    root = _root()
    findings = [
        root,
        _architecture(),
        *(_runtime(command, settings, cgroups) for command in commands.values()),
        _tools(),
        _user_namespaces(),
        _seccomp(),
        _controllers(cgroups),
    ]
    findings += [_swap(cgroups), _swap_space(), *host_shares.accounting(cgroups), host_shares.send_timestamps()]
    findings += [_uid_ranges(settings), _free_space(settings)]
    if root.ok:
        findings += [_loop_mounts(), _links_refused(), _id_mapped_mounts()]
    return tuple(findings)


def require_free_space(directory: Path, reserve_bytes: int) -> None:
    """Refuse to start a sandbox when the disk is nearly full: sparse images must be able to grow."""
    free = shutil.disk_usage(_existing(directory)).free
    if free < reserve_bytes:
        raise SandboxFailed(
            f"the host has {free >> 20} MB of disk left in the data directory, less than disk_reserve_bytes"
            f" ({reserve_bytes:,}); free some space or lower the reserve"
        )


def _holds(name: str, detail: str) -> Finding:
    return Finding(name, ok=True, detail=detail)


def _fails(name: str, detail: str, remedy: str) -> Finding:
    return Finding(name, ok=False, detail=detail, remedy=remedy)


def _root() -> Finding:
    detail = f"effective uid {os.geteuid()}"
    return _holds("root", detail) if os.geteuid() == 0 else _fails("root", detail, "run the service as root (sudo)")


def _architecture() -> Finding:
    machine = platform.machine()
    try:
        seccomp.profile(machine)
    except ValueError as error:
        return _fails("architecture", str(error), "use x86_64 or aarch64")
    return _holds("architecture", machine)


def _runtime(command: OciCommand, settings: RuntimeSettings, cgroups: Cgroups) -> Finding:
    """One of the runtimes that sandboxes may have: there, and able to run a container held as they are."""
    name, other = f"runtime {command.name}", "choose another runtime"
    version = command.version()
    if version is None:
        remedy = f"install the package {command.program}, or {other}"
        return _fails(name, f"{command.program} is missing or does not answer", remedy)
    if os.geteuid() != 0:
        return _holds(name, f"{version}, not tried")
    try:
        trial.run(command, cgroups, settings.uid_base + settings.uid_ranges * UID_RANGE)
    except KernelsError as error:
        return _fails(name, f"{version}: {error}", f"mend what is said there, or {other}")
    return _holds(name, f"{version}, tried")


def _tools() -> Finding:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        packages = ", ".join(sorted({_TOOLS[tool] for tool in missing}))
        return _fails("tools", f"missing: {', '.join(missing)}", f"install the packages {packages}")
    return _holds("tools", ", ".join(_TOOLS))


def _user_namespaces() -> Finding:
    try:
        limit = int(Path("/proc/sys/user/max_user_namespaces").read_text())
    except (OSError, ValueError):
        limit = 0
    if limit == 0:
        return _fails("user namespaces", "not allowed", "allow them: sysctl user.max_user_namespaces=15000")
    return _holds("user namespaces", f"at most {limit}")


def _seccomp() -> Finding:
    try:
        actions = Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        actions = []
    missing = [action for action in ("errno", "user_notif") if action not in actions]
    if missing:
        return _fails("seccomp", f"filters on this kernel know no {' and '.join(missing)}", "use Linux 5.14 or newer")
    return _holds("seccomp", " ".join(actions))


def _controllers(cgroups: Cgroups) -> Finding:
    version = "v2" if cgroups.unified else "v1"
    missing = cgroups.missing_controllers()
    if missing:
        remedy = "mount or delegate these controllers to the group the service runs in"
        return _fails("cgroups", f"cgroup {version} lacks {', '.join(missing)}", remedy)
    return _holds("cgroups", f"cgroup {version}: memory, cpu, pids")


def _swap(cgroups: Cgroups) -> Finding:
    if cgroups.limits_swap():
        return _holds("swap limit", "memory and swap are limited together")
    if re.search(r"^SwapTotal:\s+0 kB", Path("/proc/meminfo").read_text(), re.MULTILINE):
        return _holds("swap limit", "swap cannot be limited, but this host has none")
    return _fails("swap limit", "swap cannot be limited", "boot with swapaccount=1, or turn swap off (swapoff -a)")


def _swap_space() -> Finding:
    """How much swap there is, and for about how many idle sessions; without any they stay in memory."""
    found = read_meminfo()
    total, free = found.get("SwapTotal", 0), found.get("SwapFree", 0)
    remedy = (
        "to keep more idle sessions: fallocate -l 32G /swapfile, chmod 600, mkswap and swapon it; or zram:"
        " zramctl /dev/zram0 --size 16G, mkswap and swapon it"
    )
    if not total:
        return Finding("swap", ok=True, detail="none: idle sessions stay in memory", remedy=remedy)
    sessions = free // IDLE_SESSION_BYTES
    detail = f"{free >> 20} of {total >> 20} MB free, for about {sessions:,} idle sessions with pandas"
    return Finding("swap", ok=True, detail=detail, remedy="" if sessions >= ENOUGH_SESSIONS else remedy)


def _uid_ranges(settings: RuntimeSettings) -> Finding:
    first, last = settings.uid_base, settings.uid_base + settings.uid_ranges * UID_RANGE - 1
    clash = [line for name in ("/etc/subuid", "/etc/subgid") for line in _lines(name) if _overlaps(line, first, last)]
    if clash:
        return _fails("uid ranges", f"{first} to {last} is also given to {', '.join(clash)}", "choose another uid_base")
    return _holds("uid ranges", f"{first} to {last}")


def _free_space(settings: RuntimeSettings) -> Finding:
    free = shutil.disk_usage(_existing(settings.data_directory)).free
    if free < settings.disk_reserve_bytes:
        return _fails("disk", f"{free >> 20} MB free", "free some space or lower disk_reserve_bytes")
    return _holds("disk", f"{free >> 20} MB free")


def _loop_mounts() -> Finding:
    with tempfile.TemporaryDirectory() as name:
        image, target = Path(name, "image"), Path(name, "mount")
        try:
            storage.make_image(image, 8 << 20, 0)
            storage.mount_image(image, target, new=True)
        except (SandboxFailed, OSError) as error:
            return _fails(
                "loop mounts", str(error), "load the module: modprobe loop; in a container, allow loop devices"
            )
        finally:
            storage.unmount(target)
    return _holds("loop mounts", "an ext4 image mounts")


def _links_refused() -> Finding:
    """Whether a mount can refuse to follow links; without it user code could point our sockets elsewhere."""
    remedy = "use Linux 5.10 or newer"
    with tempfile.TemporaryDirectory() as name:
        target = Path(name, "mount")
        target.mkdir()
        try:
            storage.mount_transport(target)
            link = target / "link"
            link.symlink_to("/etc/hostname")
            refused = not _opens(link)
        except SandboxFailed as error:
            return _fails("nosymfollow", str(error), remedy)
        finally:
            storage.unmount(target)
    return (
        _holds("nosymfollow", "links are refused") if refused else _fails("nosymfollow", "links are followed", remedy)
    )


def _id_mapped_mounts() -> Finding:
    """Whether a workspace can be shown to the service's user as its own."""
    remedy = "use Linux 5.14 or newer, and util-linux (unshare); in a container, allow mounts and user namespaces"
    with tempfile.TemporaryDirectory() as name:
        image, target, view = Path(name, "image"), Path(name, "mount"), Path(name, "view")
        try:
            storage.make_image(image, 8 << 20, _SAMPLE_ID)
            storage.mount_image(image, target, new=True)
            idmap.mount_view(target, view, user=_SAMPLE_ID, service=_SAMPLE_ID + 1)
            shown = idmap.shows(view, _SAMPLE_ID + 1)
        except (SandboxFailed, OSError) as error:
            return _fails("ID-mapped mounts", str(error), remedy)
        finally:
            idmap.unmount_view(view)
            storage.unmount(target)
    if not shown:
        return _fails("ID-mapped mounts", "owners are not mapped", remedy)
    return _holds("ID-mapped mounts", "a file's owner shows as another")


def _opens(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def _lines(name: str) -> list[str]:
    try:
        return Path(name).read_text().split()
    except OSError:
        return []


def _overlaps(line: str, first: int, last: int) -> bool:
    fields = line.split(":")
    if len(fields) != 3 or not fields[1].isdigit() or not fields[2].isdigit():
        return False
    start, count = int(fields[1]), int(fields[2])
    return start <= last and first < start + count


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def require(findings: tuple[Finding, ...]) -> None:
    """Raise `RuntimeUnusable` naming every required finding that does not hold, with its remedy."""
    failed = [f"{one.name}: {one.detail}; {one.remedy}" for one in findings if one.required and not one.ok]
    if failed:
        raise RuntimeUnusable("this host cannot run sandboxes. " + ". ".join(failed))
