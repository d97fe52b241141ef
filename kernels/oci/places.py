"""Where a sandbox's things lie on the host, and the journal that lets any later process clean them up.

`home` (below the data directory) holds the bundle, the storage image and its mount; `transport` (below the run
directory, so that socket paths stay short) is the socket directory, `view` beside it the workspace as the service sees
it. The journal is written before anything else is acquired.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import RuntimeUnusable
from kernels.oci.namespaces import mounts
from kernels.sandbox import RuntimeSettings, SandboxInfo

_LONGEST_SOCKET_NAME: Final = "/guest/deno-g99999999-4"
_SUN_PATH_BYTES: Final = 107
_ID_LENGTH: Final = 36
_JOURNAL: Final = "sandbox.json"
_WORKSPACE_READY_BEFORE: Final = "furnished"
"""As the version before named the mark: its sandboxes outlive the upgrade."""
_PREPARING: Final = threading.Lock()


def read_uid_base(home: Path) -> int | None:
    """The first host uid by the journal in a sandbox's directory, of any service; None when it says none."""
    try:
        return int(json.loads((home / _JOURNAL).read_text())["uid_base"])
    except (OSError, ValueError, KeyError):
        return None


def write_journal(home: Path, uid_base: int | None, runtime: str, environment_digest: str) -> None:
    """Say in a sandbox's directory what it has and runs on: whole or not at all. None for the uid to come."""
    content = {"runtime": runtime, "environment_digest": environment_digest}
    numbers = {} if uid_base is None else {"uid_base": uid_base}
    unfinished = home / f".{_JOURNAL}"
    unfinished.write_text(json.dumps({**numbers, **content}))
    unfinished.replace(home / _JOURNAL)


