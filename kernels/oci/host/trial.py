"""Whether a runtime works on this host: one container of the host's own programs, held as a sandbox is, says a word.

Nothing less tells it: a version says nothing of a platform that does not work or of a hierarchy that is refused.
"""

from __future__ import annotations

import platform
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kernels.errors import KernelsError, SandboxFailed
from kernels.oci import seccomp
from kernels.oci.bundle import UID_RANGE
from kernels.oci.cgroups import Cgroups
from kernels.oci.command import OciCommand

_WORD: Final = "held"
_SECONDS: Final = 15
_MEMORY_BYTES: Final = 256 * 1024 * 1024
_PROGRAMS: Final = ("/usr", "/bin", "/lib", "/lib64")


def run(command: OciCommand, cgroups: Cgroups, uid: int) -> None:
    """Start a container whose root is the host's `uid`, see that it ran and was limited; raises `KernelsError`."""
    name = str(uuid.uuid4())
    with tempfile.TemporaryDirectory() as top, _remove_at_end(command, cgroups, name):
        directory = Path(top)
        directory.chmod(0o755)  # a container's root is not the host's, and must find its way
        log = directory / "log"
        command.run(name, _config(directory / "root", cgroups.path(name), uid), directory / "bundle", log)
        _await_word(command, log)
        limit = cgroups.memory_limit(name)
        if limit != _MEMORY_BYTES:
            raise SandboxFailed(f"{command.program} held a container to {limit} bytes of memory, not {_MEMORY_BYTES}")


@contextmanager
def _remove_at_end(command: OciCommand, cgroups: Cgroups, name: str) -> Iterator[None]:
    """Remove the container whatever happens; what it died of matters more than what hinders that."""
    try:
        yield
    except KernelsError as error:
        try:
            command.delete(name)
        except KernelsError:
            raise error from None
        raise
    else:
        command.delete(name)
    finally:
        cgroups.remove(name)


def _await_word(command: OciCommand, log: Path) -> None:
    give_up = time.monotonic() + _SECONDS
    while _WORD not in log.read_text(errors="replace"):
        if time.monotonic() > give_up:
            raise SandboxFailed(f"a program in a container of {command.program} did not run within {_SECONDS} s")
        time.sleep(0.01)


def _config(root: Path, cgroup: str, uid: int) -> dict[str, Any]:
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    ]
    (root / "proc").mkdir(parents=True)
    (root / "dev").mkdir()
    for program in filter(Path.exists, map(Path, _PROGRAMS)):
        (root / program.name).mkdir()
        source = str(program.resolve())
        mounts.append({"destination": str(program), "type": "bind", "source": source, "options": ["bind", "ro"]})
    mapping = [{"containerID": 0, "hostID": uid, "size": UID_RANGE}]
    kinds = ("user", "pid", "mount", "ipc", "uts", "network", "cgroup")
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(root), "readonly": True},
        "process": {
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "args": ["/bin/echo", _WORD],
            "env": ["PATH=/usr/bin:/bin"],
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in kinds],
            "uidMappings": mapping,
            "gidMappings": mapping,
            "cgroupsPath": cgroup,
            "resources": {"memory": {"limit": _MEMORY_BYTES}, "pids": {"limit": 64}},
            "seccomp": seccomp.profile(platform.machine()),
        },
    }
