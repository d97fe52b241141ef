"""The launcher's end: takes requests one packet at a time, checks them, carries them out on the runtime, answers.

The service may have been taken over: all that comes in is refused or is one of the runtime's own verbs on this
service's own sandboxes. At most `MOST_AT_ONCE` requests are under way; each has a deadline; more are not read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import structs

from kernels.errors import DeadlineExceeded, KernelsError, LauncherRefused
from kernels.launcher import wire
from kernels.launcher.checks import Checks
from kernels.launcher.layers import Layers
from kernels.launcher.packets import Packet, Packets
from kernels.launcher.token_file import TokenFile
from kernels.launcher.viewers import Viewers
from kernels.sandbox import MOST_SAVING_SECONDS, PagedOut, SandboxInfo, SandboxRuntime, SandboxUsage

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 256
_SEND_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 60.0
_SECONDS: Final[dict[type[Any], float]] = {
    wire.Create: 180.0,
    wire.Destroy: 180.0,
    wire.PageOut: 180.0,
    wire.Save: MOST_SAVING_SECONDS + 100,
    wire.Thaw: MOST_SAVING_SECONDS + 100,
    wire.Check: 120.0,
    wire.LayPackages: 600.0,
    wire.RemoveLayer: 180.0,
}
_OTHER_SECONDS: Final = 60.0

_Done = tuple[wire.Answer, int | None]
"""An answer, and the descriptor that goes with it; the descriptor is ours to close."""


class Server:
    """Serves one service over one pair of sockets. `answered` counts requests that were carried out.

    `used` has the sandboxes of which this service has asked for anything but their removal.
    """

    answered = 0

    def __init__(
        self,
        runtime: SandboxRuntime,
        checks: Checks,
        end: socket.socket,
        token_file: TokenFile,
        viewers: Viewers,
        *,
        layers: Layers,
    ) -> None:
        self.used: set[str] = set()
        self._runtime = runtime
        self._checks = checks
        self._token_file = token_file
        self._viewers = viewers
        self._layers = layers
        self._packets = Packets(end)
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._numbers: set[int] = set()
        self._making: set[str] = set()
        self._there: set[str] = set()
        """Sandboxes that there may be, once they were `_listed`: none is missing."""
        self._listed = False
        self._listing: tuple[SandboxInfo, ...] = ()
        """What the pages of a list that is being asked for are of."""
        self._looks = self._listing_look = 0
        """How many looks at all sandboxes have begun for a list, and which of them `_listing` is of."""
        self._counting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken = asyncio.Event()
        self._checked: dict[type[Any], Callable[[Any], Awaitable[_Done]]] = {
            wire.Check: self._check,
            wire.Create: self._create,
            wire.List: self._list,
            wire.SaveToken: self._save_token,
            wire.View: self._view,
            wire.LayPackages: self._lay_packages,
            wire.StopLaying: self._stop_laying,
            wire.RemoveLayer: self._remove_layer,
        }

    async def serve(self) -> None:
        """Serve until the other end is closed or takes no answers any more. What is under way is given up then."""
        reading = asyncio.create_task(self._read())
        broken = asyncio.create_task(self._broken.wait())
        try:
            await asyncio.wait({reading, broken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, broken, *self._tasks):
                task.cancel()
            # A sandbox that is being made is made to the end, then taken back: no caller knows of it.
            await asyncio.wait({reading, broken, *self._tasks}, timeout=_CLOSE_SECONDS)
            self._packets.close()

    async def _read(self) -> None:
        while True:
            await self._room.acquire()  # first: what is not read waits in the socket, which holds up its sender alone
            packet = await self._packets.receive()
            if packet is None:
                return
            task = asyncio.create_task(self._take(packet))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled() and task.exception() is not None:
            log.error("launcher_answer_failed", exc_info=task.exception())
            self._broken.set()

    async def _take(self, packet: Packet) -> None:
        """One packet: what it asks for is done or refused, and said."""
        try:
            call = _parse(packet)
            if call.number in self._numbers:
                raise LauncherRefused(f"the number {call.number} is in use")
        except LauncherRefused as error:
            return await self._say(0, _describe(error))  # no call has this number: whose it was is not known for sure
        self._numbers.add(call.number)
        descriptor: int | None = None
        try:
            answer, descriptor = await self._carry_out(call)
            await self._say(call.number, answer, descriptor)
        finally:
            self._numbers.discard(call.number)
            if descriptor is not None:
                os.close(descriptor)

    async def _carry_out(self, call: wire.Call) -> _Done:
        """The answer to a request, whatever happens to it."""
        seconds = _OTHER_SECONDS
        try:
            request = _request(call)
            seconds = _SECONDS.get(type(request), _OTHER_SECONDS)
            async with asyncio.timeout(seconds):
                done = await self._do(request)
        except TimeoutError:
            return _describe(DeadlineExceeded(f"the launcher did not do this within {seconds:g} s")), None
        except (KernelsError, OSError) as error:
            return _describe(error), None
        except Exception:
            log.exception("launcher_request_failed")
            return _describe(KernelsError("the launcher failed at this; its log has the particulars")), None
        self.answered += 1
        return done

    async def _do(self, request: wire.Request) -> _Done:
        """Hand a plain verb to the runtime as it is; what needs a check, a page or no sandbox has a method here."""
        if isinstance(request, wire.Destroy):
            self.used.discard(request.sandbox_id)
        elif sandbox_id := getattr(request, "sandbox_id", ""):
            self.used.add(sandbox_id)
        if isinstance(request, wire.Verb):
            # The name is a constant of the request's class, and its fields are those of the class: no text that came in
            # chooses what is called.
            found = await getattr(self._runtime, request.verb)(**structs.asdict(request))
            if isinstance(request, wire.Destroy) and request.sandbox_id not in self._making:
                self._there.discard(request.sandbox_id)
            if isinstance(request, wire.Reopen):  # it may have been another gateway's
                async with self._counting:  # a look that began before may not have seen it
                    self._there.add(request.sandbox_id)
            return _answer(found)
        return await self._checked[type(request)](request)

    async def _say(self, number: int, answer: wire.Answer, descriptor: int | None = None) -> None:
        packet = wire.encode(wire.Reply(number, answer))
        if len(packet) > wire.PACKET_BYTES:
            packet = wire.encode(
                wire.Reply(number, _describe(KernelsError("the answer is longer than answers may be")))
            )
        async with asyncio.timeout(_SEND_SECONDS):
            try:
                await self._packets.send(packet, () if descriptor is None else (descriptor,))
            except OSError:  # the service is gone: reading ends too
                self._broken.set()

    async def _check(self, request: wire.Check) -> _Done:
        return wire.Found(list(await self._runtime.check())), None

    async def _create(self, request: wire.Create) -> _Done:
        async with self._counting:
            if request.sandbox_id in self._making:
                raise LauncherRefused(f"the sandbox {request.sandbox_id} is being made already")
            spec = self._checks.spec(request, sandboxes=await self._count())
            self._making.add(request.sandbox_id)
            self._there.add(request.sandbox_id)
        try:
            return wire.Made(await self._runtime.create(spec)), None
        finally:
            self._making.discard(request.sandbox_id)

    async def _count(self) -> int:
        """How many sandboxes there are at most. All are looked at once, and again only where it may matter.

        To look at a thousand takes longer than to make one.
        """
        if not self._listed or len(self._there) >= self._checks.most_sandboxes:
            # Those under way count too, also one that has no place yet when the others are listed.
            making = set(self._making)
            self._there = making | {info.sandbox_id for info in await self._runtime.list()} | self._making
            self._listed = True
        return len(self._there)

    async def _list(self, request: wire.List) -> _Done:
        # Its pages are of one look: to look again for each takes as much as the first, of a cluster's API server too.
        listing = self._listing
        if not request.after or not listing:
            self._looks += 1
            look = self._looks
            listing = tuple(sorted(await self._runtime.list(), key=lambda info: info.sandbox_id))
            if look > self._listing_look:  # else one that began later has ended already
                self._listing, self._listing_look = listing, look
        later = [info for info in listing if info.sandbox_id > request.after]
        if len(later) <= wire.PAGE and listing is self._listing:
            self._listing = ()
        return wire.Page(later[: wire.PAGE], more=len(later) > wire.PAGE), None

    async def _view(self, request: wire.View) -> _Done:
        return wire.Descriptor(), (await self._viewers.start(request.form)).detach()

    async def _lay_packages(self, request: wire.LayPackages) -> _Done:
        await self._layers.lay(request)
        return wire.Nothing(), None

    async def _stop_laying(self, request: wire.StopLaying) -> _Done:
        self._layers.stop(request)
        return wire.Nothing(), None

    async def _remove_layer(self, request: wire.RemoveLayer) -> _Done:
        await self._layers.remove(request)
        return wire.Nothing(), None

    async def _save_token(self, request: wire.SaveToken) -> _Done:
        self._token_file.save(request.token)
        return wire.Nothing(), None


def _answer(found: object) -> _Done:
    """What a verb returned, as an answer."""
    if isinstance(found, socket.socket):
        return wire.Descriptor(), found.detach()
    if isinstance(found, bool):  # before the descriptors: a bool is an int as well
        return wire.Truth(found), None
    if isinstance(found, int):
        return wire.Descriptor(), found
    if isinstance(found, SandboxUsage):
        return wire.Used(found), None
    if isinstance(found, PagedOut):
        return wire.Moved(found), None
    return wire.Nothing(), None


def _parse(packet: Packet) -> wire.Call:
    if packet.cut:
        raise LauncherRefused(f"a request has at most {wire.PACKET_BYTES} bytes and brings no descriptors")
    try:
        return wire.decode_call(packet.data)
    except (ValueError, RecursionError) as error:  # msgspec's errors among the former, and of what is no UTF-8
        raise LauncherRefused(f"this is no request: {error}") from None


def _request(call: wire.Call) -> wire.Request:
    try:
        return wire.decode_request(call.request)
    except (ValueError, RecursionError) as error:  # msgspec's errors among the former, and of what is no UTF-8
        raise LauncherRefused(f"this is no request: {error}") from None


def _describe(error: Exception) -> wire.Failed:
    if isinstance(error, OSError):
        return wire.Failed("OSError", (error.strerror or str(error))[: wire.LONGEST_MESSAGE], error.errno or 0)
    return wire.Failed(type(error).__name__, str(error)[: wire.LONGEST_MESSAGE])
