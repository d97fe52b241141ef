"""Objects of the control plane and of envd, as E2B's clients read them. Pure."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from typing import Any, Final

from kernel_gateway.faces.e2b.identifiers import HOME, USER, format_sandbox_id
from kernels.environment import Resources
from kernels.guest_client.client import FileStat
from kernels.guest_client.programs import RunningProgram
from sandcell.models.sessions import Session

ENVD_VERSION: Final = "0.5.7"
"""What clients conclude from it: a default user, stdin that can be closed, uploads as octets; no metadata of files."""
CLIENT_ID: Final = "sandcell"
USER_ID: Final = 1000
_IDS_OF_IMAGES: Final = 65_536
TYPES: Final = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY", "link": "FILE_TYPE_SYMLINK"}


def describe_sandbox(session: Session, token: str) -> dict[str, Any]:
    """The answer to create and connect."""
    return {
        "templateID": session.environment,
        "alias": session.environment,
        "sandboxID": format_sandbox_id(session.id),
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": token,
        "trafficAccessToken": token,
        "domain": None,
    }


def list_sandbox(session: Session, resources: Resources) -> dict[str, Any]:
    """One of a list."""
    return {
        "templateID": session.environment,
        "alias": session.environment,
        "sandboxID": format_sandbox_id(session.id),
        "clientID": CLIENT_ID,
        "startedAt": session.created_at,
        "endAt": min(session.expires_at, session.idle_expires_at),
        "cpuCount": max(1, round(resources.vcpus)),
        "memoryMB": resources.memory_bytes >> 20,
        "diskSizeMB": resources.storage_bytes >> 20,
        "metadata": session.labels,
        "state": "paused" if session.status == "HIBERNATED" else "running",
        "envdVersion": ENVD_VERSION,
    }


def detail_sandbox(session: Session, resources: Resources, *, internet: bool) -> dict[str, Any]:
    """All that is said of one."""
    return {
        **list_sandbox(session, resources),
        "domain": None,
        "allowInternetAccess": internet,
        "lifecycle": {"autoResume": True, "onTimeout": "kill"},
    }


def describe_metric(session: Session, resources: Resources, now: float) -> dict[str, Any]:
    """What a sandbox uses now; what is not measured is 0."""
    usage = session.usage
    return {
        "timestamp": _rfc3339(now),
        "timestampUnix": int(now),
        "cpuCount": max(1, round(resources.vcpus)),
        "cpuUsedPct": 0.0,
        "memUsed": usage.memory_bytes,
        "memTotal": usage.memory_limit_bytes,
        "memCache": 0,
        "diskUsed": usage.storage_used_bytes,
        "diskTotal": usage.storage_limit_bytes,
    }


def describe_entry(found: FileStat) -> dict[str, Any]:
    """A file, directory or link; int64 travels as text."""
    path = "/" + found.path
    kind = {"directory": stat.S_IFDIR, "link": stat.S_IFLNK}.get(found.kind, stat.S_IFREG)
    return {
        "name": path.rsplit("/", 1)[1] or "/",
        "type": TYPES.get(found.kind, "FILE_TYPE_UNSPECIFIED"),
        "path": path,
        "size": str(found.size),
        "mode": found.mode,
        "permissions": stat.filemode(kind | found.mode),
        "owner": _name(found.uid),
        "group": _name(found.gid),
        "modifiedTime": _rfc3339(found.modified),
        **({"symlinkTarget": found.target, "isSymlink": True} if found.target else {}),
    }


def describe_written(found: FileStat) -> dict[str, Any]:
    """A file that was uploaded."""
    path = "/" + found.path
    return {"name": path.rsplit("/", 1)[1], "path": path, "type": "file"}


def describe_program(program: RunningProgram) -> dict[str, Any]:
    """One of the list of processes."""
    command = [*program.command, ""]
    config = {
        "cmd": command[0],
        "args": program.command[1:],
        "envs": program.variables,
        "cwd": program.directory or HOME,
    }
    return {"config": config, "pid": program.pid, **({"tag": program.tag} if program.tag else {})}


def _name(number: int) -> str:
    """In a pod the user has a number beyond those that images give."""
    return {0: "root", USER_ID: USER}.get(number, str(number) if number < _IDS_OF_IMAGES else USER)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
