"""The OCI bundle of a sandbox: the whole security profile, in one place to read. Pure.

Words: the *guest* is PID 1 and root of the sandbox's own user namespace; *user code* is uid 1000 in it, without
capabilities. Format: OCI runtime specification 1.0.2.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kernels.environment import Environment
from kernels.oci import seccomp
from kernels.sandbox import SandboxSpec

USER_ID: Final = 1000
"""uid and gid of user code inside every sandbox."""

UID_RANGE: Final = 65536
"""Ids in one sandbox's user namespace."""

GUEST_CAPABILITIES: Final = (
    "CAP_SETUID",  # start kernels and commands as the user, and act on files as the user
    "CAP_SETGID",
    "CAP_KILL",  # signal the user's processes
    "CAP_CHOWN",  # hand the home directory and the socket directory to the user
    "CAP_DAC_OVERRIDE",  # clear away what the user left unreadable in the socket directory
    "CAP_FOWNER",
    "CAP_SETPCAP",  # empty its bounding set, which all that it starts inherits; it gives this one up with that
)

SETUP_CAPABILITIES: Final = tuple(
    f"CAP_{name}" for name in ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID"]
)
"""What the scripts of packages do to files and users of the image that they set up, as root of their own namespace."""

MASKED_PATHS: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/tty",
    "/proc/vmallocinfo",
)

TERMINALS: Final = 16
"""Pseudo-terminals of one sandbox; the host has one number of them for all (`kernel.pty.max`)."""

NETLINK_SOCKETS: Final = 16
"""Netlink sockets that a sandbox may have at once. What lies unread in one is charged to no control group."""

SHARED: Final = ("/sys", "/opt/sandcell/guest", "/mnt")
"""What the bundle binds of files that many sandboxes see, all in one directory: each gets an overlay of it."""

SETUP_FILES: Final = "/run/sandcell"
"""Where what sets an image up finds what it was given."""

HOST_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""With a user namespace these are what the runtime finds at the host's /dev: to be used, not to be touched."""

FULL_SHARES: Final = 1024
"""Of the processors, against other sandboxes: what the kernel gives a group that says nothing (cgroup v1's unit)."""
SPARE_SHARES: Final = 2
"""The least that there is: for a sandbox that no session has yet."""

_CPU_PERIOD_MICROSECONDS: Final = 100_000
_LEAST_QUOTA_MICROSECONDS: Final = 1_000  # the kernel's
_TASKS_PER_PROCESS: Final = 8
"""Tasks of the host that serve one process under gVisor (ptrace platform): six to seven were seen."""
_TASKS_OF_ITS_OWN: Final = 256


@dataclass(frozen=True)
class Places:
    """Host paths that a bundle binds, and the identity and cgroup it gets.

    `processors` is shown at /sys; `uid_base` is the host id of the sandbox's uid 0; `cgroup` is in the OCI form
    (absolute, or relative to ours). `user_namespace` is the path of the one to join, empty for the runtime to make it.
    `processors_left` is how many the groups above leave it: a quota beyond that is none, and refused on cgroup v1.
    `mnt` is shown at /mnt, where models that know other interpreters look for files; empty: nothing is.
    """

    guest: str
    transport: str
    workspace: str
    home: str
    temporary: str
    processors: str
    uid_base: int
    cgroup: str
    user_namespace: str = ""
    processors_left: float = math.inf
    mnt: str = ""


class SetupPlaces(msgspec.Struct, frozen=True):
    """Where an image is set up: host paths (`root`, `temporary`, `files`), and the identity and cgroup, as above."""

    root: str
    temporary: str
    files: str
    uid_base: int
    cgroup: str
    user_namespace: str = ""


@dataclass(frozen=True)
class SetupLimits:
    """What a container gets in which an image is set up: `file_bytes` of one file, `open_files` of one process."""

    memory_bytes: int
    pids: int
    vcpus: float
    file_bytes: int
    open_files: int
    processors_left: float = math.inf


