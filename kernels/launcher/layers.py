"""Root's half of adding packages to an image: what a sandbox has installed becomes an image over the sandbox's own.

The sandbox has fetched Debian packages, or installed those of Python. Here its files are copied, as hostile as they
are, into a directory that only this service's sandboxes are made from, one image at a time. What Debian packages run to
be installed runs in a container without a network, whose root is nobody on the host.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kernels.errors import EnvironmentBuildFailed, KernelsError, LauncherRefused, SandboxGone
from kernels.images import added_packages
from kernels.images.added_packages import Added, Container
from kernels.images.layer import GIVEN_UP
from kernels.images.pruning import find_digests_in_use
from kernels.launcher.checks import Bounds, Checks
from kernels.launcher.wire import LayPackages, RemoveLayer, StopLaying
from kernels.oci.host import findings as host
from kernels.sandbox import RuntimeSettings, SandboxRuntime

SETUP_SECONDS: Final = 480
"""For the scripts of Debian packages: less than the whole request has."""
Work = Callable[[Callable[[], bool]], None]
"""Something to do in a thread, which asks now and then whether it is given up."""
log = logging.getLogger(__name__)


class Turn:
    """Work that is to be done in the thread."""

    def __init__(self) -> None:
        self._given_up = threading.Event()
        self._working: Future[None] | None = None

    def give_up(self) -> None:
        """Have it end soon; one that has not begun ends at once."""
        self._given_up.set()
        if self._working is not None:
            self._working.cancel()

    async def take(self, thread: ThreadPoolExecutor, work: Work) -> None:
        """Do it, after what waits there already. A caller who gives up has it end soon, and waits for that."""
        self._working = thread.submit(work, self._given_up.is_set)
        done = asyncio.wrap_future(self._working)
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            self.give_up()
            if not done.done():
                await asyncio.wait([done])  # it asks at every file, and copies no file larger than an image may be
            if not done.cancelled():
                done.exception()
            raise
        if done.cancelled():
            raise EnvironmentBuildFailed(GIVEN_UP)
        done.result()


class Layers:
    """Images of added packages below the data directory of `settings`, within `bounds`."""

    def __init__(self, runtime: SandboxRuntime, checks: Checks, settings: RuntimeSettings, bounds: Bounds) -> None:
        self._runtime = runtime
        self._checks = checks
        self._settings = settings
        self._bounds = bounds
        # One, of its own: making an image changes the umask, which all threads have in common; and what waits, however
        # much of it a service asks for, holds up nothing else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="launcher layers")
        self._laying: dict[str, Turn] = {}
        """By the sandbox whose packages they are of."""

    def sweep(self) -> None:
        """Have all removed that an earlier launcher was making when it was killed, before anything else is made."""
        self._thread.submit(self._sweep)

    def _sweep(self) -> None:
        try:
            for digest in added_packages.remove_unfinished(self._settings):
                log.info("removed what a launcher that was killed has made of the image %s", digest)
        except (KernelsError, OSError) as error:  # what uses the same names later removes it, or says why it cannot
            log.warning("what a launcher that was killed has left cannot be removed: %s", error)

    async def lay(self, request: LayPackages) -> None:
        """Make the image, unless `stop` comes first.

        Raises `LauncherRefused`, `SandboxGone`, `UnknownEnvironment`, `EnvironmentBuildFailed`.
        """
        if request.sandbox_id in self._laying:
            raise LauncherRefused("an image is being made of this sandbox already")
        turn = self._laying[request.sandbox_id] = Turn()
        try:
            await turn.take(self._thread, await self._plan(request))
        finally:
            del self._laying[request.sandbox_id]

    def stop(self, request: StopLaying) -> None:
        """Give up the image that is being made of a sandbox, or is to be; that there is none is fine."""
        if (turn := self._laying.get(request.sandbox_id)) is not None:
            turn.give_up()

    async def _plan(self, request: LayPackages) -> Work:
        """What is to be done for a request that is granted."""
        infos = {info.sandbox_id: info for info in await self._runtime.list()}
        info = infos.get(request.sandbox_id)
        if info is None:
            raise SandboxGone(f"sandbox {request.sandbox_id} is gone")
        if info.environment_digest != request.digest:
            raise LauncherRefused("the sandbox was made from another image")
        base, directory = self._checks.find_image(request.image, request.digest), self._settings.data_directory
        workspace, runtime = Path(info.workspace_directory), info.runtime or self._settings.runtime

        def lay(given_up: Callable[[], bool]) -> None:
            if given_up():
                raise EnvironmentBuildFailed(GIVEN_UP)
            self._require_room(request.layer)
            added = Added(request.part, workspace, self._bounds.layer_bytes, self._make_container(runtime), given_up)
            added_packages.lay(directory, base, request.layer, added)

        return lay

    async def remove(self, request: RemoveLayer) -> None:
        """Remove an image, absent is fine. Raises `LauncherRefused` while a sandbox runs on it."""
        directory, run = self._settings.data_directory, self._settings.run_directory
        ours = {info.environment_digest for info in await self._runtime.list()}
        await Turn().take(
            self._thread,
            # Sandboxes of other services have images of their own: what one of those has left is no reason to refuse.
            lambda _: added_packages.remove(
                directory, request.layer, lambda: find_digests_in_use(run, directory) | ours
            ),
        )

    def _make_container(self, runtime: str) -> Container:
        """Where scripts of Debian packages run: on the sandbox's runtime, within what one may have at most."""
        bounds = self._bounds
        return Container(runtime, self._settings, bounds.memory_mb << 20, bounds.pids, bounds.vcpus, SETUP_SECONDS)

    def _require_room(self, digest: str) -> None:
        there = added_packages.list_digests(self._settings.data_directory)
        if digest not in there and len(there) >= self._bounds.layers:
            raise LauncherRefused(f"there are {len(there)} images of added packages, as many as there may be")
        host.require_free_space(self._settings.data_directory, self._settings.disk_reserve_bytes)
