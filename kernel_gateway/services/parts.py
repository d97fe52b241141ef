"""What the services of one gateway share."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernel_gateway.errors import ShuttingDown
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.admission.disk_room import await_room, require_room
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.environments.agents import Agents
from kernel_gateway.services.environments.egress import Egress
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sandbox_contract import Launcher
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database


@dataclass
class Parts:
    """Made once by `Services.open`."""

    settings: Settings
    clock: Clock
    database: Database
    launcher: Launcher
    audit: Audit
    egress: Egress
    mirrors: Mirrors
    spool: Spool
    background: Background
    finished: FinishedJobs
    record: Record
    outputs: KeptOutputs
    redaction: Redaction
    environments: Environments
    agents: Agents
    starting: FairShares
    ledger: WorkspaceLedger
    last_use: LastUse
    open_calls: OpenCalls
    durable_changes: DurableChanges = field(default_factory=DurableChanges)
    errands: set[str] = field(default_factory=set)
    """Sandboxes that do one thing and belong to no session."""
    accepting: bool = field(default=True)
    body_room: BodyRoom = field(init=False)

    def __post_init__(self) -> None:
        self.body_room = BodyRoom(self.settings, self.require_disk)

    def require_accepting(self) -> None:
        """Raises ShuttingDown once the service drains."""
        if not self.accepting:
            raise ShuttingDown("the service is shutting down and takes no new work")

    def require_disk(self, size: int = 0) -> None:
        """Raises NoSpace when the disk under the data directory has less free than the reserve and `size` bytes."""
        require_room(self.settings.data_dir, self.settings.disk_reserve_bytes, size)

    async def await_disk(self) -> None:
        """As `require_disk`, with a moment's patience for what was just killed or removed to be freed."""
        await await_room(self.settings.data_dir, self.settings.disk_reserve_bytes)
