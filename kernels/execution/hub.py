"""The one set of connections to a kernel: requests out, replies to who asked, everything to every subscriber.

A hub is opened once per generation of a kernel and never reconnects: a connection that ends means the kernel is gone,
and the guest says why; when it stays silent for `LOSS_GRACE_SECONDS` the hub fails by itself. Waits on a failed hub
end at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kernels.cancelling import cancel_all
from kernels.errors import DeadlineExceeded, Death, KernelDied, KernelsError
from kernels.execution.runs import Runs
from kernels.wire import zmtp
from kernels.wire.channel import Channel, Pace, open_channel
from kernels.wire.client_request import ClientRequest
from kernels.wire.connection import CHANNELS, KernelConnection
from kernels.wire.message import Malformed, Message, Signer, read_unverified_parent

log = logging.getLogger(__name__)

LOSS_GRACE_SECONDS: Final = 3.0
_NUDGE_SECONDS: Final = 0.2

Deliver = Callable[[str, Message], None]
Skipped = Callable[[str, int], None]
Failed = Callable[[KernelsError], None]


class _Subscriber:
    """Callbacks for messages, for messages that were too large (`skipped(parent_id, size_bytes)`), for the end."""

    def __init__(self, deliver: Deliver, failed: Failed, skipped: Skipped) -> None:
        self.deliver = deliver
        self.failed = failed
        self.skipped = skipped


class Hub:
    """The connections to one kernel. Attributes are for reading.

    `lost` says that the kernel's sockets closed although no event had said that the kernel ended: it may still run and
    wants killing. `refused` counts messages that were malformed or wrongly signed. `interrupts` counts interrupts that
    someone asked for, see `note_interrupt`. `kernel_info` is the kernel's own description of itself, which it gives on
    the channel `greeted_on`: one where answering is published. `runs` says which request carries out which execution.
    """

    def __init__(self, connection: KernelConnection, *, greeted_on: str = "control") -> None:
        self.lost = False
        self.refused = 0
        self.interrupts = 0
        self.kernel_info: dict[str, Any] = {}
        self.error: KernelsError | None = None
        self.runs = Runs()
        self.wake: Callable[[], None] | None = None
        """Set while the sandbox stands still: called before something is sent, which waits in the socket until then."""
        self._connection = connection
        self._greeted_on = greeted_on
        self._signer = Signer(connection.key)
        self._channels: dict[str, Channel] = {}
        self._subscribers: tuple[_Subscriber, ...] = ()
        self._requests: dict[str, asyncio.Future[Message]] = {}
        self._pace = Pace()
        self._published = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._loss: asyncio.TimerHandle | None = None

    @property
    def generation(self) -> int:
        """Which of its sandbox's kernels this is."""
        return self._connection.generation

    @property
    def session(self) -> str:
        """The session that our own requests name; no client may."""
        return self._signer.session

    async def open(self, deadline_seconds: float) -> None:
        """Connect and subscribe; returns when the kernel has answered and its published messages arrive.

        Raises `DeadlineExceeded`, `SandboxFailed`, or the error of `fail`.
        """
        if self.error is not None:
            raise self.error
        opening = self._opening = asyncio.create_task(self._open(deadline_seconds))
        try:
            done, _ = await asyncio.wait({opening}, timeout=deadline_seconds)
        finally:
            self._opening = None
            await cancel_all([opening])
        if self.error is not None:
            raise self.error
        if not done:
            raise DeadlineExceeded(f"the kernel did not answer within {deadline_seconds:g} s")
        opening.result()

    def subscribe(
        self, deliver: Deliver, *, failed: Failed = lambda _error: None, skipped: Skipped = lambda _parent, _size: None
    ) -> Callable[[], None]:
        """Call `deliver(channel, message)` for every message from now on; it returns at once. The result unsubscribes.

        `failed` is called when the hub fails, also when it already has.
        """
        subscriber = _Subscriber(deliver, failed, skipped)
        self._subscribers = (*self._subscribers, subscriber)
        if self.error is not None:
            failed(self.error)

        def unsubscribe() -> None:
            self._subscribers = tuple(each for each in self._subscribers if each is not subscriber)

        return unsubscribe

    def send(self, channel: str, msg_type: str, content: dict[str, Any]) -> str:
        """Send a request and return its id, the `parent_id` of its replies; raises the error of a failed hub."""
        if self.error is not None:
            raise self.error
        if self.wake is not None:
            self.wake()
        msg_id, frames = self._signer.request(msg_type, content)
        self._channels[channel].send(frames)
        return msg_id

    def forward(self, request: ClientRequest) -> None:
        """Send a client's message with the client's own header, signed again; raises the error of a failed hub."""
        if self.error is not None:
            raise self.error
        if self.wake is not None:
            self.wake()
        self._channels[request.channel].send(self._signer.sign(request.parts))

    @property
    def awaits_reply(self) -> bool:
        """Whether a request of ours has no reply yet."""
        return bool(self._requests)

    def unsent_bytes(self, channel: str) -> int:
        """What the kernel has not taken yet: it may be busy, or not read at all."""
        return self._channels[channel].unsent_bytes

    async def request(
        self, channel: str, msg_type: str, content: dict[str, Any], *, deadline_seconds: float
    ) -> Message:
        """Send a request and wait for its reply; raises `DeadlineExceeded`, or the error of a failed hub."""
        msg_id = self.send(channel, msg_type, content)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._requests[msg_id] = reply
        try:
            async with asyncio.timeout(deadline_seconds):
                return await reply
        except TimeoutError:
            raise DeadlineExceeded(f"no answer to {msg_type} within {deadline_seconds:g} s") from None
        finally:
            del self._requests[msg_id]

    def note_interrupt(self) -> None:
        """Called before the kernel is interrupted on request: what runs then ends as `interrupted`."""
        self.interrupts += 1

    def fail(self, error: KernelsError) -> None:
        """The kernel is gone: everyone who waits gets this error now, everyone who comes later gets it too."""
        if self.error is not None:
            return
        self.error = error
        if self._opening is not None:
            self._opening.cancel()
        for reply in self._requests.values():
            if not reply.done():
                reply.set_exception(error)
        for subscriber in self._subscribers:
            self._tell(subscriber.failed, error)
        self._close()

    async def aclose(self) -> None:
        """Close the connections; who still waits is failed."""
        self.fail(KernelDied(Death("restart", "the connection to the kernel was closed")))
        self._close()
        await asyncio.sleep(0)  # transports close their sockets in the loop's next round

    async def _open(self, deadline_seconds: float) -> None:
        identity = os.urandom(16)
        try:
            async with asyncio.TaskGroup() as group:
                for name in CHANNELS:
                    group.create_task(self._open_one(name, identity))
        except* KernelsError as errors:
            raise errors.exceptions[0] from None
        described = False
        while not (described and self._published.is_set()):
            info = await self.request(self._greeted_on, "kernel_info_request", {}, deadline_seconds=deadline_seconds)
            self.kernel_info, described = info.content, True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NUDGE_SECONDS):
                    await self._published.wait()

    async def _open_one(self, name: str, identity: bytes) -> None:
        channel = await open_channel(
            self._connection,
            name,
            partial(self._receive, name),
            self._connection_lost,
            identity=identity,
            pace=self._pace,
        )
        self._channels[name] = channel

    def _receive(self, name: str, frames: list[bytes] | zmtp.Oversized) -> None:
        """Where everything that the kernel sends comes in; nothing that is in it raises."""
        if self.error is not None:
            return
        if isinstance(frames, zmtp.Oversized):
            parent = read_unverified_parent(frames.frames)
            for subscriber in self._subscribers:
                self._tell(subscriber.skipped, parent, frames.size_bytes)
            return
        try:
            message = self._signer.parse(frames)
        except Malformed as error:
            self.refused += 1
            log.debug("kernel_message_refused %s: %s", name, error)
            return
        self._dispatch(name, message)

    def _dispatch(self, name: str, message: Message) -> None:
        if name == "iopub":
            self._published.set()
        else:
            reply = self._requests.get(message.parent_id)
            if reply is not None and not reply.done() and message.parent_session in ("", self.session):
                reply.set_result(message)
        for subscriber in self._subscribers:
            try:  # `_tell`, spared a call for each message and subscriber
                subscriber.deliver(name, message)
            except Exception:
                log.exception("hub_subscriber_failed")

    def _tell(self, told: Callable[..., None], *arguments: object) -> None:
        """One subscriber's mistake is not another's."""
        try:
            told(*arguments)
        except Exception:
            log.exception("hub_subscriber_failed")

    def _connection_lost(self, why: str) -> None:
        if self.error is None and self._loss is None:
            loop = asyncio.get_running_loop()
            self._loss = loop.call_later(LOSS_GRACE_SECONDS, self._give_up, why)

    def _give_up(self, why: str) -> None:
        self.lost = True
        self.fail(KernelDied(Death("exit", f"{why}, though its process may still run; its globals are gone")))

    def _close(self) -> None:
        if self._loss is not None:
            self._loss.cancel()
        for channel in self._channels.values():
            channel.close()
