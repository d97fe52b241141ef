"""All services of one gateway, put together, opened and closed. What they stand on is in `foundation.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from kernel_gateway.egress.resolver import Resolve, system_resolve
from kernel_gateway.egress.session_egress import S3Backends
from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.errors import GatewayError
from kernel_gateway.services.administration.host_check import HostCheck
from kernel_gateway.services.administration.oversight import Oversight
from kernel_gateway.services.administration.principals import Principals
from kernel_gateway.services.adoption import Adoption
from kernel_gateway.services.attach.attach_tokens import AttachTokens
from kernel_gateway.services.attach.attachments import Attachments
from kernel_gateway.services.audit.self_check import AuditSelfCheck
from kernel_gateway.services.backlog import Backlog
from kernel_gateway.services.checkpoints.checkpoints import Checkpoints
from kernel_gateway.services.clock import Clock, SystemClock
from kernel_gateway.services.credentials.access_keys import AccessKeys
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.credentials.openid_provider import OpenIdProvider
from kernel_gateway.services.credentials.sandbox_tokens import SandboxTokens
from kernel_gateway.services.credentials.sign_ins import SignIns
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.services.datasets.copies import DatasetCopies
from kernel_gateway.services.datasets.datasets import Datasets
from kernel_gateway.services.datasets.sandbox import DatasetSandbox
from kernel_gateway.services.environments.layer_sandbox import Layering, NoLayering
from kernel_gateway.services.executions.commands import Commands, Tasks
from kernel_gateway.services.executions.executions import Executions
from kernel_gateway.services.executions.inspection import Inspection
from kernel_gateway.services.executions.leases import Leases
from kernel_gateway.services.executions.outputs import Outputs
from kernel_gateway.services.executions.program_streams import ProgramStreams
from kernel_gateway.services.executions.programs import Programs
from kernel_gateway.services.executions.task_ends import TaskEnds
from kernel_gateway.services.executions.views import Start, Views
from kernel_gateway.services.executions.widget_moves import WidgetMoves
from kernel_gateway.services.figures import LiveFigures
from kernel_gateway.services.foundation import Foundation
from kernel_gateway.services.gateways import Gateways
from kernel_gateway.services.mirroring.carried_variables import CarriedVariables
from kernel_gateway.services.mirroring.snapshots import Snapshots
from kernel_gateway.services.reconciler import Reconciler
from kernel_gateway.services.replays.forks import Forks
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.replays.session_copies import SessionCopies
from kernel_gateway.services.replays.stage import ReplayServices
from kernel_gateway.services.replays.undo import Undo
from kernel_gateway.services.sessions.builder import SandboxBuilder, SessionBuilder
from kernel_gateway.services.sessions.contexts import Contexts
from kernel_gateway.services.sessions.hibernating.hibernation import Hibernation
from kernel_gateway.services.sessions.hibernating.waking import Waking
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.shutdown import Shutdown
from kernel_gateway.services.workspaces.file_copies import FileCopies
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.links import WorkspaceLinks
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.retention import Retention
from kernel_gateway.services.workspaces.sandbox_files import SandboxFiles
from kernel_gateway.services.workspaces.staged_uploads import StagedUploads
from kernel_gateway.services.workspaces.uploads import Uploads
from kernel_gateway.services.workspaces.watches import Watches
from kernel_gateway.services.workspaces.workspaces import Workspaces
from kernel_gateway.settings import Settings
from kernels.environment import Environment
from kernels.sandbox import SandboxRuntime
from workspace_sync import ObjectStore
from workspace_sync.stores.claim_files import keep_service_id


class Services(Foundation):
    """What faces call. `first_token` is the administrator's token when this start made one: print it once.

    Read from top to bottom: each service stands on those above it and takes them as plain arguments. Nothing runs
    before `_begin`.
    """

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
        view: Start | None,
        layering: Layering | None,
    ) -> None:
        super().__init__(
            settings,
            store=store,
            installed=installed,
            roles=roles,
            runtime=runtime,
            clock=clock,
            resolve=resolve,
            signer=signer,
            layering=layering or NoLayering(),
        )
        self.first_token: str | None = None
        self._build_workspaces()
        self._build_removals()
        self._build_hibernation()
        self._build_session_builder()
        self._build_sessions()
        self._build_executions()
        self._build_attachments()
        self._build_notebook_uses(view)
        self._build_forks()
        self._build_datasets()
        self._build_credentials()
        self._build_upkeep()
        self._build_figures()
        self._build_shutdown()

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        store: ObjectStore,
        installed: Callable[[], Mapping[str, Environment]],
        runtime: SandboxRuntime,
        roles: Sequence[DeclaredRole] = (),
        clock: Clock | None = None,
        resolve: Resolve = system_resolve,
        signer: S3Backends | None = None,
        view: Start | None = None,
        layering: Layering | None = None,
    ) -> Services:
        """Open the database, take up the sandboxes that still run, start the timers.

        Sandboxes come from `runtime`. `roles` are those that environments of principals may name. Egress asks `resolve`
        for addresses and `signer` for the credentials of execution roles. `view` starts processes that make views,
        `layering` makes images of what sandboxes have installed.
        """
        services = cls(
            settings,
            store=store,
            installed=installed,
            roles=roles,
            runtime=runtime,
            clock=clock or SystemClock(),
            resolve=resolve,
            signer=signer,
            view=view,
            layering=layering,
        )
        try:
            await services._begin()
        except BaseException:
            await services._close()
            raise
        return services

    def _build_workspaces(self) -> None:
        """Files that outlive sessions, and those of live ones."""
        self.workspaces = Workspaces(
            settings=self.settings,
            database=self.database,
            mirrors=self.mirrors,
            ledger=self.ledger,
            readiness=self.readiness,
            disk_room=self._disk_room,
            access=self._access,
        )
        self.file_copies = FileCopies(self.mirrors, self.background, self._access, self._copies)
        self.links = WorkspaceLinks(self.settings, self.clock, self.mirrors, self._access)
        self.files = Files(
            settings=self.settings,
            readiness=self.readiness,
            disk_room=self._disk_room,
            background=self.background,
            registry=self.registry,
        )
        self._staged_uploads = StagedUploads(self.settings, self.clock, self._disk_room.require)
        self.uploads = Uploads(
            settings=self.settings,
            readiness=self.readiness,
            background=self.background,
            registry=self.registry,
            access=self._access,
            staged=self._staged_uploads,
            files=self.files,
            workspaces=self.workspaces,
        )

        self.sandbox_files = SandboxFiles(
            settings=self.settings,
            readiness=self.readiness,
            disk_room=self._disk_room,
            background=self.background,
            registry=self.registry,
        )
        self.watches = Watches(self.background, self.registry)

    def _build_removals(self) -> None:
        """Workspaces removed on request, and those that have not been used for long."""
        self.removals = WorkspaceRemovals(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            durable_changes=self.durable_changes,
            readiness=self.readiness,
            background=self.background,
            access=self._access,
        )
        self.retention = Retention(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            spool=self.spool,
            ledger=self.ledger,
            audit=self.audit,
            readiness=self.readiness,
            background=self.background,
            removals=self.removals,
            registry=self.registry,
        )

    def _build_hibernation(self) -> None:
        """Sessions without a sandbox until their next use."""
        snapshots = Snapshots(self.mirrors, self.settings.state_path / "snapshots", self._disk_room.require)
        self._carried = CarriedVariables(
            self.runtime,
            self.database,
            self.settings.state_path / "carried",
            self._disk_room.require,
            most_bytes=self.settings.hibernated_mb << 20,
        )
        self.waking = Waking(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            snapshots=snapshots,
            record=self.record,
            background=self.background,
            dead_sandboxes=self.dead_sandboxes,
            runtime=self.runtime,
            environments=self.environments,
            pools=self.pools,
            carried=self._carried,
        )
        self.hibernation = Hibernation(self.waking, self.readiness, self.registry)
        self._build_checkpoints(snapshots)

    def _build_session_builder(self) -> None:
        """What puts one live session together."""
        sandboxes = SandboxBuilder(
            settings=self.settings,
            runtime=self.runtime,
            launcher=self.launcher,
            environments=self.environments,
            egress=self._egress,
            mirrors=self.mirrors,
            spool=self.spool,
            starting=self._starting,
            memory_room=self._memory_room,
            dead_sandboxes=self.dead_sandboxes,
            background=self.background,
            packages=self.packages,
            waking=self.waking,
            carried=self._carried,
        )
        self._builder = SessionBuilder(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            record=self.record,
            kept_outputs=self.kept_outputs,
            redaction=self.redaction,
            finished=self._finished,
            background=self.background,
            registry=self.registry,
            sandboxes=sandboxes,
            kernelspecs=self.kernelspecs,
            keep_checkpoint=self.checkpoints.keep_due,
        )

    def _build_checkpoints(self, snapshots: Snapshots) -> None:
        """Live sessions as they were."""
        self.checkpoints = Checkpoints(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            snapshots=snapshots,
            copies=self._copies,
            environments=self.environments,
            readiness=self.readiness,
            background=self.background,
            registry=self.registry,
        )

    def _build_notebooks(self) -> None:
        """What sessions leave behind, and what is read of them."""
        self.notebooks = Notebooks(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            record=self.record,
            kept_outputs=self.kept_outputs,
            registry=self.registry,
            kernelspecs=self.kernelspecs,
        )

    def _build_task_ends(self) -> None:
        """What writes down how background tasks end."""
        self._task_ends = TaskEnds(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            record=self.record,
            redaction=self.redaction,
            background=self.background,
        )

    def _build_sessions(self) -> None:
        """Live sessions."""
        self._build_notebooks()
        self._build_task_ends()
        self.lifecycle = Lifecycle(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            redaction=self.redaction,
            finished=self._finished,
            background=self.background,
            registry=self.registry,
            notebooks=self.notebooks,
            forget_uploads=self.uploads.forget_session,
            hibernate=self.hibernation.begin,
            watch_tasks=self._task_ends.take_up,
            read_tasks=self._task_ends.read_last,
        )
        self.sessions = Sessions(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            agents=self.agents,
            pools=self.pools,
            durable_changes=self.durable_changes,
            record=self.record,
            readiness=self.readiness,
            disk_room=self._disk_room,
            memory_room=self._memory_room,
            dead_sandboxes=self.dead_sandboxes,
            background=self.background,
            registry=self.registry,
            builder=self._builder,
            lifecycle=self.lifecycle,
        )

    def _build_executions(self) -> None:
        """What callers do in live sessions."""
        self.executions = Executions(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            finished=self._finished,
            body_room=self.body_room,
            readiness=self.readiness,
            disk_room=self._disk_room,
            background=self.background,
            registry=self.registry,
            kernelspecs=self.kernelspecs,
        )
        self.commands = Commands(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            record=self.record,
            redaction=self.redaction,
            readiness=self.readiness,
            disk_room=self._disk_room,
            background=self.background,
            registry=self.registry,
            task_ends=self._task_ends,
        )
        self.tasks = Tasks(self.registry)
        self.contexts = Contexts(self.database, self.registry, self.sessions)
        self.inspection = Inspection(self.registry, self.background, self.settings)
        self.widget_moves = WidgetMoves(self.registry, self.database, self.background, self.settings)
        self.outputs = Outputs(self.mirrors, self.kept_outputs, self.registry)
        self._build_programs()

    def _build_programs(self) -> None:
        """What callers follow, write to and signal."""
        self.programs = Programs(
            settings=self.settings,
            commands=self.commands,
            readiness=self.readiness,
            disk_room=self._disk_room,
            background=self.background,
            registry=self.registry,
        )
        self.program_streams = ProgramStreams(
            settings=self.settings,
            programs=self.programs,
            record=self.record,
            background=self.background,
            registry=self.registry,
        )

    def _build_attachments(self) -> None:
        """People's Jupyter clients, and who has a session to themselves."""
        self.leases = Leases(
            clock=self.clock,
            record=self.record,
            readiness=self.readiness,
            background=self.background,
            registry=self.registry,
        )
        self.attachments = Attachments(
            settings=self.settings,
            clock=self.clock,
            readiness=self.readiness,
            background=self.background,
            registry=self.registry,
            executions=self.executions,
            sessions=self.sessions,
            kernelspecs=self.kernelspecs,
        )

    def _build_notebook_uses(self, view: Start | None) -> None:
        """Notebooks as pages and scripts, and run again."""
        self.views = Views(self.notebooks, self.settings, view)
        replay_services = ReplayServices(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            gateway_id="" if self.database.lease is None else self.database.lease.place.gateway_id,
            redaction=self.redaction,
            background=self.background,
            sessions=self.sessions,
            executions=self.executions,
            commands=self.commands,
        )
        self.replays = Replays(
            replay_services,
            agents=self.agents,
            record=self.record,
            readiness=self.readiness,
            copies=self._copies,
            registry=self.registry,
            notebooks=self.notebooks,
        )

    def _build_forks(self) -> None:
        """Sessions as others were, and as they were themselves."""
        self.forks = Forks(
            self.replays,
            clock=self.clock,
            registry=self.registry,
            sessions=self.sessions,
            record=self.record,
            copies=self._copies,
            files=self.files,
            workspaces=self.workspaces,
            checkpoints=self.checkpoints,
            background=self.background,
        )
        self.undo = Undo(
            replays=self.replays,
            forks=self.forks,
            checkpoints=self.checkpoints,
            mirrors=self.mirrors,
            copies=self._copies,
            files=self.files,
            record=self.record,
            registry=self.registry,
            sessions=self.sessions,
            background=self.background,
        )
        self.session_copies = SessionCopies(
            self.waking,
            self.hibernation,
            agents=self.agents,
            copies=self._copies,
            registry=self.registry,
            builder=self._builder,
            lifecycle=self.lifecycle,
            sessions=self.sessions,
            removals=self.removals,
        )

    def _build_datasets(self) -> None:
        """Files under names, described in sandboxes of their own."""
        sandbox = DatasetSandbox(
            settings=self.settings,
            launcher=self.launcher,
            environments=self.environments,
            mirrors=self.mirrors,
            starting=self._starting,
            readiness=self.readiness,
            disk_room=self._disk_room,
            memory_room=self._memory_room,
            utility_sandboxes=self.utility_sandboxes,
            background=self.background,
        )
        self.datasets = Datasets(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            ledger=self.ledger,
            readiness=self.readiness,
            access=self._access,
            copies=self._copies,
            sandbox=sandbox,
            registry=self.registry,
        )
        self.dataset_copies = DatasetCopies(self.clock, self.datasets, self.file_copies)

    def _build_credentials(self) -> None:
        """Principals and what they prove themselves by; revoking one ends the calls that are under way with it."""
        database, clock, revoked = self.database, self.clock, self.open_calls.end_credential
        self._last_use = LastUse(database)
        self.identity = Identity(database, clock.now, self._last_use)
        self.tokens = Tokens(database, self.identity, clock, revoked)
        self.sign_ins = SignIns(self.settings, database, clock, self.identity)
        self.provider = OpenIdProvider(self.settings, clock)
        self.access_keys = AccessKeys(database, self.settings, clock, self._last_use, revoked)
        self.sandbox_tokens = SandboxTokens(self.settings, clock, database, self.identity, self.registry)
        self.attach_tokens = AttachTokens(database, self.registry, self.identity, clock, revoked)
        self.principals = Principals(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            record=self.record,
            open_calls=self.open_calls,
            background=self.background,
            registry=self.registry,
            lifecycle=self.lifecycle,
            replays=self.replays,
            forget_credentials=self._forget_credentials,
        )

        self.oversight = Oversight(self.database, self.registry, self.sessions)
        self.host_check = HostCheck(self.runtime, self.readiness, self._disk_room, self.mirrors)
        self.audit_check = AuditSelfCheck(self.database, self.clock, self.audit, self.background)

    def _forget_credentials(self) -> None:
        for each in (self.identity, self.access_keys, self.attach_tokens):
            each.forget()

    def _build_upkeep(self) -> None:
        """What happens at the start, and again and again."""
        adoption = Adoption(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            runtime=self.runtime,
            record=self.record,
            redaction=self.redaction,
            background=self.background,
            builder=self._builder,
            lifecycle=self.lifecycle,
            commands=self.commands,
            program_streams=self.program_streams,
            finish_undo=self.undo.finish,
        )
        self._build_gateways(adoption)
        self.upkeep = Reconciler(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            runtime=self.runtime,
            audit=self.audit,
            last_use=self._last_use,
            utility_sandboxes=self.utility_sandboxes,
            dead_sandboxes=self.dead_sandboxes,
            pools=self.pools,
            background=self.background,
            registry=self.registry,
            lifecycle=self.lifecycle,
            adoption=adoption,
            backlog=self._build_backlog(),
        )

    def _build_gateways(self, adoption: Adoption) -> None:
        """What there is to do with other gateways."""
        self.gateways = Gateways(
            settings=self.settings,
            database=self.database,
            open_calls=self.open_calls,
            registry=self.registry,
            lifecycle=self.lifecycle,
            adoption=adoption,
            hand_over=self.principals.hand_over_here,
            limits=self.limits,
        )
        self.gateways.on_change(self.audit.note_alive)

    def _build_backlog(self) -> Backlog:
        """What an earlier process has left undone."""
        return Backlog(
            database=self.database,
            service_id=keep_service_id(self.settings.state_path / "service-id"),
            kept_outputs=self.kept_outputs,
            spool=self.spool,
            notebooks=self.notebooks,
            removals=self.removals,
            retention=self.retention,
            staged_uploads=self._staged_uploads,
            uploads=self.uploads,
            registry=self.registry,
            remove_spent=(self.waking.remove_spent, self.checkpoints.remove_spent, self._carried.remove_ended),
        )

    def _build_figures(self) -> None:
        """What is said to Prometheus."""
        self.figures = LiveFigures(
            clock=self.clock,
            background=self.background,
            registry=self.registry,
            pools=self.pools,
            audit=self.audit,
            spool=self.spool,
        )

    def _build_shutdown(self) -> None:
        self.shutdown = Shutdown(
            settings=self.settings,
            database=self.database,
            readiness=self.readiness,
            finished=self._finished,
            registry=self.registry,
            lifecycle=self.lifecycle,
            replays=self.replays,
            pools=self.pools,
        )

    async def _begin(self) -> None:
        """Open the database, take up what runs, start what goes on in the background."""
        await self.database.open()
        self.background.spawn(self.gateways.renew(), "lease")
        await self.audit.open()
        self.first_token = await self.identity.open(self.settings.token, self.clock.now())
        await self.access_keys.open()
        self.background.spawn(self.audit.run(), "audit")
        self.background.spawn(self.ledger.run(), "ledger")
        await self.upkeep.adopt()
        self.background.spawn(self.gateways.watch(), "other gateways")
        self.background.spawn(self.upkeep.run(), "upkeep")
        self.background.spawn(self.idle_memory.run(), "idle memory")
        self.background.spawn(self.hibernation.run(), "hibernation")
        self.background.spawn(self.pools.run(), "pools")
        self.background.spawn(self.layer_builds.run(), "images with added packages")

    async def aclose(self) -> None:
        """Take no more work, let what runs finish within `drain_seconds`, flush, and end or leave the sessions."""
        try:
            await self.shutdown.run()
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.inspection.aclose()
        await self.background.aclose()
        await self.ledger.close()
        with contextlib.suppress(GatewayError):
            await self._last_use.flush()
        await self.audit.close()
        await self._egress.aclose()
        self.mirrors.close()
        await self.gateways.leave()  # other gateways may write from here on, this one no more
        await self.dead_sandboxes.aclose()
        await self.shutdown.finish()
        await self.database.aclose()
