"""Sessions: what one is, and what is asked for with a new one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.leases import Lease
from sandcell.models.model import Model
from sandcell.models.network import SessionNetwork
from sandcell.models.replays import CellVerdictName
from sandcell.models.sync import Sync, SyncMode

SessionStatus = Literal["READY", "HIBERNATED", "TERMINATED"]
Memory = Literal["resident", "paged_out"]
KeptAs = Literal["variables", "processes"]
KeepVariables = Literal["off", "on_idle", "each"]


class Ended(Model):
    """Why and when a session ended.

    `reason` is one of `stopped`, `idle_timeout`, `ttl`, `shutdown`, `start_failed`, `lost`, `state_ttl`.
    """

    reason: str
    detail: str
    at: str


class Usage(Model):
    """What a session's sandbox has used; limits in the same units. `cpu_seconds` is of all its sandboxes in turn."""

    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    memory_limit_bytes: int = 0
    cpu_seconds: float = 0.0
    pids: int = 0
    storage_used_bytes: int = 0
    storage_limit_bytes: int = 0
    executions: int = 0


class RestoredVariable(Model):
    """A name of the kernel before this one, and what this one has of it.

    `restored`. `copied`: it shared objects with other variables or with a module, and is there, but of each of those
    objects there are several now. `stale`: it is there, but older than the last execution that ended. `lost`. `why`
    says more.
    """

    name: str
    outcome: Literal["restored", "copied", "stale", "lost"]
    why: str | None = None


class Restored(Model):
    """What this generation's kernel has of the variables of the one that died.

    They are as they were at `as_of`, `later` executions before it died, the one that died among them. `variables` names
    first those that are lost, `omitted` counts the rest. `why`: nothing could be restored. `processes_lost`: why the
    processes of a session that was hibernated as those could not go on.
    """

    generation: int
    as_of: str | None
    later: int | None
    variables: list[RestoredVariable] = msgspec.field(default_factory=list)
    omitted: int = 0
    why: str | None = None
    processes_lost: str | None = None


class ForkPoint(Model, forbid_unknown_fields=True):
    """A session as it was: after the `cell` of its notebook (an execution's id, or its number there), or as it is now.

    `exact`: where anything shows otherwise than it did, or a variable is not there, nothing is started. `replay`: no
    checkpoint is used, and all cells run again.
    """

    session: str
    cell: int | str | None = None
    exact: bool = False
    replay: bool = False


class UndoRequest(Model, forbid_unknown_fields=True):
    """How many of the last cells of a session are taken back. `exact`: none, where anything is not as it was."""

    cells: Annotated[int, constraints.CELLS] = 1
    exact: bool = False


class DifferentCell(Model):
    """A cell of a session that came out otherwise when it ran again, by a replay's verdict."""

    number: int
    verdict: CellVerdictName
    why: str = ""


class Forked(Model):
    """Where a session began: as `session` was at `as_of`, after its `cell`, and what is not as it was then.

    `cells` ran again, those of `different` otherwise; `different_omitted` more. `put_back` files had been changed by
    that, and are as they were. Of the files in `left_out` nothing is known but that they changed later: they are not
    there, unless the cells made them again. Those in `changed_since` are as the cells left them: the original has other
    ones by now. At most 100 paths of either are named.
    `checkpoint` is the checkpoint that it began from, before those cells: null where all of them ran again. Of its
    variables `lost` are those that are not there, or not the same objects any more; `lost_omitted` more. `lost_besides`
    says what else it did not have, in sentences: unless the cells since made it again, it is not there.
    """

    session: str
    cell: int | None
    as_of: str
    cells: int
    different: list[DifferentCell] = msgspec.field(default_factory=list)
    different_omitted: int = 0
    put_back: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)
    left_out_omitted: int = 0
    changed_since: list[str] = msgspec.field(default_factory=list)
    changed_since_omitted: int = 0
    checkpoint: str | None = None
    lost: list[RestoredVariable] = msgspec.field(default_factory=list)
    lost_omitted: int = 0
    lost_besides: list[str] = msgspec.field(default_factory=list)


class KeptVariable(Model):
    """A name of a kernel that has ended: `kept` for the next one, or `lost` and why."""

    name: str
    outcome: Literal["kept", "lost"]
    why: str | None = None


