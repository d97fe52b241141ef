"""People's clients attached to live kernels: what they send, what they are sent, how that ends.

A *visitor* is who attaches, an *attachment* one connection of theirs, a *client session* the name under which a client
comes back and goes on where it was. Knows no HTTP and no framing: messages come in and go out as their JSON parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog

from kernel_gateway.errors import GatewayError, LimitReached, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.attach.client_connections import AttachedPrincipal, Incoming, Reach, Visit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.executions.executions import Executions
from kernel_gateway.services.sessions.kernel_requests import reach_kernel
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.sessions.subscribers import MOST_CLIENTS, Cursor, Ended, Outgoing, Subscribers, name_client
from kernel_gateway.settings import Settings
from kernels.errors import Death
from kernels.execution.hub import Hub
from kernels.kernelspec import Kernelspec

__all__ = ["AttachedPrincipal", "Attachment", "Attachments", "Ended", "Incoming", "Outgoing"]

log = structlog.get_logger(__name__)
KERNEL_LABEL = "jupyter_kernel"
"""The label of a session that names the kernel of its image which Jupyter clients talk to, in Python's place."""
RETRY_SECONDS = 5.0
STEADY_SECONDS = 10.0
"""A kernel that dies sooner after it was started again is not started by itself once more."""


class Attachment:
    """One connection of a client's to a session. Close it with `aclose`, whatever happened."""

    def __init__(self, reach: Reach, visit: Visit, client: str, client_session: str) -> None:
        self.client_session = client_session
        self.ended: Ended | None = None
        self._reach = reach
        self._visit = visit
        self._over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._cursor: Cursor = reach.audience.enter(client, self._note_end)
        visit.cursor = self._cursor

    @property
    def refused(self) -> int:
        """How many of the client's messages were refused."""
        return self._visit.refused

    async def send(self, message: Incoming) -> None:
        """Take a message of the client's; returns when the next one may come. Raises GatewayError: it was refused.

        A cell that is refused is answered with an error, as a failed one is, and raises nothing.
        """
        if self.ended is None:
            await self._visit.take(message)

    async def wait_ended(self) -> Ended:
        """Wait until `ended` is set: `follow` tells a client that does not read nothing."""
        return await asyncio.shield(self._over)

    async def follow(self) -> AsyncIterator[Outgoing]:
        """What comes after the last message that was delivered; ends when `ended` is set.

        A message counts as delivered when the next one is asked for. One consumer at a time.
        """
        audience, cursor = self._reach.audience, self._cursor
        note = audience.explain_missed(cursor)
        if note is not None:
            yield note
        while not self._is_replaced():
            outgoing, position = audience.ring.following(cursor.position, cursor.client)
            if outgoing is not None:
                yield outgoing
                if self._is_replaced():
                    return
            elif self.ended is not None:
                return
            cursor.position = max(cursor.position, position)
            if outgoing is None:
                await audience.wait_changed()

    async def aclose(self) -> None:
        """The client has gone; it may come back under the same client session."""
        self._reach.audience.leave(self._cursor, self._note_end, self._reach.clock.now())
        self._note_end(Ended("closed"))

    def _note_end(self, ended: Ended) -> None:
        """Called by the audience; the first reason stays."""
        if self.ended is None:
            self.ended = ended
            self._over.set_result(ended)
            self._reach.audience.wake()

    def _is_replaced(self) -> bool:
        """Whether it ended for itself alone: of a session that ends everything is sent, to the last message."""
        return self.ended is not None and self.ended.reason not in {"draining", "session_ended"}


