"""The service's end: `SandboxRuntime` by asking the launcher.

Waiting calls fail at once when the launcher is gone. What the launcher answers is trusted; what it hands over
of a sandbox (sockets, files) is as hostile as ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import socket
from typing import Final, Literal, TypeVar

from kernels import errors
from kernels.cancelling import cancel_all
from kernels.environment import Environment
from kernels.errors import DeadlineExceeded, KernelsError, SandboxFailed
from kernels.images.added_packages import Part
from kernels.launcher import wire
from kernels.launcher.packets import Packets, close_all
from kernels.sandbox import MOST_SAVING_SECONDS, Finding, PagedOut, SandboxInfo, SandboxSpec, SandboxUsage

A = TypeVar("A", bound=wire.Answer)

_SECONDS: Final = 75.0
_LONG_SECONDS: Final = 200.0
_SAVING_SECONDS: Final = MOST_SAVING_SECONDS + 120
_LAY_SECONDS: Final = 620.0
"""A little more than the launcher takes, so that its own answer is the one that is heard."""
_ERRORS: Final = {
    name: each for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, KernelsError)
}
_Heard = tuple[wire.Answer, list[int]]


class LauncherRuntime:
    """A `SandboxRuntime` on the launcher at the other end of a socket pair. `gone` is set once the launcher is."""

    def __init__(self, end: socket.socket) -> None:
        self.gone = asyncio.Event()
        self._packets = Packets(end, most_descriptors=1)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[_Heard]] = {}
        self._listening = asyncio.create_task(self._listen_to_it())

    async def check(self) -> tuple[Finding, ...]:
        return tuple((await self._ask(wire.Check(), wire.Found, _LONG_SECONDS)).findings)

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        making = asyncio.create_task(self._ask(_creation(spec), wire.Made, _LONG_SECONDS))
        try:
            return (await asyncio.shield(making)).info
        except asyncio.CancelledError:
            # What is made all the same is taken back, since no caller has it. The request's own deadline ends the wait.
            await asyncio.wait([making])
            if not making.cancelled() and making.exception() is None:
                await self.destroy(spec.sandbox_id)
            raise

    async def claim(self, sandbox_id: str, *, workspace_ready: bool = False) -> SandboxUsage:
        return (await self._ask(wire.Claim(sandbox_id, workspace_ready), wire.Used)).usage

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        await self._ask(wire.MarkWorkspaceReady(sandbox_id), wire.Nothing)

    async def reopen(self, sandbox_id: str) -> None:
        await self._ask(wire.Reopen(sandbox_id), wire.Nothing)

    async def list(self) -> tuple[SandboxInfo, ...]:
        infos: list[SandboxInfo] = []
        while True:
            page = await self._ask(wire.List(infos[-1].sandbox_id if infos else ""), wire.Page)
            infos += page.infos
            if not page.more or not page.infos:
                return tuple(infos)

    async def running(self, sandbox_id: str) -> bool:
        return (await self._ask(wire.Running(sandbox_id), wire.Truth)).value

    async def usage(self, sandbox_id: str) -> SandboxUsage:
        return (await self._ask(wire.Usage(sandbox_id), wire.Used)).usage

    async def watch_memory(self, sandbox_id: str, percents: tuple[int, ...]) -> int:
        return await self._fetch(wire.WatchMemory(sandbox_id, percents))

    async def page_out(self, sandbox_id: str) -> PagedOut:
        return await self._move(wire.PageOut(sandbox_id), _LONG_SECONDS)

    async def save(self, sandbox_id: str) -> PagedOut:
        return await self._move(wire.Save(sandbox_id), _SAVING_SECONDS)

    async def _move(self, asked: wire.PageOut | wire.Save, seconds: float) -> PagedOut:
        try:
            return (await self._ask(asked, wire.Moved, seconds)).paged_out
        except asyncio.CancelledError:
            with contextlib.suppress(KernelsError, OSError):  # it ends the move, which would stop a sandbox for nobody
                await self.thaw(asked.sandbox_id)
            raise

    async def thaw(self, sandbox_id: str) -> None:
        await self._ask(wire.Thaw(sandbox_id), wire.Nothing, _SAVING_SECONDS)

    async def put_away(self, sandbox_id: str) -> bool:
        return (await self._ask(wire.PutAway(sandbox_id), wire.Truth)).value

    async def dial(self, sandbox_id: str, name: str, *, patience_seconds: float = 0) -> socket.socket:
        return socket.socket(fileno=await self._fetch(wire.Dial(sandbox_id, name, min(max(patience_seconds, 0), 1))))

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        if name not in ("http", "s3", "packages"):
            raise SandboxFailed(f"a sandbox has no way out {name[:60]!r}")
        return socket.socket(fileno=await self._fetch(wire.Listen(sandbox_id, name)))  # type: ignore[arg-type]

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        return await self._fetch(wire.OpenBeneath(sandbox_id, path))

    async def open_kept(self, sandbox_id: str, name: str) -> int:
        return await self._fetch(wire.OpenKept(sandbox_id, name))

    async def kill(self, sandbox_id: str) -> SandboxUsage | None:
        answer, descriptors = await self._call(wire.Kill(sandbox_id), _SECONDS)
        close_all(descriptors)
        if not isinstance(answer, wire.Used | wire.Nothing):
            raise SandboxFailed(f"the launcher answered Kill with {type(answer).__name__}")
        return answer.usage if isinstance(answer, wire.Used) else None

    async def destroy(self, sandbox_id: str) -> None:
        await self._ask(wire.Destroy(sandbox_id), wire.Nothing, _LONG_SECONDS)

    async def save_token(self, token: str) -> None:
        """Have the first token saved for the user who started the service; raises `KernelsError` and `OSError`."""
        await self._ask(wire.SaveToken(token), wire.Nothing)

    async def view(self, form: Literal["html", "py"]) -> socket.socket:
        """A stream: a notebook in, a view out, made by a process that has nothing else."""
        return socket.socket(fileno=await self._fetch(wire.View(form)))

    async def lay_packages(self, sandbox_id: str, base: Environment, layer: str, part: Part) -> None:
        wanted = wire.LayPackages(sandbox_id, base.image, base.digest, layer, part)
        laying = asyncio.create_task(self._ask(wanted, wire.Nothing, _LAY_SECONDS))
        try:
            await asyncio.shield(laying)
        except asyncio.CancelledError:
            # The launcher reads the sandbox's files until it has given up: it is not to be destroyed before that. The
            # request's own deadline ends the wait.
            with contextlib.suppress(KernelsError, OSError):
                await self._ask(wire.StopLaying(sandbox_id), wire.Nothing)
            await asyncio.wait([laying])
            if not laying.cancelled():
                laying.exception()
            raise

    async def remove_layer(self, layer: str) -> None:
        await self._ask(wire.RemoveLayer(layer), wire.Nothing, _LONG_SECONDS)

    async def aclose(self) -> None:
        """Let go of the launcher; sandboxes that still run are left alone."""
        await cancel_all([self._listening])
        self._fail()
        self._packets.close()

    async def _fetch(self, request: wire.Request) -> int:
        """The descriptor that a request is answered with."""
        answer, descriptors = await self._call(request, _SECONDS)
        if not isinstance(answer, wire.Descriptor) or len(descriptors) != 1:
            close_all(descriptors)
            raise SandboxFailed("the launcher's answer brought no descriptor")
        return descriptors[0]

    async def _ask(self, request: wire.Request, kind: type[A], seconds: float = _SECONDS) -> A:
        answer, descriptors = await self._call(request, seconds)
        close_all(descriptors)
        if not isinstance(answer, kind):
            raise SandboxFailed(f"the launcher answered {type(request).__name__} with {type(answer).__name__}")
        return answer

    async def _call(self, request: wire.Request, seconds: float) -> _Heard:
        if self.gone.is_set():
            raise _lost()
        number = next(self._numbers)
        heard: asyncio.Future[_Heard] = asyncio.get_running_loop().create_future()
        self._waiting[number] = heard
        try:
            async with asyncio.timeout(seconds):
                await self._packets.send(wire.encode_call(number, request))
                answer, descriptors = await heard
        except BaseException as error:
            if heard.done() and not heard.cancelled() and heard.exception() is None:
                close_all(heard.result()[1])
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(f"the launcher did not answer within {seconds:g} s") from None
            if isinstance(error, OSError):
                raise _lost() from None
            raise
        finally:
            del self._waiting[number]
        if isinstance(answer, wire.Failed):
            close_all(descriptors)
            raise _error(answer)
        return answer, descriptors

    async def _listen_to_it(self) -> None:
        """Hand answers to those who wait for them, until the launcher is gone."""
        try:
            while (packet := await self._packets.receive()) is not None:
                try:
                    reply = wire.decode_reply(packet.data)
                except ValueError:
                    close_all(packet.descriptors)
                    continue
                heard = self._waiting.get(reply.number)
                if heard is None or heard.done():  # its caller has given up
                    close_all(packet.descriptors)
                else:
                    heard.set_result((reply.answer, packet.descriptors))
        finally:
            self._fail()

    def _fail(self) -> None:
        self.gone.set()
        for heard in self._waiting.values():
            if not heard.done():
                heard.set_exception(_lost())


def _creation(spec: SandboxSpec) -> wire.Create:
    environment, resources = spec.environment, spec.environment.resources
    role = environment.role
    return wire.Create(
        sandbox_id=spec.sandbox_id,
        image=environment.image,
        digest=environment.digest,
        generation=spec.generation,
        hostname=spec.hostname,
        memory_mb=resources.memory_mb,
        storage_mb=resources.storage_mb,
        pids=resources.pids,
        vcpus=resources.vcpus,
        runtime=environment.runtime,
        network=environment.network.mode,
        role=None if role is None else wire.Role(role.bucket, role.prefix, role.region, role.write),
        index=environment.index is not None,
        keep_packages=environment.keep_packages,
        spare=spec.spare,
    )


def _error(failed: wire.Failed) -> Exception:
    """The error that the launcher met, as if it had been met here."""
    if failed.kind == "OSError":
        return OSError(failed.error_number, failed.message or os.strerror(failed.error_number))
    kind = _ERRORS.get(failed.kind, KernelsError)
    with contextlib.suppress(TypeError):
        return kind(failed.message)
    return KernelsError(failed.message)


def _lost() -> SandboxFailed:
    return SandboxFailed("the launcher is gone; nothing can be done with sandboxes until it is back")
