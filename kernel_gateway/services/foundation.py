"""What the verbs of one gateway stand on: what is scarce, where code runs, the ways to the store, records, workspaces.

`composition.py` has the verbs and opens and closes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kernel_gateway.egress.resolver import Resolve
from kernel_gateway.egress.session_egress import S3Backends
from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.errors import GatewayError
from kernel_gateway.hosts import read_gateway_address
from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.admission.rates import Limits
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.admission.utility_sandboxes import UtilitySandboxes
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.client_tokens import ClientTokens
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.agents import Agents
from kernel_gateway.services.environments.egress import Egress
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.environments.images import Images
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.environments.layer_builds import LayerBuilds
from kernel_gateway.services.environments.layer_sandbox import Layering, LayerSandbox
from kernel_gateway.services.environments.packages import Packages
from kernel_gateway.services.mirroring.counted_store import CountedStore
from kernel_gateway.services.mirroring.deliveries import Deliveries
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.mirroring.mirrors import Mirrors, keep_account
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.idle_memory import IdleMemory
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.states.gateways import Place
from kernels.environment import Environment
from kernels.execution.outputs import OutputCaps
from kernels.host_memory import HostMemory
from kernels.images import added_packages
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.residence import WakingTurns
from workspace_sync import ObjectStore
from workspace_sync.errors import StoreUnavailable
from workspace_sync.stores.claim_files import keep_service_id


class Foundation:
    """Read from top to bottom: each service stands on those above it and takes them as plain arguments."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: ObjectStore,
        installed: Callable[[], Mapping[str, Environment]],
        roles: Sequence[DeclaredRole],
        runtime: SandboxRuntime,
        clock: Clock,
        resolve: Resolve,
        signer: S3Backends | None,
        layering: Layering,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.database = Database(settings.database_url, gateway_place(settings))
        self.background = Background()
        self.client_tokens = ClientTokens(self.database, self.background, clock)
        self.runtime = runtime
        turns = WakingTurns(lambda: self._memory_room.is_stalled())  # noqa: PLW0108 - which is made later
        self.launcher = KernelLauncher(runtime, kernel_limits(settings), turns)
        self._build_admission()
        self._build_environments(installed, roles, resolve, signer)
        self._build_mirroring(store)
        self._build_records()
        self._build_workspace_access()
        self._build_layers(installed, layering)

    def _build_admission(self) -> None:
        """What is scarce, and whether there is any."""
        settings = self.settings
        self.limits = Limits.of(settings)
        self.open_calls = OpenCalls(self.clock.now)
        self.utility_sandboxes, self.dead_sandboxes = UtilitySandboxes(self.runtime), DeadSandboxes(self.runtime)
        self._disk_room = DiskRoom(settings.data_dir, settings.disk_reserve_bytes)
        self.readiness = Readiness(self.database, self._disk_room.require)
        self.body_room = BodyRoom(settings, self._disk_room.require)
        self._host_memory = HostMemory()
        self._memory_room = MemoryRoom(
            settings.memory_reserve_bytes,
            self._host_memory.available_bytes,
            relieve=self._relieve_memory,
            held=lambda: self.idle_memory.held(),  # noqa: PLW0108 - which is made later
            stalled=self._host_memory.stalled_percent,
            most_stalled=settings.memory_stalled_percent,
        )
        self._starting = FairShares(
            "a sandbox to be started", settings.starts_at_once, most_waiting=settings.own_sessions
        )

    def _build_environments(
        self,
        installed: Callable[[], Mapping[str, Environment]],
        roles: Sequence[DeclaredRole],
        resolve: Resolve,
        signer: S3Backends | None,
    ) -> None:
        """Where code runs and what it reaches, and the audit of both."""
        self.audit = Audit(self.database, self.clock, self.settings)
        self.pools = Pools(
            settings=self.settings,
            clock=self.clock,
            runtime=self.runtime,
            launcher=self.launcher,
            installed=installed,
            count_sessions=lambda: sum(not each.hibernated for each in self.registry) + self.dead_sandboxes.count(),
            memory_room=self._memory_room,
            say_packages=lambda guest: self.packages.say_elsewhere(guest),  # noqa: PLW0108 - it is made below
        )
        self.environments = Environments(
            installed,
            self.settings,
            self.database,
            self.clock,
            roles,
            describe_pool=self.pools.describe,
            find_layer=self._find_layer,
            # Of what is made later, of what stands on environments.
            read_log=lambda environment_id: self.layer_builds.read_log(environment_id),  # noqa: PLW0108
            on_made=lambda row: self.layer_builds.start(row),  # noqa: PLW0108
            on_deleted=lambda row: self.layer_builds.stop(row),  # noqa: PLW0108
        )
        self.packages = Packages(self.environments)
        self.kernelspecs = Kernelspecs(self.environments)
        self.images = Images(installed, self.database, self.environments, self.packages, self._find_layer)
        self.agents = Agents(self.environments, self.database, self.clock, self.settings)
        self._egress = Egress(self.settings, self.runtime.listen, self.audit, resolve=resolve, signer=signer)

    def _build_mirroring(self, store: ObjectStore) -> None:
        """The ways of files to the store."""
        settings = self.settings
        store = CountedStore(store, None if self.database.lease is None else self._require_lease)
        self.durable_changes = DurableChanges()
        self.ledger = WorkspaceLedger(self.database, self.clock)
        keep_account(store, self.ledger.note_counts)
        self.mirrors = Mirrors(
            store, settings.transfer_threads, self.runtime.open_beneath, settings.restore_deadline_seconds
        )
        deliveries = Deliveries(self.database, self.clock)
        self.spool = Spool(settings.state_path / "spool", self.mirrors, deliveries.record)

    def _require_lease(self) -> None:
        """Called in a thread before the store is changed: others may have the workspace once the lease is over."""
        try:
            self.database.require_lease()
        except GatewayError as error:
            raise StoreUnavailable(f"nothing is written to the store: {error.message}") from error

    def _build_records(self) -> None:
        """What one execution gives, and the record of all of them."""
        settings = self.settings
        self.redaction = Redaction(Patterns.of_lines(settings.redact_patterns))
        self.kept_outputs = KeptOutputs(settings, self.mirrors, self.background, self.redaction)
        self._finished = FinishedJobs(settings.finished_jobs_bytes)
        self.record = Record(self.database, self.background, self.kept_outputs.keep)
        self.registry = Registry(self.database)
        self.idle_memory = IdleMemory(
            settings=self.settings, clock=self.clock, registry=self.registry, host=self._host_memory
        )

    def _build_workspace_access(self) -> None:
        """The ways to one workspace, which several services share."""
        self._access = WorkspaceAccess(
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            durable_changes=self.durable_changes,
            readiness=self.readiness,
        )
        self._copies = WorkspaceCopies(
            settings=self.settings,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            background=self.background,
            access=self._access,
            registry=self.registry,
        )

    def _find_layer(self, digest: str) -> Environment:
        """An image with added packages; raises the kernels' UnknownEnvironment."""
        return added_packages.find(Path(self.settings.data_dir), digest)

    def _build_layers(self, installed: Callable[[], Mapping[str, Environment]], layering: Layering) -> None:
        """Images with the packages that principals add."""
        sandbox = LayerSandbox(
            settings=self.settings,
            runtime=self.runtime,
            layering=layering,
            egress=self._egress,
            starting=self._starting,
            memory_room=self._memory_room,
            disk_room=self._disk_room,
            utility_sandboxes=self.utility_sandboxes,
        )
        self.layer_builds = LayerBuilds(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            audit=self.audit,
            background=self.background,
            installed=installed,
            sandbox=sandbox,
            layering=layering,
        )

    async def _relieve_memory(self, enough: Callable[[], bool]) -> None:
        """What nobody uses yet goes first."""
        await self.pools.relieve(enough)
        await self.idle_memory.relieve(enough)


def gateway_place(settings: Settings) -> Place | None:
    """That of one of several gateways, which is known by the id of its data directory."""
    if not settings.gateway_address:
        return None
    gateway_id = keep_service_id(settings.state_path / "service-id")
    return Place(gateway_id, read_gateway_address(settings.gateway_address), settings.gateway_lease_seconds)


def kernel_limits(settings: Settings) -> KernelLimits:
    """What the settings allow one kernel."""
    caps = OutputCaps(
        text_bytes=settings.output_text_bytes,
        rich_bytes=settings.output_rich_bytes,
        full_text_bytes=settings.full_output_bytes,
    )
    return KernelLimits(
        caps=caps,
        interrupt_grace_seconds=settings.interrupt_grace_seconds,
        start_seconds=settings.start_deadline_seconds,
    )