class Attachments:
    """Opens attachments and knows who is attached."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        readiness: Readiness,
        background: Background,
        registry: Registry,
        executions: Executions,
        sessions: Sessions,
        kernelspecs: Kernelspecs,
    ) -> None:
        self._kernelspecs = kernelspecs
        self._settings = settings
        self._clock = clock
        self._readiness = readiness
        self._background = background
        self._registry = registry
        self._executions = executions
        self._sessions = sessions

    async def open(self, visitor: AttachedPrincipal, session_id: str, client_session: str) -> Attachment:
        """Attach to a session; an older attachment of the same client session ends as `replaced`.

        A session that has lost its sandbox gets another. Being attached is no activity. Raises NotFound (also outside
        the visitor's reach), SessionTerminated, LimitReached, ShuttingDown.
        """
        self._readiness.require_accepting()
        if visitor.session_id not in {None, session_id}:
            raise NotFound("there is no such session")
        live = await self._registry.require(visitor.principal, session_id)
        audience = self._audience(live, await self._find_declared(live))
        client = name_client(visitor.author, client_session)
        if not audience.has(client) and audience.connections >= MOST_CLIENTS:
            raise LimitReached(
                f"{MOST_CLIENTS} clients are attached to this session, which is the most: close one",
                retry_after_seconds=RETRY_SECONDS,
            )
        reach = Reach(live, audience, self._settings, self._clock, self._background, self._executions, self._sessions)
        attachment = Attachment(reach, Visit(visitor, reach), client, client_session)
        if live.worker_task is not None and _wants_kernel(live, audience):
            self._background.spawn(_start_kernel(live, audience.declared), f"kernel of {live.id}")
        log.info("client_attached", session=live.id, connections=audience.connections)
        return attachment

    def connections(self, session_id: str) -> int:
        """How many clients are attached now."""
        live = self._registry.get(session_id)
        return 0 if live is None or live.audience is None else live.audience.connections

    def execution_state(self, session_id: str) -> str:
        """The kernel's state as clients see it: starting, idle, busy, restarting or dead."""
        live = self._registry.get(session_id)
        if live is None or live.ending is not None:
            return "dead"
        kernel = live.sandbox.kernel
        if kernel is None or live.sandbox.live_generation is None:
            return "starting"
        if kernel.hub is None:
            return "restarting"
        return "busy" if live.running is not None else "idle"

    async def start_declared(self, principal: Principal, session_id: str) -> None:
        """Start the kernel that clients of a session talk to, if it is not Python's; raises GatewayError."""
        live = await self._registry.require(principal, session_id)
        declared = await self._find_declared(live)
        if declared is not None:
            await reach_kernel(live, declared=declared)

    async def _find_declared(self, live: LiveSession) -> Kernelspec | None:
        """The kernel of the image that clients talk to, by the session's label; None is Python's."""
        name = live.row.labels.get(KERNEL_LABEL)
        if name is None:
            return None
        found = await self._kernelspecs.of_session(live.row.environment, live.sandbox.environment_digest)
        return next((each for each in found if each.name == name), None)

    def _audience(self, live: LiveSession, declared: Kernelspec | None) -> Subscribers:
        if live.audience is None:
            on_death = _ignore_death if declared is None else self._start_another(live, declared)
            live.audience = Subscribers(self._settings.attach_replay_bytes, declared, on_death)
            hub = _find_hub(live, declared)
            if hub is not None:
                live.audience.connect(hub)
            else:
                live.audience.await_kernel()
        return live.audience

    def _start_another(self, live: LiveSession, declared: Kernelspec) -> Callable[[Death], None]:
        """Starts a declared kernel again when it has died; one that dies again at once, when a client next asks."""
        last = float("-inf")

        def start(death: Death) -> None:
            nonlocal last
            now = self._clock.now()
            if live.sandbox.live_generation is None or (death.cause != "restart" and now - last < STEADY_SECONDS):
                return
            last = now
            self._background.spawn(_start_kernel(live, declared), f"kernel of {live.id}")

        return start


def forget_absent(registry: Registry, before: float, background: Background) -> None:
    """Forget the clients that went before a time, and what was kept for them; called by the sweep.

    A cell that waits for the input of one of them is interrupted: others' code waits behind it.
    """
    for live in registry:
        kernel = live.sandbox.kernel
        if live.audience is not None and kernel is not None and live.audience.is_deserted(before):
            log.info("deserted_cell_interrupted", session=live.id)
            background.spawn(kernel.interrupt(), f"interrupt of {live.id}")
        if live.audience is not None and not live.audience.forget(before):
            live.audience.close(Ended("draining"))
            live.audience = None


def _ignore_death(_death: Death) -> None:
    """Python's kernel is replaced where it runs."""


def _find_hub(live: LiveSession, declared: Kernelspec | None) -> Hub | None:
    kernel = live.sandbox.kernel
    if kernel is None:
        return None
    return kernel.hub if declared is None else kernel.declared_hub(declared)


def _wants_kernel(live: LiveSession, audience: Subscribers) -> bool:
    """Whether the kernel of who attaches does not run, and nobody else starts it."""
    if live.sandbox.live_generation is None:
        return True
    return audience.declared is not None and _find_hub(live, audience.declared) is None


async def _start_kernel(live: LiveSession, declared: Kernelspec | None) -> None:
    """Make the sandbox and start the kernel that an attached client waits for; what fails is said to who runs code."""
    try:
        await live.sandbox.ensure_started()
        if declared is not None:
            await reach_kernel(live, declared=declared)
    except GatewayError as error:
        log.warning("kernel_not_started", session=live.id, error=error.code)
