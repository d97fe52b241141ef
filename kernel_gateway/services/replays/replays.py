"""Replays as callers see them: start, wait, look, follow, stop; and how an ended session comes back as a new one.

A replay belongs to the service and not to the socket that asked for it: a caller that goes away stops nothing. It is
kept in memory, with its notebook, for a while after its end; the session it ran in has its own record as any other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence

import msgspec
import structlog

from kernel_gateway.errors import (
    Conflict,
    DeadlinePassed,
    GatewayError,
    InternalError,
    InvalidRequest,
    LimitReached,
    NotFound,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.fair_shares import FairShares, Share, share_of
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.environments.agents import Agents
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.course import ReplayRun
from kernel_gateway.services.replays.stage import ReplayServices
from kernel_gateway.services.replays.state import Replaying
from kernel_gateway.services.replays.steps import Step, last_step, steps_of
from kernel_gateway.services.replays.verdicts import summarize
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.storage import executions
from kernel_gateway.storage.executions import WrittenFiles
from kernel_gateway.storage.sessions import Undone
from kernels.errors import InvalidNotebook
from kernels.notebook.notebook_file import NotebookFile, read
from sandcell.models.executions import Event
from sandcell.models.replays import Replay, ReplayRequest, ReplayStatus
from sandcell.models.sessions import Session, StartSession

log = structlog.get_logger(__name__)
RETRY_SECONDS = 10.0
STOP_SECONDS = 240.0
"""How long a stop waits for the replay's sessions to end."""


