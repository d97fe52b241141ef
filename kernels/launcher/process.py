"""The launcher's life: it starts the service, serves it, starts it again when it dies, and ends with it.

Sandboxes outlive both. A service that dies is restarted a few times in a row and takes its sandboxes up again. A
signal to end is handed to the service, whose orderly end is this one's. `kill -9` of this process takes the service
along (see `confine`), and the next start finds what runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from kernels.errors import KernelsError
from kernels.launcher.checks import Checks
from kernels.launcher.ends import await_end
from kernels.launcher.group import NoGroup, ServiceGroup
from kernels.launcher.handover import Confinement, in_memory, read_back
from kernels.launcher.layers import Layers
from kernels.launcher.outputs import open_outputs
from kernels.launcher.plan import Plan
from kernels.launcher.server import Server
from kernels.launcher.token_file import TokenFile
from kernels.launcher.viewers import Viewers, refuse, start_confined
from kernels.log_text import OneLine
from kernels.oci.cgroups import Cgroups
from kernels.oci.places import HostPlaces
from kernels.runtimes import open_runtime
from kernels.shared_host import SharedHost
from kernels.struct_types import prepare_struct_types

log = logging.getLogger("sandcell.launcher")

MOST_RESTARTS: Final = 5
_WINDOW_SECONDS: Final = 300.0
_PAUSE_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 20.0
"""Time the service has to end once it has let go of the launcher."""
_CONFINE: Final = str(Path(__file__).with_name("confine.py"))


def main(descriptor: int) -> None:
    """Run until the service has ended for good; this process ends as the service did."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("sandcell launcher: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    plan = Plan.decode(read_back(descriptor))
    os.close(descriptor)
    launcher = Launcher(plan)
    prepare_struct_types()
    status = asyncio.run(launcher.run())
    if status < 0:  # by a signal: so do we
        with contextlib.suppress(OSError):  # SIGKILL has no other
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


class Launcher:
    """One launcher; `run` once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._runtime = open_runtime(plan.oci)
        self._checks = Checks(Path(plan.environments), plan.bounds, plan.oci.data_directory)
        self._layers = Layers(self._runtime, self._checks, plan.oci, plan.bounds)
        # The service's own directories and group, whatever the runtime makes of sandboxes.
        self._places = None if plan.service.alone else HostPlaces(plan.oci)
        self._group = NoGroup() if self._places is None else ServiceGroup(Cgroups(self._places.cgroup).of_service())
        self._token_file = TokenFile(plan.token)
        self._opened = ExitStack()
        self._outputs = open_outputs(self._opened)
        self._stopping = asyncio.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._server: Server | None = None
        self._life_over = asyncio.Event()
        self._starts: deque[float] = deque(maxlen=MOST_RESTARTS)

    async def run(self) -> int:
        """The exit status, negative for a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._pass_on, number)
        self._layers.sweep()
        try:
            if not isinstance(self._runtime, SharedHost):
                return await self._live()
            async with self._runtime.releasing(self._end_user):
                return await self._live()
        finally:
            await self._runtime.aclose()
            self._opened.close()

    async def _live(self) -> int:
        """One life of the service after the other; the status that the last one ended with."""
        while True:
            life = await self._life()
            if not self._another(life):
                return life.status
            log.warning("the service ended (%s); it is started again", _how(life.status))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS * 2 ** len(self._starts)):
                    await self._stopping.wait()
                    return life.status

    async def _end_user(self, sandbox_id: str) -> None:
        """Another gateway has taken over a sandbox: end the life that has used it, which may be one that hangs."""
        if self._child is None or self._server is None or sandbox_id not in self._server.used:
            return
        log.warning("another gateway has taken over from the service, which is ended")
        self._child.kill()
        await self._life_over.wait()

    def _another(self, life: _Life) -> bool:
        """Whether to start the service again. One that never asked for anything did not get as far as to serve."""
        if self._stopping.is_set() or life.status in (0, self._plan.service.refusal):
            return False
        if life.status > 0 and not life.served:
            return False
        now = time.monotonic()
        if len(self._starts) == MOST_RESTARTS and now - self._starts[0] < _WINDOW_SECONDS:
            log.error("the service ended %s times in %.0f s; it is left so", MOST_RESTARTS + 1, now - self._starts[0])
            return False
        while self._starts and now - self._starts[0] >= _WINDOW_SECONDS:
            self._starts.popleft()
        self._starts.append(now)
        return True

    async def _life(self) -> _Life:
        """One life, with all that it has forked; one that cannot begin counts like any other."""
        self._life_over.clear()
        try:
            await asyncio.to_thread(self._group.make)
            try:
                return await self._one_life()
            finally:
                await asyncio.to_thread(self._group.end)
        except (OSError, KernelsError) as error:
            log.error("the service cannot be started: %s", error)
            return _Life(1, served=True)
        finally:
            self._life_over.set()

    async def _one_life(self) -> _Life:
        """Start the service, serve it, wait for its end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            child = self._child = self._start(theirs)
        confined = refuse if self._places is None else start_confined(self._plan.viewer, str(self._group.entrance))
        viewers = Viewers(self._plan.viewer, confined)
        server = Server(self._runtime, self._checks, ours, self._token_file, viewers, layers=self._layers)
        self._server = server
        serving = asyncio.create_task(server.serve())
        ending = asyncio.create_task(await_end(child))
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():  # it has closed its end, and so has nothing left to do
                await asyncio.wait({ending}, timeout=_LAST_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
            serving.cancel()
            # It ends: the child was killed, and the server gives what is under way a bounded time.
            await asyncio.wait({serving, ending})
            await viewers.aclose()
            self._child = self._server = None
        return _Life(child.wait(), served=server.answered > 0)

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        service = self._plan.service
        views = "" if self._places is None else str(self._places.views)
        confinement = Confinement(
            uid=service.uid,
            command=[*service.command, str(theirs.fileno())],
            directory=service.directory,
            reach=[*service.reach, *filter(None, (views,))],
            views=views,
            group=str(self._group.entrance or ""),
            parent=os.getpid(),
            refusal=service.refusal,
            alone=service.alone,
        )
        if self._places is not None:
            self._places.prepare()
        said = in_memory("sandcell-confinement", confinement.encode())
        try:
            return subprocess.Popen(
                [sys.executable, "-I", _CONFINE, str(said)],
                stdin=subprocess.DEVNULL,
                stdout=self._outputs[0],
                stderr=self._outputs[1],
                env=service.variables,
                pass_fds=[*service.descriptors, theirs.fileno(), said],
                start_new_session=True,  # a terminal's Ctrl-C comes here, and is passed on once
            )
        finally:
            os.close(said)

    def _pass_on(self, number: signal.Signals) -> None:
        self._stopping.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


class _Life(msgspec.Struct, frozen=True):
    """How one life of the service ended, and whether it ever got something done."""

    status: int
    served: bool


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else signal.Signals(-status).name
