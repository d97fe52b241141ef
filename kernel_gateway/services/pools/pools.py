"""All pools of one service: filled behind the sessions that take from them, emptied when their image changes.

A sandbox of a pool is started like any other and connected, but nothing is run in it, and with the lowest share of the
processors. It has a UUID and no row in the database. A session that takes it gets that UUID for its own, or, when it
has an id already, keeps it in its row. What a service that was killed leaves of its pools is nobody's, and removed by
the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial

import structlog

from kernel_gateway import metrics
from kernel_gateway.errors import LimitReached
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.info import misses_index
from kernel_gateway.services.pools.pool import Pool
from kernel_gateway.services.pools.spare_sandbox import EventRelay, SpareSandbox
from kernel_gateway.settings import Settings
from kernels.cancelling import cancel_all
from kernels.environment import Environment
from kernels.errors import KernelsError
from kernels.guest_client.client import GuestClient
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec
from kernels.sandboxed.kernel_launcher import KernelLauncher
from sandcell.models.environments import PoolInfo

log = structlog.get_logger(__name__)
LOOK_SECONDS = 2.0
"""How often images and demand are looked at while nothing is taken."""
PAUSE_SECONDS = 0.1
"""Between two looks: each claim changes something, and a look costs as much as a tenth of a claim."""
REST_SECONDS = 0.5
"""A pool is filled once nothing was taken, or handed over, for so long: sessions that come together go first."""
LONGEST_REST_SECONDS = 10.0
"""One that has none left is filled after so long all the same."""
START_SECONDS = 600.0
"""One start: it has only the processor time that sessions leave, so it may take long on a busy host."""
CLOSE_SECONDS = 180.0
CLAIMS_AT_ONCE = 8
"""Sessions that are being given a sandbox. Of many that ask together the first are served before the last are begun:
that is no slower for the last, and half as long for most.
"""
TURN_SECONDS = 10.0
"""How long a session waits for others to be given theirs: where the store is slow, each takes as long as it does."""
REMOVALS_AT_ONCE = 2
"""The launcher's threads serve sessions as well, which must not wait until a large pool is removed."""
MEGABYTE = 1024 * 1024