class SandboxPlaces(msgspec.Struct, frozen=True):
    """Every host path of one sandbox."""

    sandbox_id: str
    home: Path
    transport: Path
    view: Path

    @property
    def bundle(self) -> Path:
        return self.home / "bundle"

    @property
    def image(self) -> Path:
        return self.home / "storage.img"

    @property
    def storage(self) -> Path:
        return self.home / "storage"

    @property
    def log(self) -> Path:
        return self.home / "container.log"

    @property
    def saved(self) -> Path:
        """Holds the checkpoint of a sandbox whose processes were saved and ended; complete once it is there."""
        return self.home / "saved"

    @property
    def unsaved(self) -> Path:
        """The same while it is written."""
        return self.home / "saved.part"

    @property
    def before(self) -> Path:
        """What was counted until the last checkpoint."""
        return self.home / "before.json"

    @property
    def journal(self) -> Path:
        return self.home / _JOURNAL

    @property
    def workspace_ready(self) -> Path:
        """Exists once the workspace holds all that belongs in it at its start."""
        return self.home / "workspace-ready"

    @property
    def spare(self) -> Path:
        """Exists for a sandbox that was made before there was a session for it."""
        return self.home / "spare"

    def info(self) -> SandboxInfo:
        """The sandbox as its users see it."""
        return SandboxInfo(
            self.sandbox_id,
            workspace_directory=str(self.view),
            workspace_ready=self.workspace_ready.exists() or (self.home / _WORKSPACE_READY_BEFORE).exists(),
            environment_digest=self._read_environment_digest(),
            runtime=self.runtime() or "",
        )

    def write_journal(self, uid_base: int, runtime: str, environment_digest: str = "") -> None:
        write_journal(self.home, uid_base, runtime, environment_digest)

    def read_journal(self) -> int | None:
        """The sandbox's first host uid, or None when it was cut off before it had one."""
        return read_uid_base(self.home)

    def runtime(self) -> str | None:
        """The runtime that made the sandbox, or None when it was cut off before one did, or older than the choice."""
        try:
            return str(json.loads(self.journal.read_text())["runtime"])
        except (OSError, ValueError, KeyError):
            return None

    def _read_environment_digest(self) -> str:
        try:
            return str(json.loads(self.journal.read_text()).get("environment_digest", ""))
        except (OSError, ValueError, AttributeError):
            return ""

    def first_process(self) -> int | None:
        """Host id of PID 1, as the runtime wrote it."""
        try:
            return int((self.bundle / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None


class Announcement(msgspec.Struct, frozen=True):
    """What one of several gateways says to the others on its host: where its sandboxes lie, and to which it belongs.

    `groups` are the control groups of its launcher, as /proc has them: those of its sandboxes lie by them.
    """

    data: str
    gateways: str
    groups: str


class HostPlaces:
    """The directories of one service: two services on one host never see each other's sandboxes.

    But for gateways of one database (`kernels.shared_host`). `views` is where workspaces are shown, if elsewhere.
    """

    ANNOUNCEMENT: Final = "gateway.json"

    def __init__(self, settings: RuntimeSettings, views: Path | None = None) -> None:
        data_directory, run_directory = settings.data_directory, settings.run_directory
        self.tag = hashlib.sha256(str(data_directory).encode()).hexdigest()[:8]
        self.cgroup = f"{settings.cgroup_parent}-{self.tag}"
        """The parent group of the sandboxes, and of the service."""
        self.data = data_directory
        self.sandboxes = data_directory / "sandboxes"
        self.guests = data_directory / "guest"
        self.run = run_directory / self.tag
        self.views = views or self.run / "views"
        self.runtime_state = self.run / "oci"
        self.release = self.run / "release.sock"
        """Where its launcher is asked for sandboxes (`kernels.sandbox_release`)."""
        self._service = settings.service_uid
        self._gateways = settings.gateways
        self.uid_claims = run_directory / "uids"
        longest = len(str(self.run)) + 1 + _ID_LENGTH + len(_LONGEST_SOCKET_NAME)
        if longest > _SUN_PATH_BYTES:
            raise RuntimeUnusable(
                f"run_dir {run_directory} is too long for Unix sockets: it may have at most"
                f" {_SUN_PATH_BYTES - longest + len(str(run_directory))} characters; choose a shorter one"
            )

    def prepare(self) -> None:
        """Make the directories, closed to other users of the host; the service's may pass through to its views."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.run.parent.mkdir(parents=True, exist_ok=True)
        for directory in (self.sandboxes, self.guests, self.run, self.runtime_state, self.views):
            directory.mkdir(exist_ok=True, mode=0o700)
        if self._service:
            for directory in (self.run, self.views):
                os.chown(directory, 0, self._service)
                directory.chmod(0o710)
            with _PREPARING:  # a second mount on top would hide the views of the first
                if not mounts.is_mounted(self.views):
                    mounts.share(self.views)
        self._announce()

    def _announce(self) -> None:
        place = self.run / self.ANNOUNCEMENT
        if not self._gateways or place.exists():
            return
        said = Announcement(str(self.data), self._gateways, Path("/proc/self/cgroup").read_text())
        unfinished = place.with_name(f".{place.name}.{threading.get_ident()}")
        unfinished.touch(mode=0o600)
        unfinished.write_bytes(msgspec.json.encode(said))
        unfinished.replace(place)

    def remove_empty(self) -> None:
        """Remove the directories of the run directory that have nothing in them."""
        mounts.detach(self.views)
        for file in (self.run / self.ANNOUNCEMENT, self.release):
            with contextlib.suppress(OSError):
                file.unlink()
        for directory in (self.views, self.runtime_state, self.run):
            with contextlib.suppress(OSError):
                directory.rmdir()

    def of(self, sandbox_id: str) -> SandboxPlaces:
        home, transport = self.sandboxes / sandbox_id, self.run / sandbox_id
        return SandboxPlaces(sandbox_id, home, transport, self.views / sandbox_id)

    def list_ids(self) -> list[str]:
        """Ids of every sandbox that has anything left here."""
        return sorted({path.name for top in (self.sandboxes, self.run, self.views) for path in top.glob("*-*-*-*-*")})
