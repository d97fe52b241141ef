"""The one set of connections to a kernel: requests out, replies to who asked, everything to every subscriber.

A hub is opened once per generation of a kernel, by the guest's relay, which is the kernel's one client and outlives
this process; kernels of sandboxes of an older release are spoken to directly. A connection that is lost for good means
the kernel is gone, and the guest says why; when it stays silent for `LOSS_GRACE_SECONDS` the hub fails by itself. Waits
on a failed hub end at once.

A hub on a kernel that an earlier process has used *resumes*: nothing comes before `flow`, so that whoever takes up what
runs in it has subscribed by then. What is durable is said with `settle`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kernels.cancelling import cancel_all
from kernels.errors import DeadlineExceeded, Death, KernelDied, KernelsError, SandboxFailed
from kernels.execution.runs import Durable, Runs
from kernels.execution.widgets import COMMS, Widgets
from kernels.guest.relay.frames import MOST_NOTE
from kernels.wire import zmtp
from kernels.wire.channel import Pace
from kernels.wire.client_request import ClientRequest
from kernels.wire.connection import KernelConnection
from kernels.wire.direct_link import DirectLink
from kernels.wire.message import Malformed, Message, Signer, read_unverified_parent
from kernels.wire.relay_link import ACK_BYTES, Handlers, RelayLink, Run, TakenRun, Word

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
    the channel `greeted_on`: one where answering is published. `runs` says which request carries out which execution,
    and `widgets` are those that this process has heard of.
    """

    is_former = False
    """Whether another kernel has taken the place of this one: all that is left is what it said."""

    def __init__(
        self, connection: KernelConnection, *, greeted_on: str = "control", heard: Mapping[str, Durable] | None = None
    ) -> None:
        """`heard` says what streams carried that is durable, by the streams' names."""
        self._heard = heard or {}
        self.lost = False
        self.refused = 0
        self.interrupts = 0
        self.kernel_info: dict[str, Any] = {}
        self.error: KernelsError | None = None
        self.runs, self.widgets = Runs(), Widgets()
        self.wake: Callable[[], None] | None = None
        """Set while the sandbox stands still: called before something is sent, which waits in the socket until then."""
        self._connection = connection
        self._greeted_on = greeted_on
        self._signer = Signer(connection.key, lasting=bool(connection.relay))
        handlers = Handlers(self._receive, self._hear, self._note_cut, self._connection_lost, self._is_stopped)
        self._relay = RelayLink(connection, handlers, Pace()) if connection.relay else None
        self._link = self._relay or DirectLink(connection, self._receive, self._connection_lost)
        self._subscribers: tuple[_Subscriber, ...] = ()
        self._requests: dict[str, asyncio.Future[Message]] = {}
        self._told = 0
        self.resumed = False
        """Whether an earlier process has used the kernel: `flow` is to be called."""
        self.taken_runs: dict[str, TakenRun] = {}
        """Of all kernels of the sandbox, by the execution's id: what earlier processes had begun in it."""
        self.ended_by_guest: dict[str, str] = {}
        """Executions whose code was ended at their deadline, and how far the guest had to go: interrupt, kill."""
        self.interrupted: set[str] = set()
        """Executions that were interrupted on request, by this process or an earlier one."""
        self._unstored: dict[object, int] = {}
        """What is not durable yet, executions by their ids: after which number in the stream it began."""
        self._acknowledged = 0
        self._unacknowledged_bytes = 0
        self._flowing = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._drained = asyncio.Event()
        self._published = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._loss: asyncio.TimerHandle | None = None

    @property
    def generation(self) -> int:
        """Which of its sandbox's kernels this is."""
        return self._connection.generation

    def renumber(self, generation: int) -> None:
        """The guest counts this kernel as of another generation from now on; nothing has run in it."""
        self._connection = replace(self._connection, generation=generation)
        if self._relay is not None:
            self._relay.kernel = self._connection

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
        msg_id, frames = self._signer.request(msg_type, content)
        self._send(channel, frames)
        return msg_id

    def forward(self, request: ClientRequest) -> None:
        """Send a client's message with the client's own header, signed again; raises the error of a failed hub."""
        if self.error is not None:
            raise self.error
        self._send(request.channel, self._signer.sign(request.parts))

    def suspend(self) -> None:
        """The sandbox is about to be saved and ended: its guest closes the connections, and is to be let do so."""
        if self._relay is not None:
            self._relay.suspend()

    def resume(self) -> None:
        """It goes on: connect again, to the same kernel; raises nothing, a kernel that is gone fails this hub."""
        if self._relay is not None:
            self._relay.resume()

    def _send(self, channel: str, frames: list[bytes], run: Run | None = None) -> None:
        if self.wake is not None:
            self.wake()
        self._link.send(channel, frames, run)

    def begin(
        self,
        msg_type: str,
        content: dict[str, Any],
        request: ClientRequest | None,
        *,
        execution_id: str,
        timeout_seconds: float,
        grace_seconds: float,
    ) -> tuple[str, str]:
        """Send the request of a run, ours or a client's, to be taken once; returns its id and its session."""
        if self.error is not None:
            raise self.error
        if request is None:
            msg_id, frames = self._signer.request(msg_type, content)
            session, channel = self.session, "shell"
        else:
            msg_id, session, channel = request.msg_id, request.session, request.channel
            frames = self._signer.sign(request.parts)
        run = Run(execution_id, msg_id, session, timeout_seconds, grace_seconds) if execution_id else None
        self._send(channel, frames, run)
        self.begin_run(msg_id, session, execution_id)
        return msg_id, session

    def begin_run(self, msg_id: str, session: str, execution_id: str) -> None:
        """This request runs from now on; nothing from here on is acknowledged before its outcome is durable."""
        self.runs.begin(msg_id, session, execution_id)
        if execution_id:
            self._unstored.setdefault(execution_id, self.position)

    def hold(self, owner: object) -> None:
        """The message that is being delivered is part of something that is not durable until `release`."""
        self._unstored.setdefault(owner, 0 if self._relay is None else max(self._relay.began - 1, 0))

    def release(self, owner: object) -> None:
        """It is durable, or given up."""
        self._unstored.pop(owner, None)

    def durable_with(self, number: int, owner: object) -> int:
        """Up to where all is durable once that is which ended at this number."""
        return min([number, *(began for each, began in self._unstored.items() if each != owner)])

    @property
    def stream(self) -> str:
        """What the stream of this kernel is known by, for as long as the kernel lives; empty when there is none."""
        return "" if self._relay is None else self._signer.stream

    @property
    def silent_seconds(self) -> float:
        """For how long the guest has been in the middle of a message that does not go on; 0 where it is in none."""
        return 0.0 if self._relay is None else self._relay.silent_seconds

    @property
    def position(self) -> int:
        """The number up to which all of that stream has been delivered."""
        return 0 if self._relay is None else self._relay.whole_position

    @property
    def repeats(self) -> bool:
        """Whether what is delivered now was also sent to an earlier process."""
        relay = self._relay
        return self.resumed and relay is not None and relay.position <= self._told

    def flow(self) -> None:
        """Have what the kernel said delivered from now on, as far as it is not durable; again it does nothing."""
        if self._relay is not None and not self._flowing.is_set() and self.error is None:
            self._flowing.set()
            known = self._heard.get(self.stream, Durable())
            self.runs.remember(known.runs)
            self._relay.start(known.number)
            self._acknowledged = self._relay.position
            self._relay.acknowledge(self._acknowledged)
            self._look_where_it_is()

    @property
    def is_flowing(self) -> bool:
        """Whether what the kernel says is delivered: nobody has to take up anything of it before."""
        return self._relay is None or self._flowing.is_set()

    async def catch_up(self, deadline_seconds: float) -> None:
        """Wait until what was kept for a hub that resumed has been delivered, at most so long."""
        if self.resumed and self.error is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline_seconds):
                    await self._caught_up.wait()

    async def drain(self, deadline_seconds: float) -> None:
        """Wait until a kernel that has ended has nothing more to say, at most so long."""
        if self._relay is not None and self.error is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline_seconds):
                    await self._flowing.wait()
                    await self._drained.wait()

    def find_taken(self, execution_id: str) -> TakenRun | None:
        """What an earlier process has begun for this execution, in whatever kernel."""
        return self.taken_runs.get(execution_id) if execution_id else None

    def runs_here(self, run: TakenRun) -> bool:
        """Whether that was in this kernel."""
        return (run.kernel, run.generation) == (self._connection.relay, self._connection.generation)

    def settle(self, number: int, execution_id: str = "") -> None:
        """What came up to this number is durable, the outcome of that execution with it."""
        if self._relay is None:
            return
        number = self.durable_with(number, execution_id)
        self.release(execution_id)
        self.ended_by_guest.pop(execution_id, None)
        self.interrupted.discard(execution_id)
        if execution_id or number > self._acknowledged:
            self._acknowledged = max(number, self._acknowledged)
            self._relay.acknowledge(self._acknowledged, execution_id)

    def _find_resumed(self, relay: RelayLink) -> bool:
        """Whether an earlier process has used the kernel, by what its relay says; raises SandboxFailed."""
        welcome = relay.welcome
        if welcome is None:
            return False
        self.taken_runs = {each.id: each for each in welcome.runs}
        if not welcome.note:
            return False
        try:
            (note,) = zmtp.Decoder(MOST_NOTE, established=True).feed(bytes.fromhex(welcome.note))
            if isinstance(note, zmtp.Oversized):
                raise Malformed("too large")
            self.kernel_info = self._signer.parse(note).content
        except (ValueError, zmtp.ProtocolError, Malformed) as error:
            raise SandboxFailed(f"the guest's relay has no description of its kernel: {error}") from None
        self.resumed, self._told = True, welcome.told
        self._published.set()
        return True

    @property
    def awaits_reply(self) -> bool:
        """Whether a request of ours has no reply yet."""
        return bool(self._requests)

    def unsent_bytes(self, channel: str) -> int:
        """What the kernel has not taken yet: it may be busy, or not read at all."""
        return self._link.unsent_bytes(channel)

    async def request(
        self,
        channel: str,
        msg_type: str,
        content: dict[str, Any],
        *,
        deadline_seconds: float,
        carry: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> Message:
        """Send a request and wait for its reply; raises `DeadlineExceeded`, or the error of a failed hub.

        `carry` brings it to the kernel, past what waits on the hub's own way, and raises what keeps it from that.
        """
        if self.error is not None:
            raise self.error
        msg_id, frames = self._signer.request(msg_type, content)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._requests[msg_id] = reply
        try:
            async with asyncio.timeout(deadline_seconds):
                if carry is not None:
                    await carry(zmtp.encode(frames))
                else:
                    self._send(channel, frames)
                return await reply
        except TimeoutError:
            raise DeadlineExceeded(f"no answer to {msg_type} within {deadline_seconds:g} s") from None
        finally:
            del self._requests[msg_id]

    def note_interrupt(self, execution_id: str = "") -> None:
        """Called before the kernel is interrupted on request: that execution, or what runs, ends as `interrupted`."""
        if execution_id:
            self.interrupted.add(execution_id)
        else:
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
        await self._link.open()
        if self._relay is not None and self._find_resumed(self._relay):
            return
        self.flow()
        described = False
        while not (described and self._published.is_set()):
            info = await self.request(self._greeted_on, "kernel_info_request", {}, deadline_seconds=deadline_seconds)
            self.kernel_info, described = info.content, True
            if self._relay is not None:
                self._relay.leave_note(zmtp.encode(self._signer.sign(info.parts)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NUDGE_SECONDS):
                    await self._published.wait()

    def _receive(self, name: str, frames: list[bytes] | zmtp.Oversized) -> None:
        """Where everything that the kernel sends comes in; nothing that is in it raises."""
        if self.error is not None:
            return
        if self._relay is not None:
            self._unacknowledged_bytes += 1 if isinstance(frames, zmtp.Oversized) else sum(map(len, frames))
        self._deliver(name, frames)
        self._look_where_it_is()  # after those who hear it: what they hold is not acknowledged

    def _deliver(self, name: str, frames: list[bytes] | zmtp.Oversized) -> None:
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

    def _look_where_it_is(self) -> None:
        """Whether a hub that resumed has all that was kept for it; and have the relay forget what nobody needs."""
        relay = self._relay
        if relay is None or relay.welcome is None:
            return
        if not self._caught_up.is_set() and relay.position >= relay.welcome.next - 1:
            self._caught_up.set()
            if relay.welcome.lost:  # its word may be durable already, and does not come again then
                self._hear(Word(lost=relay.welcome.lost))
        if self._unacknowledged_bytes > ACK_BYTES and not self._unstored and self.error is None:
            self._unacknowledged_bytes = 0
            self.settle(relay.whole_position)

    def _hear(self, word: Word) -> None:
        """The relay says something itself."""
        self._look_where_it_is()
        if word.lost is not None:
            self._drained.set()
            self._connection_lost(word.lost[:300])
        elif word.deadline is not None and self.runs.is_under_way(word.deadline):
            self.ended_by_guest[word.deadline] = word.stage
        elif word.interrupted and self.runs.is_under_way(word.interrupted):
            self.interrupted.add(word.interrupted)

    def _note_cut(self, size_bytes: int) -> None:
        """More was said than the relay keeps, and nobody was there to take it."""
        self._look_where_it_is()
        for msg_id in self.runs.under_way:
            for subscriber in self._subscribers:
                self._tell(subscriber.skipped, msg_id, size_bytes)

    def _dispatch(self, name: str, message: Message) -> None:
        if name == "iopub":
            self._published.set()
            if message.msg_type in COMMS:
                self.widgets.feed(message.msg_type, message.content, message.buffers)
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

    def _is_stopped(self) -> bool:
        return self.wake is not None

    def _connection_lost(self, why: str) -> None:
        if self.error is None and self._loss is None:
            loop = asyncio.get_running_loop()
            self._loss = loop.call_later(LOSS_GRACE_SECONDS, self._give_up, why)

    def _give_up(self, why: str) -> None:
        self.lost = True
        self.fail(KernelDied(Death("exit", f"{why}, though its process may still run")))

    def _close(self) -> None:
        if self._loss is not None:
            self._loss.cancel()
        self._link.close()
