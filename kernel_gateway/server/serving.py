"""The service's process, as the launcher starts it: `python -m kernel_gateway.server.serving SETTINGS LAUNCHER`.

Both are numbers of descriptors: a file in memory with what the service is handed, and the socket to the launcher. By
now this process has no privileges and no way back to any.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kernel_gateway.errors import GatewayError, translate
from kernel_gateway.logs import configure_logs
from kernel_gateway.server.inherited import Inherited
from kernel_gateway.server.welcome import Starter
from kernel_gateway.settings import Settings, adopt_variables
from kernels import system_calls
from kernels.errors import KernelsError
from kernels.launcher.client import LauncherRuntime
from kernels.launcher.handover import read_back
from kernels.struct_types import prepare_struct_types
from sandcell.exits import REFUSED
from workspace_sync import WorkspaceSyncError

Run = Callable[[Settings, str, LauncherRuntime, list[socket.socket], Starter], Awaitable[None]]
COLLECT_AFTER: Final = 5_000
"""Objects made, less those freed, until the collector looks at the young ones."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread keeps the interpreter while others want it. A thread that leaves it for a moment, as in each call
of SQLite or of a socket, waits that long to have it back from one that computes: ten such calls make 50 ms of the
default, 5 ms."""
_PR_SET_DUMPABLE: Final = 4


def main(handed: int, launcher: int) -> None:
    """Serve until told to end; a start that is refused says why and ends with that status."""
    close_to_others()
    faulthandler.enable()  # a library that crashes leaves the stacks of all threads in the log, and no value
    sys.setswitchinterval(SWITCH_SECONDS)
    run = load_application()
    inherited = msgspec.json.decode(read_back(handed), type=Inherited)
    adopt_variables(inherited.variables)
    settings = Settings(**inherited.settings)  # type: ignore[arg-type]
    configure_logs(settings)
    for number in (launcher, *inherited.sockets):
        os.set_inheritable(number, False)  # noqa: FBT003
    os.close(handed)
    try:
        asyncio.run(_serve(run, settings, inherited, launcher))
    except (GatewayError, KernelsError, WorkspaceSyncError) as error:
        sys.stderr.write(f"sandcell: {translate(error)}\n")
        sys.exit(REFUSED)


def load_application() -> Run:
    """Import all that serves, with the garbage collector off: what modules are made of stays.

    Collecting among it takes a quarter of the processor time of a start, and as much once more when the process ends.
    What serving makes is freed as soon as nothing refers to it: the collector, which is for the few cycles in that,
    looks less often than it would.
    """
    gc.disable()
    from kernel_gateway.server.application import run  # noqa: PLC0415 - not before the collector is off

    prepare_struct_types()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    gc.enable()
    return run


async def _serve(run: Run, settings: Settings, inherited: Inherited, launcher: int) -> None:
    sockets = [socket.socket(fileno=number) for number in inherited.sockets]
    runtime = LauncherRuntime(socket.socket(fileno=launcher))
    try:
        await run(
            settings,
            inherited.environments,
            runtime,
            sockets,
            Starter(inherited.token_path, inherited.token_saved, inherited.command),
        )
    finally:
        await runtime.aclose()


def close_to_others() -> None:
    """Keep other processes of this user out of this one: its memory, environment, descriptors. It leaves no core."""
    system_calls.prctl(_PR_SET_DUMPABLE, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
