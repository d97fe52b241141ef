"""All services of one gateway, put together, opened and closed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from kernel_gateway.egress.resolver import Resolve, system_resolve
from kernel_gateway.egress.session_egress import S3Backends
from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.errors import GatewayError
from kernel_gateway.redact_patterns import Patterns
from kernel_gateway.services.administration.oversight import Oversight
from kernel_gateway.services.administration.principals import Principals, Reach
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.admission.rates import Limits
from kernel_gateway.services.attach.attach_tokens import AttachTokens
from kernel_gateway.services.attach.attachments import Attachments
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, SystemClock
from kernel_gateway.services.credentials.access_keys import AccessKeys
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.services.datasets.copies import DatasetCopies
from kernel_gateway.services.datasets.datasets import Datasets
from kernel_gateway.services.environments.agents import Agents
from kernel_gateway.services.environments.egress import Egress
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.executions.commands import Commands, Tasks
from kernel_gateway.services.executions.executions import Executions
from kernel_gateway.services.executions.leases import Leases
from kernel_gateway.services.executions.outputs import Outputs
from kernel_gateway.services.executions.variables import Inspection
from kernel_gateway.services.executions.views import Start, Views
from kernel_gateway.services.mirroring.mirrors import Mirrors, keep_account
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.reconciler import Reconciler
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.replays.stage import ReplayServices
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sandbox_contract import Launcher
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.shutdown import shut_down
from kernel_gateway.services.workspaces.file_copies import FileCopies
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.links import WorkspaceLinks
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.retention import Retention
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.services.workspaces.workspaces import Workspaces
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernels.environment import Environment
from kernels.execution.outputs import OutputCaps
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.kernel_launcher import KernelLauncher
from kernels.sandboxed.kernel_limits import KernelLimits
from workspace_sync import ObjectStore

log = structlog.get_logger(__name__)


@dataclass
class Services:
    """What faces call. `first_token` is the administrator's token when this start made one: print it once."""

    settings: Settings
    identity: Identity
    limits: Limits
    tokens: Tokens
    attach_tokens: AttachTokens
    access_keys: AccessKeys
    sessions: Sessions
    executions: Executions
    attachments: Attachments
    leases: Leases
    commands: Commands
    tasks: Tasks
    files: Files
    inspection: Inspection
    outputs: Outputs
    notebooks: Notebooks
    views: Views
    replays: Replays
    workspaces: Workspaces
    datasets: Datasets
    dataset_copies: DatasetCopies
    removals: WorkspaceRemovals
    retention: Retention
    file_copies: FileCopies
    links: WorkspaceLinks
    parts: Parts
    registry: Registry
    lifecycle: Lifecycle
    upkeep: Reconciler
    principals: Principals
    oversight: Oversight
    first_token: str | None = None

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        store: ObjectStore,
        installed: Callable[[], dict[str, Environment]],
        roles: Sequence[DeclaredRole] = (),
        runtime: SandboxRuntime | None = None,
        launcher: Launcher | None = None,
        clock: Clock | None = None,
        resolve: Resolve = system_resolve,
        signer: S3Backends | None = None,
        view: Start | None = None,
    ) -> Services:
        """Open the database, take up the sandboxes that still run, start the timers.

        Sandboxes come from `runtime`, or from a `launcher` of the caller's. `roles` are those that made environments
        may name. Ways out ask `resolve` for addresses and `signer` for the credentials of execution roles.
        `view` starts processes that make views.
        """
        if launcher is None:
            if runtime is None:
                raise TypeError("Services.open needs a runtime or a launcher")
            launcher = KernelLauncher(runtime, kernel_limits(settings))
        clock = clock or SystemClock()
        database = Database(settings.database_url)
        environments = Environments(installed, settings, database, clock, roles)
        audit = Audit(database, clock, settings)
        egress = Egress(settings, launcher.listen, audit, resolve=resolve, signer=signer)
        parts = make_parts(
            settings, database, store=store, environments=environments, launcher=launcher, clock=clock, egress=egress
        )
        services = cls._made(parts, view)
        try:
            await services._begin()
        except BaseException:
            await services._close()
            raise
        return services

    async def _begin(self) -> None:
        """Open the database, take up what runs, start what goes on beside the calls."""
        parts = self.parts
        await parts.database.open()
        await parts.audit.open()
        self.first_token = await self.identity.open(parts.settings.token, parts.clock.now())
        await self.access_keys.open()
        parts.background.spawn(parts.audit.run(), "audit")
        parts.background.spawn(parts.ledger.run(), "ledger")
        await self.upkeep.adopt()
        parts.background.spawn(self.upkeep.run(), "upkeep")

    @classmethod
    def _made(cls, parts: Parts, view: Start | None) -> Services:
        settings, database = parts.settings, parts.database
        registry, identity = Registry(database), Identity(database, parts.clock.now, parts.last_use)
        notebooks = Notebooks(parts, registry)
        lifecycle = Lifecycle(parts, registry, notebooks)
        sessions, executions = Sessions(parts, registry, lifecycle), Executions(parts, registry)
        commands, removals = Commands(parts, registry), WorkspaceRemovals(parts)
        datasets, file_copies = Datasets(parts, registry), FileCopies(parts, WorkspaceCopies(parts, registry))
        retention = Retention(parts, removals, registry)
        replays = Replays(ReplayServices(parts, sessions, executions, commands), registry, notebooks)
        return cls(
            settings=settings,
            identity=identity,
            limits=Limits.of(settings),
            sessions=sessions,
            executions=executions,
            attachments=Attachments(parts, registry, executions, sessions),
            leases=Leases(parts, registry),
            commands=commands,
            tasks=Tasks(parts, registry),
            files=Files(parts, registry),
            inspection=Inspection(registry),
            outputs=Outputs(parts, registry),
            notebooks=notebooks,
            views=Views(notebooks, settings, view),
            replays=replays,
            workspaces=Workspaces(parts),
            datasets=datasets,
            dataset_copies=DatasetCopies(parts, datasets, file_copies),
            removals=removals,
            retention=retention,
            file_copies=file_copies,
            links=WorkspaceLinks(parts),
            parts=parts,
            registry=registry,
            lifecycle=lifecycle,
            oversight=Oversight(parts, registry, sessions),
            **_credentials(parts, identity, lifecycle, replays, registry),
            upkeep=Reconciler(parts, registry, lifecycle, notebooks, removals=removals, retention=retention),
        )

    @property
    def environments(self) -> Environments:
        return self.parts.environments

    @property
    def agents(self) -> Agents:
        return self.parts.agents

    @property
    def body_room(self) -> BodyRoom:
        return self.parts.body_room

    @property
    def audit(self) -> Audit:
        return self.parts.audit

    @property
    def ready(self) -> bool:
        """Whether new work is taken."""
        return self.parts.accepting

    async def aclose(self) -> None:
        """Take no more work, let what runs finish within `drain_seconds`, flush, and end or leave the sessions."""
        self.parts.accepting = False
        try:
            await self.replays.aclose()
            await shut_down(self.parts, self.registry, self.lifecycle)
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.inspection.aclose()
        await self.parts.background.aclose()
        await self.parts.ledger.close()
        with contextlib.suppress(GatewayError):
            await self.parts.last_use.flush()
        await self.audit.close()
        self.parts.egress.close()
        self.parts.mirrors.close()
        await self.parts.database.aclose()


