"""The kernel for JavaScript and TypeScript in a sandbox: Deno's."""

from __future__ import annotations

from kernels.execution.contexts import RunContext, enter_javascript
from kernels.execution.dialect import Dialect
from kernels.execution.hub import Hub
from kernels.guest_client.client import KernelStarted
from kernels.sandboxed.deno_dialect import PRELUDE, DenoDialect
from kernels.sandboxed.second_kernel import SecondKernel
from kernels.wire.dialing import deno_socket


class DenoKernel(SecondKernel):
    """An interrupt ends code of its that computes; code that waits for a promise does not hear it."""

    runtime = "deno"
    title = "JavaScript and TypeScript"
    missing = (
        "this environment's image has no Deno, which runs JavaScript and TypeScript: choose an environment whose recipe"
        " has the package `deno`, as `python` has"
    )
    prelude = PRELUDE
    place: RunContext | None = None
    """Where the code that comes next begins, and its variables; None where nobody has named any yet."""

    async def prepare(self, hub: Hub) -> None:
        if self.place is not None:
            await enter_javascript(hub, self.place)

    async def start(self) -> KernelStarted:
        return await self.guest.start_deno()

    async def kill(self) -> None:
        await self.guest.kill_deno()

    def name_socket(self, generation: int, number: int) -> str:
        return deno_socket(generation, number)

    def make_dialect(self) -> Dialect:
        return DenoDialect()