class Pools:
    """`reserve` for a session that starts; `run` for as long as the service lives."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        runtime: SandboxRuntime,
        launcher: KernelLauncher,
        installed: Callable[[], Mapping[str, Environment]],
        count_sessions: Callable[[], int],
        memory_room: MemoryRoom,
        say_packages: Callable[[GuestClient], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._runtime = runtime
        self._launcher = launcher
        # Its own: what is removed at the end is waited for by `aclose`, while the service's other tasks end already.
        self._background = Background()
        self._installed = installed
        self._count_sessions = count_sessions
        self._memory_room = memory_room
        self._say_packages = say_packages
        self._pools: dict[str, Pool] = {}
        self._held: set[str] = set()
        """Sandboxes that exist or are about to, and are no session's."""
        self._starts: set[asyncio.Task[None]] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(REMOVALS_AT_ONCE)
        self._claims = FairShares(
            "a sandbox of a pool",
            CLAIMS_AT_ONCE,
            wait_seconds=TURN_SECONDS,
            most_waiting=settings.live_sessions,
        )
        self._taken_at = float("-inf")
        self._changed = asyncio.Event()
        self._closing = False
        self._relieving = 0
        """How many calls of `relieve` are under way."""

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._held

    @contextlib.asynccontextmanager
    async def turn(
        self, owner: str, environment: Environment, *, has_files: bool
    ) -> AsyncIterator[SpareSandbox | None]:
        """`reserve`, once it is the owner's turn to be given one; the turn is held over the block.

        It is neither waited for nor held where there is none, and by who has files to wait for. A turn puts a burst in
        order and refuses nobody: who has waited for long goes on without one.
        """
        pool = self._find(environment, has_files=has_files)
        share = None
        if pool is not None and pool.ready and not has_files:
            with metrics.time_phase("place"), contextlib.suppress(LimitReached):
                share = await self._claims.take(owner)
        try:
            spare = self.reserve(environment, has_files=has_files)
            if spare is None and share is not None:
                share.release()
            yield spare
        finally:
            if share is not None:
                share.release()

    def reserve(self, environment: Environment, *, has_files: bool) -> SpareSandbox | None:
        """A sandbox made of exactly this environment, to be handed over or put back; None when there is none.

        `has_files` says that there may be files in the workspace that the session starts with.
        """
        pool = self._find(environment, has_files=has_files)
        if pool is None:
            return None
        spare = pool.take(self._clock.now())
        metrics.count_pool_request(environment.name, hit=spare is not None)
        if spare is None:
            self._changed.set()  # the demand has
        else:
            self._taken_at = time.monotonic()
        return spare

    def _find(self, environment: Environment, *, has_files: bool) -> Pool | None:
        pool = self._pools.get(environment.name)
        if pool is None or self._closing or find_obstacle(environment, has_files=has_files):
            return None
        # Else one of the two changed a moment ago: the next look drains the pool.
        return pool if pool.environment == environment else None

    async def relieve(self, enough: Callable[[], bool]) -> None:
        """Give up what is ready, then what starts, one after the other, until the host has enough memory for a session.

        Nothing is started meanwhile: the memory is wanted.
        """
        self._relieving += 1
        try:
            while not enough() and self._give_up_one() and self._removals:
                await asyncio.wait(set(self._removals), timeout=CLOSE_SECONDS)
            for start in list(self._starts):
                if enough():
                    return
                if not start.cancelling():  # once: cancelled again, it would not take back what it has made
                    start.cancel()
                await asyncio.wait([start], timeout=CLOSE_SECONDS)
        finally:
            self._relieving -= 1
            self._changed.set()

    def put_back(self, spare: SpareSandbox) -> None:
        """The start was refused before anything was done with the sandbox."""
        pool = self._pools.get(spare.environment.name)
        if pool is None or self._closing or pool.environment != spare.environment or not spare.usable:
            self._remove([spare])
        else:
            pool.put_back(spare)

    def describe(self, name: str) -> PoolInfo | None:
        """The pool of a host's environment."""
        pool = self._pools.get(name)
        return None if pool is None else pool.describe(self._clock.now())

    def describe_all(self) -> dict[str, PoolInfo]:
        """Every pool, by its environment's name."""
        return {name: pool.describe(self._clock.now()) for name, pool in self._pools.items()}

    async def run(self) -> None:
        """Fill what is short and remove what is too much; a failure is logged and looked at again."""
        looked = float("-inf")
        while True:
            self._changed.clear()
            try:
                if time.monotonic() - looked >= LOOK_SECONDS:
                    self._compare(self._installed())
                    looked = time.monotonic()
                self._fill()
            except Exception as error:
                log.error("pools_not_filled", exc_info=error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REST_SECONDS if self._rests() else LOOK_SECONDS):
                    await self._changed.wait()
            await asyncio.sleep(PAUSE_SECONDS)

    async def aclose(self) -> None:
        """Remove all sandboxes of all pools, those that are being started too."""
        self._closing = True
        await cancel_all(list(self._starts), CLOSE_SECONDS)
        for pool in self._pools.values():
            self._remove(pool.take_all())
        if self._removals:
            await asyncio.wait(set(self._removals), timeout=CLOSE_SECONDS)

    def _compare(self, hosts: Mapping[str, Environment]) -> None:
        """Follow the environments as they are now."""
        for name, environment in hosts.items():
            if environment.pool.most and name not in self._pools:
                self._pools[name] = Pool(environment, self._settings.pool_window_seconds)
        for name, pool in list(self._pools.items()):
            now = hosts.get(name)
            if now is None:
                self._remove(self._pools.pop(name).take_all())
            elif now != pool.environment:
                self._follow(pool, now)

    def _follow(self, pool: Pool, environment: Environment) -> None:
        """It is another environment by now: what was made of the former one goes."""
        log.info("pool_drained", environment=environment.name, digest=environment.digest)
        pool.environment = environment
        self._remove(pool.take_all())

    def _fill(self) -> None:
        if self._closing or self._relieving:
            return
        now = self._clock.now()
        for pool in self._pools.values():
            self._remove(pool.take_surplus(now))
        self._make_room()
        while len(self._starts) < self._settings.pool_starts_at_once:
            pool_or_none = self._choose(now)
            if pool_or_none is None:
                return
            self._begin(pool_or_none)

    def _make_room(self) -> None:
        """Sessions come first: with those of the pools there are never more sandboxes than there may be sessions.

        Where the host's memory is short one goes at a time, since what it held is free only once it has ended.
        """
        too_many = self._count_all() - self._settings.live_sessions
        for _ in range(max(too_many, 0 if self._memory_room.has_room() else 1)):
            self._give_up_one()

    def _give_up_one(self) -> bool:
        """Remove one of the fullest pool; whether there was any."""
        fullest = max(self._pools.values(), key=lambda pool: len(pool.ready), default=None)
        if fullest is None or not fullest.ready:
            return False
        self._remove([fullest.ready.pop()])
        return True

    def _count_all(self) -> int:
        """Sessions, those that start included, and what the pools have for the next ones."""
        return self._count_sessions() + sum(len(pool.ready) + pool.starting for pool in self._pools.values())

    def _rests(self) -> bool:
        return time.monotonic() - self._taken_at < REST_SECONDS

    def _choose(self, now: float) -> Pool | None:
        """The pool that lacks the most, among those for which there is room."""
        if self._count_all() >= self._settings.live_sessions or not self._memory_room.has_room_to_spare():
            return None
        used = sum(pool.memory_bytes for pool in self._pools.values())
        left = self._settings.pool_memory_mb * MEGABYTE - used
        short = [pool for pool in self._pools.values() if pool.missing(now) > 0 and pool.next_bytes <= left]
        if self._rests():
            short = [pool for pool in short if not pool.ready and now - pool.emptied >= LONGEST_REST_SECONDS]
        return max(short, key=lambda pool: pool.missing(now) / pool.target(now), default=None)

    def _begin(self, pool: Pool) -> None:
        sandbox_id = str(uuid.uuid4())
        self._held.add(sandbox_id)  # before it exists: the sweep must not take it for nobody's
        pool.starting += 1
        promise = contextlib.ExitStack()  # from now on: the next one that is chosen must not count on the same room
        promise.enter_context(self._memory_room.start_spare())
        start = self._background.spawn(self._start(pool, pool.environment, sandbox_id), f"pool sandbox {sandbox_id}")
        self._starts.add(start)
        start.add_done_callback(lambda done: self._end_start(pool, done))
        start.add_done_callback(lambda _: promise.close())

    def _end_start(self, pool: Pool, start: asyncio.Task[None]) -> None:
        pool.starting -= 1
        self._starts.discard(start)
        self._changed.set()

    async def _start(self, pool: Pool, environment: Environment, sandbox_id: str) -> None:
        began = time.monotonic()
        try:
            spare = await self._launch(pool, environment, sandbox_id)
        except BaseException as error:
            self._held.discard(sandbox_id)
            if not isinstance(error, KernelsError | OSError | TimeoutError):
                raise
            log.warning("pool_sandbox_not_started", environment=environment.name, error=str(error))
            pool.note_failure(self._clock.now())
            return
        pool.note_started(time.monotonic() - began, spare.memory_bytes)
        if self._closing or self._pools.get(environment.name) is not pool or pool.environment != environment:
            self._remove([spare])
            return
        spare.watch(lambda: self._drop_spoiled(pool, spare))
        if spare.usable:
            pool.ready.append(spare)
        else:
            self._remove([spare])

    async def _launch(self, pool: Pool, environment: Environment, sandbox_id: str) -> SpareSandbox:
        """Leaves nothing behind when it fails."""
        events = EventRelay()
        kernel = await self._launcher.launch(
            SandboxSpec(sandbox_id, environment, spare=True),
            before_first_code=_do_nothing,
            on_event=events,
            start_seconds=START_SECONDS,
        )
        try:
            await kernel.warm_up()
            if misses_index(environment):
                await self._say_packages(kernel.guest)
            usage = await kernel.watch_memory(environment.memory_levels.percents)
        except BaseException:
            await kernel.destroy()
            raise
        return SpareSandbox(
            kernel,
            events,
            environment=environment,
            memory_bytes=usage.memory_bytes,
            runtime=self._runtime,
            forget=partial(self._forget, pool),
        )

    def _forget(self, pool: Pool, spare: SpareSandbox) -> None:
        """It is a session's, or gone."""
        self._held.discard(spare.id)
        if spare in pool.reserved:
            pool.reserved.remove(spare)
            self._taken_at = time.monotonic()
        self._changed.set()

    def _drop_spoiled(self, pool: Pool, spare: SpareSandbox) -> None:
        """It died, or its kernel did; one that is reserved its session finds dead."""
        if spare in pool.ready:
            log.warning("pool_sandbox_died", environment=pool.environment.name, sandbox=spare.id)
            pool.ready.remove(spare)
            self._remove([spare])
            self._changed.set()

    def _remove(self, spares: Iterable[SpareSandbox]) -> None:
        for spare in spares:
            removal = self._background.spawn(self._discard(spare), f"removal of pool sandbox {spare.id}")
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    async def _discard(self, spare: SpareSandbox) -> None:
        async with self._turns:
            await spare.discard()


def find_obstacle(environment: Environment, *, has_files: bool) -> str:
    """Why this start needs a sandbox of its own from the beginning; empty when one of a pool will do.

    A pool serves its environment alone, exactly as the environments file and the image have it at the moment of the
    start. What a principal made of it (other memory, vCPUs, disk, network, role) is another one, and has no pool. Id,
    name, timeouts, labels, agent and mode of the mirror are the session's and not its sandbox's. So are the files of a
    workspace: they are laid out in a sandbox of a pool as in any other.
    """
    if not environment.pool.most:
        return "its environment has no pool"
    if environment.keep_packages and has_files:
        return "its kernel looks for the packages that its workspace keeps when it starts"
    return ""


async def _do_nothing(_info: SandboxInfo) -> None:
    """The workspace is laid out when there is a session."""