def config(spec: SandboxSpec, places: Places, *, machine: str, swap: bool) -> dict[str, Any]:
    """The `config.json` of one sandbox; `swap` says whether the host can limit memory and swap together."""
    environment = spec.environment
    return {
        "ociVersion": "1.0.2",
        "hostname": spec.hostname,
        "root": {"path": environment.root, "readonly": True},
        "process": _process(spec, places.processors_left),
        "mounts": _mounts(spec, places),
        "linux": _linux(places, _resources(spec, places.processors_left, swap=swap), seccomp.profile(machine)),
    }


def _linux(places: Places | SetupPlaces, resources: dict[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespaces": _namespaces(places.user_namespace),
        "uidMappings": [_mapping(places.uid_base)],
        "gidMappings": [_mapping(places.uid_base)],
        "cgroupsPath": places.cgroup,
        "resources": resources,
        "seccomp": profile,
        "maskedPaths": list(MASKED_PATHS),
        "readonlyPaths": ["/proc/sys", *HOST_DEVICES],
        "rootfsPropagation": "private",
    }


def setup_config(
    places: SetupPlaces,
    command: Sequence[str],
    variables: Sequence[str],
    limits: SetupLimits,
    *,
    machine: str,
    swap: bool,
) -> dict[str, Any]:
    """The `config.json` of a container in which an image is set up: its root can be written to, and it is alone.

    It makes no network namespace: its caller has one of its own, set up as a runtime could not.
    """
    memory = {"limit": limits.memory_bytes}
    if swap:
        memory["swap"] = limits.memory_bytes
    resources = {
        "devices": [{"allow": False, "access": "rwm"}],
        "memory": memory,
        "cpu": {"period": _CPU_PERIOD_MICROSECONDS, "quota": _quota(limits.vcpus, limits.processors_left)},
        "pids": {"limit": limits.pids},
    }
    mounts = [
        _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
        _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=64k"),
        _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=64m"),  # noqa: S108
        _mount("/run", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=755", "size=64m"),
        _bind("/tmp", places.temporary, "rw", "nosuid", "nodev"),  # noqa: S108
        _bind(SETUP_FILES, places.files, "ro", "nosuid", "nodev"),
    ]
    linux = _linux(places, resources, seccomp.for_setup(seccomp.profile(machine)))
    own = [each for each in linux["namespaces"] if each["type"] != "network"]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": places.root, "readonly": False},
        "process": _setup_process(command, variables, limits),
        "mounts": mounts,
        "linux": {**linux, "namespaces": own},
    }


def _setup_process(command: Sequence[str], variables: Sequence[str], limits: SetupLimits) -> dict[str, Any]:
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "cwd": "/",
        "args": list(command),
        "env": list(variables),
        "noNewPrivileges": True,
        "capabilities": {kind: list(SETUP_CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
        "rlimits": [
            _limit("RLIMIT_CORE", 0),
            _limit("RLIMIT_FSIZE", limits.file_bytes),
            _limit("RLIMIT_NOFILE", limits.open_files),
        ],
    }


def rebase(config: dict[str, Any], directory: str) -> tuple[dict[str, Any], list[str]]:
    """The same bundle with each host path that it shows to the sandbox as `<directory>/<number>`, and those paths."""
    sources = [config["root"]["path"]]
    mounts = []
    for mount in config["mounts"]:
        if mount["type"] == "bind":
            mounts.append({**mount, "source": f"{directory}/{len(sources)}"})
            sources.append(mount["source"])
        else:
            mounts.append(mount)
    return {**config, "root": {**config["root"], "path": f"{directory}/0"}, "mounts": mounts}, sources


def with_own_views(config: dict[str, Any], image: str, directory: str) -> tuple[dict[str, Any], list[str]]:
    """The same bundle with `image` as its root, and what other sandboxes see as well below `<directory>/0`.

    Also the one path that belongs there, the directory that all of that lies in; none when there is nothing of it.
    """
    shared = [mount["source"] for mount in config["mounts"] if mount["destination"] in SHARED]
    top = os.path.commonpath(shared) if shared else ""
    mounts = [
        {**mount, "source": f"{directory}/0/{os.path.relpath(mount['source'], top)}"}
        if mount["destination"] in SHARED
        else mount
        for mount in config["mounts"]
    ]
    return {**config, "root": {**config["root"], "path": image}, "mounts": mounts}, [top] if top else []


def without_limits_of_processes(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The same bundle without those, and the limits by their names, to be inherited.

    In a namespace that was made for it a runtime may not set them.
    """
    process = {**config["process"]}
    limits = {each["type"]: each["hard"] for each in process.pop("rlimits", ())}
    return {**config, "process": process}, limits


def with_kernel_of_its_own(config: dict[str, Any]) -> dict[str, Any]:
    """The same bundle for gVisor, whose processes, terminals and netlink sockets are not the host's.

    Its kernel counts processes, by a limit of the user; the group's limit is on the tasks of the host that serve them,
    and a sandbox that reaches that one ends.
    """
    process, linux = config["process"], config["linux"]
    processes = linux["resources"]["pids"]["limit"]
    tasks = {"limit": processes * _TASKS_PER_PROCESS + _TASKS_OF_ITS_OWN}
    guest = "/opt/sandcell/guest" in process["args"]
    return {
        **config,
        "mounts": [*(_without_count(mount) for mount in config["mounts"]), *([_own_sockets()] if guest else ())],
        "process": {
            **process,
            "args": [*process["args"], *(("--netlink-sockets", "0") if guest else ())],
            "rlimits": [*process.get("rlimits", ()), _limit("RLIMIT_NPROC", processes)],
        },
        "linux": {
            **linux,
            "seccomp": seccomp.for_gvisor(linux["seccomp"]),
            "resources": {**linux["resources"], "pids": tasks},
        },
    }


def _own_sockets() -> dict[str, Any]:
    """The kernel's sockets within gVisor: it cannot save a sandbox whose processes listen on the host."""
    return _mount("/run/sandcell/kernel", "tmpfs", "tmpfs", "nosuid", "nodev", "noexec", "mode=700", "size=1m")


def _without_count(mount: dict[str, Any]) -> dict[str, Any]:
    return {**mount, "options": [option for option in mount["options"] if not option.startswith("max=")]}


def without_guest_proc(config: dict[str, Any]) -> dict[str, Any]:
    """The same bundle with one /proc, which is writable, for runtimes that mount no second one."""
    mounts = [mount for mount in config["mounts"] if not mount["destination"].startswith("/dev/guest")]
    return {**config, "mounts": [_writable(mount) if mount["type"] == "proc" else mount for mount in mounts]}


def _writable(mount: dict[str, Any]) -> dict[str, Any]:
    return {**mount, "options": [option for option in mount["options"] if option != "ro"]}


def _namespaces(user: str) -> list[dict[str, Any]]:
    new = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network", "cgroup")]
    return [{"type": "user", "path": user} if user else {"type": "user"}, *new]


def way_out(environment: Environment) -> list[str]:
    """How far code reaches, as the guest has to know it to answer and to set variables; it decides nothing."""
    role, arguments = environment.role, ["--network", str(environment.network.mode)]
    if role is not None:
        arguments += ["--role", f"s3://{role.bucket}/{role.prefix}", "--region", role.region]
    if environment.index is not None:
        arguments += ["--index", "1"]
    return arguments


def _variables(environment: Environment) -> list[str]:
    """What the image sets for its programs. The guest passes it on; its own environment has none of it."""
    if not environment.variables:
        return []
    return ["--variables", json.dumps(dict(environment.variables), ensure_ascii=False)]


def _process(spec: SandboxSpec, processors_left: float) -> dict[str, Any]:
    """The guest. It sets its own limits and its children's: a runtime may not, in a namespace made for it."""
    environment = spec.environment
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "cwd": "/",
        "args": [
            environment.python, "-I", "-B", "/opt/sandcell/guest",
            "--generation", str(spec.generation),
            "--vcpus", f"{min(environment.resources.vcpus, processors_left):.3f}",
            "--file-bytes", str(environment.resources.storage_bytes),
            "--python", environment.python,
            "--netlink-sockets", str(NETLINK_SOCKETS),
            *way_out(environment),
            *(("--keep-packages", "1") if environment.keep_packages else ()),
            *_variables(environment),
        ],
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
        "noNewPrivileges": True,
        "capabilities": {kind: list(GUEST_CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
    }  # fmt: skip


def _mounts(spec: SandboxSpec, places: Places) -> list[dict[str, Any]]:
    shared_memory = spec.environment.resources.memory_bytes // 2
    return [
        # Read-only, or user code would take its oom_score_adj back and the guest would be killed in its stead.
        _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev", "ro"),
        _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=64k"),
        # The guest's own: where it raises that of what it starts.
        _mount("/dev/guest", "tmpfs", "tmpfs", "nosuid", "noexec", "nodev", "mode=700", "size=4k"),
        _mount("/dev/guest/proc", "proc", "proc", "nosuid", "noexec", "nodev", "subset=pid"),
        _mount(
            "/dev/pts",
            "devpts",
            "devpts",
            "nosuid",
            "noexec",
            "newinstance",
            "ptmxmode=0666",
            "mode=0620",
            f"max={TERMINALS}",
        ),
        _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", f"size={shared_memory}"),  # noqa: S108
        _bind("/sys", places.processors, "ro", "nosuid", "nodev", "noexec"),
        _bind("/opt/sandcell/guest", places.guest, "ro", "nosuid", "nodev"),
        _bind("/run/sandcell", places.transport, "rw", "nosuid", "nodev", "noexec"),
        _bind("/workspace", places.workspace, "rw", "nosuid", "nodev"),
        *([_bind("/mnt", places.mnt, "ro", "nosuid", "nodev", "noexec")] if places.mnt else ()),
        _bind("/home/user", places.home, "rw", "nosuid", "nodev"),
        _bind("/tmp", places.temporary, "rw", "nosuid", "nodev"),  # noqa: S108
    ]


def _resources(spec: SandboxSpec, processors_left: float, *, swap: bool) -> dict[str, Any]:
    resources = spec.environment.resources
    memory = {"limit": resources.memory_bytes}
    if swap:
        memory["swap"] = resources.memory_bytes
    return {
        # Nothing but what a runtime gives every container: null, zero, full, random, urandom, tty, ptmx.
        "devices": [{"allow": False, "access": "rwm"}],
        "memory": memory,
        "cpu": {
            "period": _CPU_PERIOD_MICROSECONDS,
            "quota": _quota(resources.vcpus, processors_left),
            **({"shares": SPARE_SHARES} if spec.spare else {}),
        },
        "pids": {"limit": resources.pids},
    }


def _quota(vcpus: float, processors_left: float) -> int:
    wanted = math.ceil(vcpus * _CPU_PERIOD_MICROSECONDS)
    if wanted <= processors_left * _CPU_PERIOD_MICROSECONDS:
        return wanted
    # Rounded up it could be more than the group above has.
    return max(_LEAST_QUOTA_MICROSECONDS, math.floor(processors_left * _CPU_PERIOD_MICROSECONDS))


def socket_bytes(memory_bytes: int) -> int:
    """What the buffers of a sandbox's sockets may take where that is counted apart from its memory (cgroup v1)."""
    return memory_bytes // 16


def _mapping(base: int) -> dict[str, int]:
    return {"containerID": 0, "hostID": base, "size": UID_RANGE}


def _limit(kind: str, value: int) -> dict[str, Any]:
    return {"type": kind, "hard": value, "soft": value}


def _mount(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _bind(destination: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": "bind", "source": source, "options": ["bind", *options]}