class Replays:
    """The verbs on replays; another principal's replay is not found."""

    def __init__(
        self,
        services: ReplayServices,
        *,
        agents: Agents,
        record: Record,
        readiness: Readiness,
        copies: WorkspaceCopies,
        registry: Registry,
        notebooks: Notebooks,
    ) -> None:
        self._services = services
        self._settings = services.settings
        self._clock = services.clock
        self._background = services.background
        self._agents = agents
        self._record = record
        self._readiness = readiness
        self._copies = copies
        self._registry = registry
        self._notebooks = notebooks
        self._replays: OrderedDict[str, Replaying] = OrderedDict()
        self._reading: dict[str, int] = {}
        settings = services.settings
        self._turns = FairShares(
            "a replay to end",
            settings.replays,
            settings.replays_per_principal,
            wait_seconds=settings.replay_seconds,
            most_waiting=settings.replays_per_principal,
        )

    async def start(self, principal: Principal, request: ReplayRequest) -> Replay:
        """Begin a replay; its notebook has been read and its session is about to start when this returns.

        Raises InvalidRequest, NotFound, UnknownEnvironment, EnvironmentUnavailable, PayloadTooLarge, SessionTerminated,
        LimitReached, ShuttingDown.
        """
        self._readiness.require_accepting()
        _require_sense(request)
        replay, course = await self._admit(principal, request, await self._session_asked(principal, request))
        await self._begin(course)
        return replay.shape()

    async def wait(self, principal: Principal, replay_id: str) -> Replay:
        """The replay with its notebook, once it has ended; cancelling the wait does not touch it."""
        replay = self._find(principal, replay_id)
        await replay.wait()
        return replay.shape(notebook=True)

    async def get(self, principal: Principal, replay_id: str) -> Replay:
        """The replay as far as it is; the whole notebook comes with `notebook` and `wait`."""
        return self._find(principal, replay_id).shape(notebook=True)

    async def notebook(self, principal: Principal, replay_id: str) -> bytes:
        """The notebook that came of it; raises Conflict while it runs."""
        replay = self._find(principal, replay_id)
        if replay.running:
            raise Conflict("the replay still runs: its notebook is there when it has ended", reason="running")
        return replay.notebook

    async def events(self, principal: Principal, replay_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Await it for the checks, then iterate: what follows sequence `after`, ending with `ended`."""
        return self._find(principal, replay_id).log.follow(after)

    async def stop(self, principal: Principal, replay_id: str) -> Replay:
        """Stop a replay and end the sessions that were started for it; one that has ended stays as it ended."""
        replay = self._find(principal, replay_id)
        await self._stop(replay)
        return replay.shape(notebook=True)

    async def start_session(self, principal: Principal, body: StartSession) -> Session:
        """A new session with the files of another, ended or live, whose cells have run in it again when this returns.

        What came out otherwise than in the record is a note of the new session. Raises as `start` and Sessions.start.
        """
        of = body.replay_of or ""
        row = await self._registry.row(principal, of)
        environment = body.environment or (None if body.agent else row.environment)
        body = msgspec.structs.replace(body, replay_of=None, environment=environment)
        inputs = row.workspace_id if body.workspace_id is None else None
        request = ReplayRequest(session_id=of, inputs=inputs, determinism=False, keep_session=True)
        self._readiness.require_accepting()
        _, course = await self._admit(principal, request, body)
        session_id = await self.build_session(course)
        await self._note(principal, course.replay)
        return await self._services.sessions.get(principal, session_id)

    async def admit(
        self, principal: Principal, request: ReplayRequest, body: StartSession, *, cell_field: str
    ) -> ReplayRun:
        """A replay whose session is to stay, made from `body`, before it begins; raises as `start`.

        `cell_field` is what the caller's request calls the last cell.
        The caller says how many of its cells are to run, to `require_length`: a session may begin with some of them.
        """
        self._readiness.require_accepting()
        return (await self._admit(principal, request, body, of_any_length=True, cell_field=cell_field))[1]

    def require_length(self, cells: int) -> None:
        """Raises InvalidRequest for more cells than a replay runs."""
        most = self._settings.replay_cells
        if cells > most:
            raise InvalidRequest(
                f"the notebook has {cells:,} code cells; a replay runs at most {most:,}", field="notebook"
            )

    def give_up(self, course: ReplayRun) -> None:
        """Forget a replay that was admitted and has not begun: its place is for others."""
        self._replays.pop(course.replay.id, None)

    async def build_session(self, course: ReplayRun) -> str:
        """Run such a replay to its end, whatever its verdicts; the session that has its state now."""
        replay = course.replay
        await self._begin(course)
        await replay.wait()
        if replay.error is not None or replay.session_id is None or not replay.session_live:
            raise replay.error or Conflict("the replay was stopped before its end")
        return replay.session_id

    async def stop_all_of(self, principal_id: str) -> None:
        """A principal is disabled: its replays stop, and the sessions started for them end."""
        own = [each for each in self._replays.values() if each.running and each.principal_id == principal_id]
        for replay in own:
            if replay.task is not None:
                replay.task.cancel()

    async def aclose(self) -> None:
        """The service ends: stop every replay and end its sessions; what does not end in time ends with the rest."""
        stops = [self._stop(replay) for replay in list(self._replays.values()) if replay.running]
        await asyncio.gather(*stops, return_exceptions=True)

    async def _note(self, principal: Principal, replay: Replaying) -> None:
        """The new session's notebook says what it is, and what did not come back as it was."""
        live = self._registry.find(principal, replay.session_id or "")
        if live is not None:
            await self._record.note(live, "replayed", summarize(replay.shape()))

    async def _begin(self, course: ReplayRun) -> None:
        """Start it, and let it take its first step: what has not begun cannot be stopped in order."""
        replay = course.replay
        replay.task = self._background.spawn(self._carry_out(course), f"replay {replay.id}")
        await asyncio.sleep(0)

    async def _session_asked(self, principal: Principal, request: ReplayRequest) -> StartSession:
        """What the fresh session starts from; the names in the request are checked, so a wrong one fails at once."""
        if request.continue_session is not None:
            await self._registry.require(principal, request.continue_session)
        if request.inputs is not None:
            await self._copies.require(principal, request.inputs)
        environment = request.environment
        if environment is None and request.session_id is not None:
            environment = (await self._registry.row(principal, request.session_id)).environment
        if request.continue_session is None:
            await self._agents.choose(principal, environment, None)
        of = f" of {request.session_id[:8]}" if request.session_id else ""
        return StartSession(environment=environment, name=f"replay{of}", labels={"replay": "yes"})

    async def _admit(
        self,
        principal: Principal,
        request: ReplayRequest,
        session: StartSession,
        *,
        of_any_length: bool = False,
        cell_field: str = "until",
    ) -> tuple[Replaying, ReplayRun]:
        """A place among the running ones first, then the notebook is read; gives the place back when that fails."""
        self._require_place(principal, len(memoryview(request.notebook)))
        self._reading[principal.id] = self._reading.get(principal.id, 0) + 1
        try:
            data = await self._data(principal, request)
            notebook = await asyncio.to_thread(self._read, data)
            if not of_any_length:
                self.require_length(len(notebook.cells))
            undone = await self._find_undone(principal, request.session_id)
            steps = await asyncio.to_thread(steps_of, notebook, undone)
            last_step(steps, request.until, field=cell_field)
            replay = self._build(principal, request, steps, len(data))
        finally:
            self._reading[principal.id] -= 1
            if not self._reading[principal.id]:
                del self._reading[principal.id]
        request.notebook = msgspec.Raw(b"")
        most = self._settings.notebook_bytes
        return replay, ReplayRun(self._services, self._copies, principal, replay, notebook.document, session, most)

    async def list_steps(self, principal: Principal, session_id: str) -> list[Step]:
        """The cells of a session as a replay takes them; raises as `start`."""
        notebook = await asyncio.to_thread(self._read, await self._notebooks.notebook(principal, session_id))
        return await asyncio.to_thread(steps_of, notebook, await self._find_undone(principal, session_id))

    async def find_written_after(self, session_id: str, execution_id: str) -> WrittenFiles:
        """What is known of the files that executions after this one left; that of all of them for an empty id."""
        return await self._services.database.run(lambda c: executions.find_written_after(c, session_id, execution_id))

    async def _find_undone(self, principal: Principal, session_id: str | None) -> Sequence[Undone]:
        return () if session_id is None else (await self._registry.row(principal, session_id)).record.undone

    async def _data(self, principal: Principal, request: ReplayRequest) -> bytes:
        if request.session_id is not None:
            return await self._notebooks.notebook(principal, request.session_id)
        data = bytes(request.notebook)
        if data.startswith(b'"'):
            return (await asyncio.to_thread(msgspec.json.decode, data, type=str)).encode()
        return data

    def _read(self, data: bytes) -> NotebookFile:
        try:
            return read(data, self._settings.notebook_bytes)
        except InvalidNotebook as error:
            raise InvalidRequest(str(error), field="notebook") from None

    def _build(self, principal: Principal, request: ReplayRequest, steps: list[Step], size: int) -> Replaying:
        replay = Replaying(
            principal.id,
            request,
            steps,
            of=request.session_id,
            gateway_id=self._services.gateway_id,
            started_at=rfc3339(self._clock.now()),
            notebook_bytes=size,
            log_bytes=self._settings.event_log_bytes,
        )
        self._require_memory(principal, size)
        self._replays[replay.id] = replay
        return replay

    def _require_place(self, principal: Principal, size: int) -> None:
        """Raises LimitReached, ShuttingDown."""
        settings = self._settings
        if not settings.replays:
            raise Conflict("replays are turned off here (the setting replays)", reason="no_replays")
        running = [each for each in self._replays.values() if each.running and each.principal_id == principal.id]
        own = len(running) + self._reading.get(principal.id, 0)
        if own >= settings.replays_per_principal:
            raise LimitReached(
                f"{own:,} of your replays and forks are under way, which is the most that one principal may have: wait,"
                " or stop one",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._require_memory(principal, size)

    def _require_memory(self, principal: Principal, size: int) -> None:
        """What ended lately makes room; what runs does not. Some of the memory is always for others."""
        most = self._settings.replay_memory_bytes
        self._forget(most - size)
        own = sum(
            each.size_bytes for each in self._replays.values() if each.running and each.principal_id == principal.id
        )
        if self._held_bytes().total() + size > max(most, size) or (own and own + size > share_of(most)):
            raise LimitReached(
                f"{'your' if own else 'the'} replays that run hold as much memory as they may: try again when one has "
                "ended",
                retry_after_seconds=RETRY_SECONDS,
            )

    async def _carry_out(self, course: ReplayRun) -> None:
        replay, seconds = course.replay, self._settings.replay_seconds
        status: ReplayStatus = "done"
        error: GatewayError | None = None
        turn: list[Share] = []
        try:
            async with asyncio.timeout(None) as deadline:

                async def wait_for_turn() -> None:
                    turn.append(await self._turns.take(replay.principal_id))
                    deadline.reschedule(asyncio.get_running_loop().time() + seconds)

                course.wait_for_turn = wait_for_turn
                await course.run()
        except asyncio.CancelledError:
            status = "stopped"
        except TimeoutError:
            status, error = "failed", DeadlinePassed(f"the replay took longer than {seconds:g} s")
        except GatewayError as problem:
            status, error = "failed", problem
        except Exception as problem:
            log.error("replay_failed", replay=replay.id, exc_info=problem)
            status, error = "failed", InternalError("an internal error; the service's log has the particulars")
        finally:
            for held in turn:
                held.release()
        await self._background.carry_out(self._end(course, status, error), f"end of replay {replay.id}")

    async def _end(self, course: ReplayRun, status: ReplayStatus, error: GatewayError | None) -> None:
        replay, request = course.replay, course.replay.request
        keep = status == "done" and replay.keeps
        replay.session_live = request.continue_session is not None or keep
        for session_id in replay.owned:
            if not (keep and session_id == replay.session_id):
                await self._end_session(course.principal, session_id, copied=request.inputs is not None)
        replay.end(status, rfc3339(self._clock.now()), error)
        self._replays.move_to_end(replay.id)
        self._forget(self._settings.replay_memory_bytes)
        asyncio.get_running_loop().call_later(self._settings.replay_kept_seconds, self._replays.pop, replay.id, None)
        log.info("replay_ended", replay=replay.id, session=replay.session_id, status=status)

    async def _end_session(self, principal: Principal, session_id: str, *, copied: bool) -> None:
        try:
            await self._services.sessions.stop(principal, session_id)
        except NotFound:  # it was never made, and what was copied for it will never be used
            if copied:
                await self._copies.discard(session_id)
        except GatewayError as error:
            log.warning("replay_session_not_ended", session=session_id, error=error.code)
        except Exception as error:  # those who wait for the replay's end wait for no more than that
            log.error("replay_session_not_ended", session=session_id, error=repr(error))

    async def _stop(self, replay: Replaying) -> None:
        if replay.running and replay.task is not None:
            replay.task.cancel()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await replay.wait()
            except TimeoutError:
                raise DeadlinePassed("the replay is still ending; ask for it again later") from None

    def _held_bytes(self) -> Counter[str]:
        """By principal."""
        held: Counter[str] = Counter()
        for each in self._replays.values():
            held[each.principal_id] += each.size_bytes
        return held

    def _forget(self, most_bytes: int) -> None:
        """Until all are within the bound, the oldest that ended of the principal who holds most goes.

        The last to end stays for its caller.
        """
        ended = [each for each in self._replays.values() if not each.running][:-1]
        held = self._held_bytes()
        while ended and held.total() > most_bytes:
            replay = max(ended, key=lambda each: held[each.principal_id])
            ended.remove(replay)
            held[replay.principal_id] -= replay.size_bytes
            del self._replays[replay.id]

    def _find(self, principal: Principal, replay_id: str) -> Replaying:
        replay = self._replays.get(replay_id)
        if replay is None or replay.principal_id != principal.id:
            raise NotFound(
                "there is no such replay: one is kept for a while after its end, and ends with the process that runs it"
            )
        return replay


def _require_sense(request: ReplayRequest) -> None:
    """Raises InvalidRequest for a request that cannot be meant."""
    given = bytes(memoryview(request.notebook)[:5]) not in (b"", b"null")
    if given == (request.session_id is not None):
        raise InvalidRequest("give either a `notebook` or the `session_id` whose notebook is to run", field="notebook")
    if request.continue_session is not None and (request.environment or request.inputs):
        raise InvalidRequest("`environment` and `inputs` are for a fresh session, not for one that is continued")
    if request.timeout_seconds is not None and request.timeout_seconds <= 0:
        raise InvalidRequest("timeout_seconds must be more than 0", field="timeout_seconds")