class HibernationReport(Model):
    """What is kept of a session that is hibernated, and as what.

    `variables` names those that are lost first, `omitted` counts the rest. `lost` says what else is, in sentences.
    `size_bytes` is what the variables take in the store. One that is kept as `processes` goes on as it is, with threads
    and open files, from an image on its gateway's host, where it takes `image_bytes`; what is named as lost is lost
    only where that cannot be restored. `processes_lost`: why they could not be kept where they might have been.
    """

    since: str = ""
    until: str = ""
    size_bytes: int = 0
    variables: list[KeptVariable] = msgspec.field(default_factory=list)
    omitted: int = 0
    lost: list[str] = msgspec.field(default_factory=list)
    kept_as: KeptAs = "variables"
    image_bytes: int = 0
    processes_lost: str | None = None


class Note(Model):
    """What happened to a session besides its executions: a kernel was replaced and why, a lease, a restart, its end.

    `text` is Markdown; with `kind` it is a cell of the notebook. `generation` is the kernel's at that time.
    """

    kind: str
    at: str
    generation: int
    text: str


class Checkpoint(Model):
    """A session as it was at `created_at`: a fork begins from it, and `undo` goes back to it.

    `cell` is the execution that had ended last, the last of so many `executions`; null before the first. `size_bytes`
    is what its variables take in the store, `file_bytes` what its files do. `variables` names those that are lost
    first, `omitted` counts the rest; `lost` says what else is, in sentences.
    """

    id: str
    session_id: str
    created_at: str
    automatic: bool
    cell: str | None
    executions: int
    generation: int
    size_bytes: int
    files: int
    file_bytes: int
    variables: list[KeptVariable] = msgspec.field(default_factory=list)
    omitted: int = 0
    lost: list[str] = msgspec.field(default_factory=list)


class Session(Model):
    """One principal's live, hibernated or ended sandbox. `runtime` is the OCI runtime that it runs on.

    `memory` is null while there is no sandbox. One that is `paged_out` stands still, with its memory in swap, until its
    next use; one that was started with `keep_awake` never is. `restored` is what its kernel has of one that died or
    was hibernated. `hibernated` says what is kept of one that is HIBERNATED, and until when.
    `hibernates_at`: when it is hibernated if nobody uses it, null where that is not to come.
    `keep_variables` and `checkpoint_every` are what it was started with, null where its environment decides.
    `from` is where one began that is a fork of another. `lease`: somebody has it to themselves, until then.
    `snapshot_of` is the session that one is a snapshot of: nothing runs in it, and others begin as it is.
    """

    id: str
    name: str
    status: SessionStatus
    environment: str
    workspace_id: str
    generation: int
    created_at: str
    last_activity_at: str
    expires_at: str
    idle_expires_at: str
    timeout_seconds: int
    idle_timeout_seconds: int
    ended: Ended | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    sync: Sync = msgspec.field(default_factory=Sync)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    agent: str | None = None
    runtime: str = ""
    network: SessionNetwork = msgspec.field(default_factory=SessionNetwork)
    memory: Memory | None = None
    keep_awake: bool = False
    restored: Restored | None = None
    keep_variables: KeepVariables | None = None
    keep_variables_mb: int | None = None
    checkpoint_every: int | None = None
    from_: Forked | None = msgspec.field(default=None, name="from")
    hibernated: HibernationReport | None = None
    hibernates_at: str | None = None
    lease: Lease | None = None
    snapshot_of: str | None = None


class StartSession(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions`; what is left out takes the environment's or the service's default.

    `environment` is an id or a name; left out it is that of the `agent`, if it is registered, else `python`.
    `replay_of` is a session, ended or live: the new one has its environment, a copy of its files, and ran its cells.
    `from` says of which session the new one is to be a fork.
    `sync` before_return: answers of executions and commands wait until their files are in the store.
    `keep_awake`: timers and threads of its code go on while nobody uses it; else it may stand still.
    `keep_variables`: whether variables outlive a kernel that dies, written down when the session is idle or after each
    execution, at most `keep_variables_mb` of them.
    `checkpoint_every`: after so many executions, again and again, it is kept as it is, for forks and `undo`; 0: never.
    """

    environment: str | None = None
    name: Annotated[str, constraints.NAME] = ""
    workspace_id: str | None = None
    timeout_seconds: Annotated[int | None, constraints.SECONDS_OF_SESSION] = None
    idle_timeout_seconds: Annotated[int | None, constraints.SECONDS_OF_SESSION] = None
    agent: Annotated[str | None, constraints.NAME] = None
    labels: constraints.Labels = msgspec.field(default_factory=dict)
    replay_of: str | None = None
    from_: ForkPoint | None = msgspec.field(default=None, name="from")
    sync: SyncMode | None = None
    keep_awake: bool = False
    keep_variables: KeepVariables | None = None
    keep_variables_mb: Annotated[int | None, constraints.KEPT_MB] = None
    checkpoint_every: Annotated[int | None, constraints.CHECKPOINT_EVERY] = None