def _credentials(
    parts: Parts, identity: Identity, lifecycle: Lifecycle, replays: Replays, registry: Registry
) -> dict[str, Any]:
    """Principals and what they prove themselves by; what is revoked ends the calls that came with it."""
    database, clock, revoked = parts.database, parts.clock, parts.open_calls.end_credential
    access_keys = AccessKeys(database, parts.settings, clock, parts.last_use, revoked)
    attach_tokens = AttachTokens(database, registry, identity, clock, revoked)

    def forget() -> None:
        for each in (identity, access_keys, attach_tokens):
            each.forget()

    return {
        "tokens": Tokens(database, identity, clock, revoked),
        "access_keys": access_keys,
        "attach_tokens": attach_tokens,
        "principals": Principals(parts, Reach(registry, lifecycle, replays, forget)),
    }


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


def make_parts(
    settings: Settings,
    database: Database,
    *,
    store: ObjectStore,
    environments: Environments,
    launcher: Launcher,
    clock: Clock,
    egress: Egress,
) -> Parts:
    """What the services share."""
    ledger = WorkspaceLedger(database, clock)
    keep_account(store, ledger.counted)
    mirrors = Mirrors(store, settings.transfer_threads, launcher.open_beneath, settings.restore_deadline_seconds)
    background = Background()
    redaction = Redaction(Patterns.of_lines(settings.redact_patterns))
    outputs = KeptOutputs(settings, mirrors, background, redaction)
    return Parts(
        settings=settings,
        clock=clock,
        database=database,
        launcher=launcher,
        audit=egress.audit,
        egress=egress,
        mirrors=mirrors,
        spool=Spool(settings.state_path / "spool", mirrors),
        background=background,
        finished=FinishedJobs(settings.finished_jobs_bytes),
        redaction=redaction,
        record=Record(database, background, outputs.keep),
        outputs=outputs,
        environments=environments,
        agents=Agents(environments, database, clock, settings),
        starting=FairShares("a sandbox to be started", settings.starts_at_once, most_waiting=settings.own_sessions),
        ledger=ledger,
        last_use=LastUse(database),
        open_calls=OpenCalls(clock.now),
    )
