"""Images with the packages that principals added: queued, built one of each principal at a time, removed when unused.

What is to be built stands in the environments' rows. A build that the service's end cut off begins again at the next
start, a few times; only what a row has is kept on disk. The digest of an image is of the image below, the lists, where
they come from, and the principal: one that is there at once would tell another that somebody has this very list.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from kernel_gateway.errors import Forbidden, GatewayError, UnknownEnvironment, translate
from kernel_gateway.installation.lists import PYPI
from kernel_gateway.package_sources import DEBIAN_SOURCES
from kernel_gateway.services.admission.fair_shares import FairShares
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.build_log import BuildLog
from kernel_gateway.services.environments.layer_sandbox import Layering, LayerSandbox, Step
from kernel_gateway.settings import Settings
from kernel_gateway.storage import environments
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.environments import EnvironmentRow
from kernels import errors as below
from kernels.environment import Environment
from kernels.errors import KernelsError
from kernels.images import added_packages
from kernels.log_text import escape

MOST_ATTEMPTS: Final = 3
"""Of a build that does not outlive the service: it may be why the service ends."""
WAIT_SECONDS: Final = 86_400.0
"""For a turn; after that the next look has it wait again."""
LONGEST_FAILURE: Final = 2_000
_FORMAT: Final = "added packages 1"
log = structlog.get_logger(__name__)


class LayerBuilds:
    """`start` one, `stop` it; `resume` at the start of the service, `prune` again and again."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        audit: Audit,
        background: Background,
        installed: Callable[[], Mapping[str, Environment]],
        sandbox: LayerSandbox,
        layering: Layering,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._audit = audit
        self._background = background
        self._installed = installed
        self._sandbox = sandbox
        self._layering = layering
        self._directory = Path(settings.data_dir)
        self._turns = FairShares(
            "an image to be built",
            settings.added_builds_at_once,
            share=1,
            wait_seconds=WAIT_SECONDS,
            most_waiting=settings.environments_per_principal + 1,
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._logs: dict[str, BuildLog] = {}
        self._needed: set[str] = set()
        """Digests that builds under way will look for or make: none is removed, though no row has it yet."""
        self._removing = asyncio.Lock()

    def find(self, digest: str) -> Environment:
        """An image that is built; raises the kernels' `UnknownEnvironment`."""
        return added_packages.find(self._directory, digest)

    def read_log(self, environment_id: str) -> str:
        """What the build of an environment's image has printed so far; empty when none is under way."""
        log = self._logs.get(environment_id)
        return "" if log is None else log.read()

    def start(self, row: EnvironmentRow) -> None:
        """Have an environment's image built, unless it is; what becomes of it stands in its row."""
        if row.id in self._tasks:
            return
        self._logs[row.id] = said = BuildLog()
        task = self._tasks[row.id] = self._background.spawn(self._run(row, said), f"image of {row.id}")
        task.add_done_callback(lambda _: self._forget(row.id))

    def _forget(self, environment_id: str) -> None:
        del self._tasks[environment_id], self._logs[environment_id]

    def stop(self, row: EnvironmentRow) -> None:
        """The environment is deleted: nobody wants its image any more."""
        if row.build is not None:
            self._background.spawn(self._give_up(row.id), f"image of {row.id} that nobody wants")

    async def run(self) -> None:
        """At every interval, build what waits with nobody at it, and remove what is unused."""
        while True:
            try:
                await self.resume()
                await self.prune()
            except Exception as error:
                log.error("images_not_looked_after", exc_info=error)
            await self._clock.sleep(self._settings.sweep_interval_seconds)

    async def resume(self) -> None:
        """Start the builds that an earlier process has left unfinished; those under way go on."""
        for row in await self._database.run(environments.list_building):
            self.start(row)

    async def prune(self) -> None:
        """Remove images that no environment has, and what killed builds have left. What runs on one keeps it."""
        there = set(await asyncio.to_thread(added_packages.list_digests, self._directory))
        if not there:
            return
        for digest in sorted(there - self._needed - await self._database.run(environments.list_layers)):
            async with self._removing:  # again: a build may have begun that takes it as it is
                if digest in self._needed or digest in await self._database.run(environments.list_layers):
                    continue
                try:
                    await self._layering.remove_layer(digest)
                except (KernelsError, OSError) as error:  # the next look tries again
                    log.warning("image_not_removed", digest=digest, error=str(error))
                else:
                    log.info("image_removed", digest=digest)

    async def _give_up(self, environment_id: str) -> None:
        """End a build, then remove what it or an earlier one has made."""
        if (task := self._tasks.get(environment_id)) is not None:
            task.cancel()
            await asyncio.wait([task])  # every step of a build that is cancelled has a deadline
        await self.prune()

    async def _run(self, row: EnvironmentRow, said: BuildLog) -> None:
        async with self._turns.place(row.principal_id), contextlib.AsyncExitStack() as held:
            try:
                steps, failure = self._plan(row), ""
                await self._hold(held, steps)
                attempts = await self._database.run(lambda c: environments.begin_build(c, row.id, steps[-1].layer))
                if not attempts:
                    return
                if attempts > MOST_ATTEMPTS:
                    failure = (
                        f"the service ended {MOST_ATTEMPTS} times while it was built: delete it, and try another list"
                    )
                else:
                    await self._build(row, steps, said)
            except Exception as error:
                failure = self._explain(row, error)
            text, now = said.read(), self._clock.now()
            await self._database.run(lambda c: environments.end_build(c, row.id, failure, text, now))
        self._record(row, failure)

    async def _hold(self, held: contextlib.AsyncExitStack, steps: Sequence[Step]) -> None:
        """Have none of these images removed until the block ends."""
        async with self._removing:
            wanted = {step.layer for step in steps} - self._needed
            self._needed |= wanted
        held.callback(self._needed.difference_update, wanted)

    async def _build(self, row: EnvironmentRow, steps: Sequence[Step], said: BuildLog) -> None:
        """Make the images that are not there, each over the one before."""
        async with asyncio.timeout(self._settings.added_build_seconds):
            base = steps[0].base
            for step in steps:
                try:
                    base = self._over(base, self.find(step.layer))
                    said.add(f"built before, of the same list: {', '.join(step.packages)}")
                except below.UnknownEnvironment:
                    said.add(f"installing {', '.join(step.packages)}")
                    wanted = Step(step.layer, base, step.part, step.packages)
                    await self._sandbox.build(row.principal_id, wanted, said)
                    base = self._over(base, self.find(step.layer))

    @staticmethod
    def _over(base: Environment, built: Environment) -> Environment:
        """The image that was built, with what the environment below says besides its image."""
        return dataclasses.replace(base, root=built.root, digest=built.digest, image=built.image)

    def _plan(self, row: EnvironmentRow) -> list[Step]:
        """Debian's packages first: those of Python may be built against them, and have no say in what they replace."""
        base, added = self._installed().get(row.image), row.added or environments.Added()
        if base is None:
            raise UnknownEnvironment(f"the host has no environment {row.image!r} any more")
        if not self._settings.allows_packages_over(row.image):
            raise Forbidden(f"packages cannot be added to {row.image!r} here any more")
        index = (base.index or PYPI).url
        steps, digest = [], base.digest
        for part, packages, source in (
            ("debian", added.apt, self._settings.apt_sources or DEBIAN_SOURCES),
            ("python", added.packages, index),
        ):
            if packages:
                digest = digest_list(digest, row.principal_id, (part, source, *packages))
                steps.append(Step(digest, base, "debian" if part == "debian" else "python", packages))
        return steps

    def _explain(self, row: EnvironmentRow, error: Exception) -> str:
        """Why it was not built, for the one who wanted it."""
        if isinstance(error, TimeoutError):
            return f"it was not built within {self._settings.added_build_seconds:g} s"
        if isinstance(error, below.EnvironmentBuildFailed):
            return escape(shorten(str(error)))
        if isinstance(error, GatewayError | KernelsError):
            return escape(translate(error).message[:LONGEST_FAILURE])
        log.error("image_build_failed", environment=row.id, exc_info=error)
        return "the service failed at this; its log has the particulars"

    def _record(self, row: EnvironmentRow, failure: str) -> None:
        added = row.added or environments.Added()
        self._audit.record(
            "environments",
            "BuildEnvironment",
            allowed=not failure,
            reason=failure.split("\n", maxsplit=1)[0],
            target=row.id,
            principal_id=row.principal_id,
            detail={"image": row.image, "packages": list(added.packages), "apt": list(added.apt)},
        )


def shorten(failure: str) -> str:
    """One sentence of what an installation said: how it begins, and the first error that is called one."""
    first, _, rest = failure.partition("\n")
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "E:", "error:"))]
    return " ".join((first, *(errors[:1] or lines[-1:])))[:LONGEST_FAILURE]


def digest_list(below: str, owner: str, listed: Sequence[str]) -> str:
    """Names an image: what it is made over, for whom, and the list with its source."""
    text = "\n".join((_FORMAT, below, owner, *listed))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
