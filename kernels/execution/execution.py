"""One run of code on a hub: its events as they come, its deadline, its outcome.

A run has ended when the kernel has replied and said that it is idle. Code can say that it is idle, too. So idle alone
ends nothing: a kernel that says so and does not reply is asked something, which it answers when the code has ended, and
one that said so too early is asked in the same way where its output ends. A reply waits for idle as long as output
arrives and `SETTLE_SECONDS` longer. Messages belong to the run whose request they name as parent: what a thread of an
earlier run prints is not part of this one (see `kernels.execution.runs`). A kernel whose `Dialect` has closing code is
asked to run that as well, and the run ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kernels.errors import Death, KernelDied, KernelsError
from kernels.execution.dialect import Dialect
from kernels.execution.hub import Hub
from kernels.execution.outcome import Outcome, whole_outputs
from kernels.execution.outputs import Event, OutputCaps, OutputCollector, Outputs, Truncated, UserError, user_error
from kernels.execution.run_usage import RunUsage, usage_in
from kernels.execution.runs import OUTPUTS
from kernels.wire.client_request import ClientRequest
from kernels.wire.message import Message

log = logging.getLogger(__name__)

# The content of requests to run code and of their replies. Pure.


def execute_request(code: str, *, silent: bool = False) -> dict[str, Any]:
    """The content of a request to run code without a person at a keyboard."""
    return {
        "code": code,
        "silent": silent,
        "store_history": not silent,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def pages_in(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """What a reply asks to be shown in a pager (`name?` does), as displays."""
    payload = reply.get("payload")
    return [
        each
        for each in (payload if isinstance(payload, list) else [])[:10]
        if isinstance(each, dict) and each.get("source") == "page"
    ]


__all__ = ["Event", "Outcome", "OutputCaps", "Truncated", "UserError", "execute", "execute_request"]

SETTLE_SECONDS: Final = 5.0
"""How long a reply waits for idle, once no more output of the run arrives."""

REPLY_SECONDS: Final = 1.0
"""How long idle waits for the reply, which was sent before it on another connection, until the kernel is asked."""

EARLY_SECONDS: Final = 0.05
"""Idle that came so long before the reply was not the end of the output."""

EARLY: Final = "the kernel said that it was idle and then showed more: code in it can say so at any time"

CATCH_UP_SECONDS: Final = 60.0
OUTLIVED: Final = "the kernel that ran this ended while the service was not there"
_INTERRUPTS: Final = 2
_BEGUN_SECONDS: Final = 0.1
"""How long after it said that it begins the kernel surely runs the code, and heeds an interrupt."""


async def execute(
    hub: Hub,
    code: str,
    *,
    timeout_seconds: float,
    interrupt_grace_seconds: float,
    caps: OutputCaps,
    interrupt: Callable[[], Awaitable[None]],
    emit: Callable[[Event], None],
    dialect: Dialect | None = None,
    request: ClientRequest | None = None,
    execution_id: str = "",
    elapsed_seconds: float = 0.0,
    end: Callable[[], Awaitable[None]] | None = None,
) -> Outcome:
    """Run code and gather what it shows; `emit` gets events in order and returns at once.

    `request` is the client's message that carries the code, when an attached client sent it. `execution_id` is what
    the hub's `runs` remember it by; what an earlier process has begun under it goes on, `elapsed_seconds` of its time
    being over. Past the deadline the code is interrupted, by `end` where that is another way than `interrupt`; what
    does not end within the grace has `needs_kill`. A kernel that dies is an outcome; raises the error of a hub that
    failed for another reason. When the caller is cancelled the code runs on, and nothing listens to it any more.
    """
    run = _Run(hub, OutputCollector(caps, hub.widgets), emit, interrupt, dialect or Dialect())
    run.request, run.execution_id = request, execution_id
    unsubscribe = hub.subscribe(run.deliver, failed=run.fail, skipped=run.skip)
    try:
        run.start(code, timeout_seconds, interrupt_grace_seconds)
        hub.flow()
        await run.catches_up()
        left = timeout_seconds if hub.is_former else max(timeout_seconds - elapsed_seconds, run.ending_seconds)
        if not await run.ends_within(left):
            run.timed_out = True
            ended = await _interrupt(run, end or interrupt, interrupt_grace_seconds)
            return run.outcome(needs_kill=not ended)
        await run.interrupt_is_sent(interrupt_grace_seconds)
        return run.outcome()
    finally:
        unsubscribe()
        run.close()


async def _interrupt(run: _Run, interrupt: Callable[[], Awaitable[None]], grace_seconds: float) -> bool:
    """Interrupt until the run ends, a second time for code that caught the first; says whether it ended."""
    pause = grace_seconds / _INTERRUPTS
    for _ in range(_INTERRUPTS):
        sending = asyncio.ensure_future(interrupt())
        try:
            if await run.ends_within(pause):
                return True
        finally:
            sending.cancel()
            sending.add_done_callback(_forget)
    return False


def _forget(sending: asyncio.Future[None]) -> None:
    """An interrupt that did not get through is no error of its own: the run ends as one that needs a kill."""
    if not sending.cancelled() and (error := sending.exception()) is not None:
        log.warning("interrupt_failed: %s", error)


class _Run:
    """What is known of one execution: fed by the hub, asked by `execute`."""

    _heard_until = 0
    """Where in the kernel's stream it ended."""

    def __init__(
        self,
        hub: Hub,
        collector: OutputCollector,
        emit: Callable[[Event], None],
        interrupt: Callable[[], Awaitable[None]],
        dialect: Dialect,
    ) -> None:
        self.timed_out = False
        self.request: ClientRequest | None = None
        self.execution_id = ""
        self._hub = hub
        self._session = hub.session
        self._dialect = dialect
        self._code = ""
        self._closing_id: str | None = None
        self._explanation: dict[str, Any] = {}
        self._collector = collector
        self._emit = emit
        self._interrupt = interrupt
        self._interrupting: asyncio.Future[None] | None = None
        self._msg_id: str | None = None
        self._interrupts = hub.interrupts
        self._reply: dict[str, Any] | None = None
        self._usage: RunUsage | None = None
        self._failed = self._idle = False  # an error shown is the last output, unless the code goes on
        self._idle_since = 0.0
        self._early = False
        """Whether the kernel said that it was idle and then showed more."""
        self._doubted = False
        """Whether the kernel is asked where its output ends."""
        self._probe_id: str | None = None
        """What the kernel was asked to learn where the code or its output ends."""
        self._probe_replied = self._probe_idle = False
        self._heard = 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._note = ""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._error: Exception | None = None

    def start(self, code: str, seconds: float, grace_seconds: float) -> None:
        """Send the request, unless the hub has failed already, or an earlier process has sent it."""
        if self._ended.done():
            return
        self._code = code
        taken = self._hub.find_taken(self.execution_id)
        if taken is not None:
            if not self._hub.runs_here(taken):
                self._end(KernelDied(Death("exit", OUTLIVED)))
                return
            self._msg_id, self._session = taken.msg_id, taken.session
            self._hub.begin_run(taken.msg_id, taken.session, self.execution_id)
            return
        self._msg_id, self._session = self._hub.begin(
            "execute_request",
            execute_request(code),
            self.request,
            execution_id=self.execution_id,
            timeout_seconds=seconds,
            grace_seconds=grace_seconds,
        )

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end; says whether it came."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    async def catches_up(self) -> None:
        """Take what was said while nobody was there, which may be the end, before its time is looked at."""
        if self._hub.find_taken(self.execution_id) is not None:
            catching_up = asyncio.ensure_future(self._hub.catch_up(CATCH_UP_SECONDS))
            await asyncio.wait({catching_up, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            catching_up.cancel()

    @property
    def ending_seconds(self) -> float:
        """What a run that is taken up may take to its end although its time is over: its code may have ended before."""
        return SETTLE_SECONDS if self._reply is not None or self._idle or self._failed else 0.0

    async def interrupt_is_sent(self, seconds: float) -> None:
        """Wait for an interrupt that was sent again, lest it meet what the kernel runs next."""
        if self._interrupting is not None:
            await asyncio.wait({self._interrupting}, timeout=seconds)
            self._interrupting.cancel()

    def deliver(self, channel: str, message: Message) -> None:
        """A message of the kernel's: ours when it names our request as its parent."""
        if self._ended.done():
            return
        try:
            if self._probe_id is not None and message.parent_id == self._probe_id:
                self._take_probe(channel, message)
            elif message.parent_session not in ("", self._session):
                return  # a client may give several requests one id
            elif message.parent_type not in ("", "execute_request"):
                return
            elif message.parent_id == self._msg_id:
                self._take(channel, message)
            elif message.parent_id == self._closing_id:
                self._take_closing(channel, message)
        except Exception as error:  # a mistake in this package must end the run, not leave it waiting
            self._end(error)

    def skip(self, parent_id: str, size_bytes: int) -> None:
        """A message was too large to be read."""
        if not self._ended.done() and parent_id in (self._msg_id, self._closing_id):
            self._tell(self._collector.skip(size_bytes))

    def fail(self, error: KernelsError) -> None:
        """The kernel is gone."""
        self._end(error)

    def close(self) -> None:
        """Nobody waits for the end any more; what the guest remembers runs on, and is taken up by the next process.

        Its request stays under way until then: its output is not late, and nothing that comes now is acknowledged.
        """
        if self._settling is not None:
            self._settling.cancel()
        self._ended.cancel()
        if not self.execution_id:
            self._leave()

    def outcome(self, *, needs_kill: bool = False) -> Outcome:
        """How it ended; raises what is no outcome."""
        self._leave()
        death = self._error.death if isinstance(self._error, KernelDied) else None
        if self._error is not None and death is None:
            raise self._error
        shown = self._collector.snapshot()
        self.timed_out = self.timed_out or self.execution_id in self._hub.ended_by_guest
        error = self._user_error(shown)
        return Outcome(
            status="timeout" if self.timed_out else "died" if death else self._status(error),
            execution_count=self._collector.execution_count,
            stdout=shown.stdout,
            stderr=shown.stderr,
            outputs=whole_outputs(shown, error),
            error=error,
            truncated=shown.truncated,
            death=death,
            needs_kill=needs_kill or (death is not None and self._hub.lost),
            note=self._note,
            usage=None if death else self._usage,
            displays=shown.displays,
            updates=shown.updates,
            stream=self._hub.stream,
            heard=self._heard_until,
            request=(self._msg_id or "", self._session),
        )

    def _take(self, channel: str, message: Message) -> None:
        self._heard = self._loop.time()
        if message.outgrown:
            self._tell(self._collector.skip(message.size_bytes, "it holds more values than are decoded"))
        if channel == "iopub":
            if message.msg_type == "status":
                self._take_state(message.content.get("execution_state"))
            elif not message.outgrown:
                if message.msg_type == "execute_input":
                    self._interrupt_again()
                elif self._idle and self._reply is None and message.msg_type in OUTPUTS:
                    self._early = True
                self._failed = self._failed or message.msg_type == "error"
                self._tell(self._collector.feed(message.msg_type, message.content))
        elif channel == "shell" and message.msg_type == "execute_reply" and self._reply is None:
            self._reply = message.content
            self._usage = usage_in(message.metadata_json)
            self._tell(self._collector.feed("execute_input", message.content))
            for page in pages_in(message.content):
                self._tell(self._collector.feed("display_data", page))
            self._doubted = self._early or (self._idle and self._heard - self._idle_since > EARLY_SECONDS)
        if self._idle or self._failed or self._reply is not None:
            self._go_on()

    def _take_state(self, state: Any) -> None:
        if state == "idle" and not self._idle:
            self._idle, self._idle_since = True, self._heard

    def _go_on(self) -> None:
        """A part of the end is there: look whether that was all; if not, wait for the rest.

        An error is such a part: an interrupt that comes right after it keeps the kernel from sending the others.
        """
        if self._closing_id is None and self._reply is not None and self._idle:
            if not self._doubted or self._probe_idle:
                self._note = EARLY if self._early else ""
                self._close(self._reply)
                return
            self._probe()
        if self._settling is None:
            self._settle()

    def _probe(self) -> None:
        """Ask what the kernel answers after the code, and publishes after the code's output."""
        if self._probe_id is None:
            self._probe_id = self._hub.send("shell", "kernel_info_request", {})

    def _take_probe(self, channel: str, message: Message) -> None:
        """The code has ended: the answer to it has come, or never will."""
        self._heard = self._loop.time()
        if channel == "iopub":
            self._probe_idle = self._probe_idle or message.content.get("execution_state") == "idle"
        else:
            self._probe_replied = True
        if self._probe_idle and self._probe_replied and self._reply is None:
            self._lack("reply")
        else:
            self._go_on()

    def _close(self, reply: dict[str, Any]) -> None:
        """Reply and idle are there: that is the end, unless the kernel still publishes."""
        closing = self._dialect.closing(self._code, reply, interrupted=self.timed_out or self._was_interrupted())
        if closing is None:
            self._end(None)
            return
        if self._settling is not None:
            self._settling.cancel()
        self._closing_id = self._hub.send("shell", "execute_request", execute_request(closing, silent=True))
        self._hub.runs.begin(self._closing_id, self._session, self.execution_id)
        self._settle()

    def _take_closing(self, channel: str, message: Message) -> None:
        """What comes after the closing code was sent: the rest of the run's output, and the end.

        An error is part of the run only when the closing code went well: else it is its own, with user code in its way.
        """
        self._heard = self._loop.time()
        if channel == "shell" and message.content.get("status") == "error":
            self._note = "the code is in the way of what ends it; the end of the output may be missing"
            self._end(None)
        elif channel != "iopub" or message.msg_type in ("status", "execute_input"):
            return
        elif self._dialect.closes(message.msg_type, message.content):
            self._tell(self._collector.feed("error", self._explanation) if self._explanation else [])
            self._end(None)
        elif message.msg_type == "error":
            self._explanation = message.content
        elif message.outgrown:
            self._tell(self._collector.skip(message.size_bytes, "it holds more values than are decoded"))
        else:
            self._tell(self._collector.feed(message.msg_type, message.content))

    def _was_interrupted(self) -> bool:
        return self._hub.interrupts > self._interrupts or self.execution_id in self._hub.interrupted

    def _interrupt_again(self) -> None:
        """The code begins now: an interrupt from before found a kernel that ran nothing, and was lost."""
        if self._was_interrupted() and self._interrupting is None:
            self._interrupting = asyncio.ensure_future(self._send_interrupt())
            self._interrupting.add_done_callback(_forget)

    async def _send_interrupt(self) -> None:
        """Once the code surely runs: the kernel says that it begins a moment before, when it still swallows signals."""
        if not await self.ends_within(_BEGUN_SECONDS):
            await self._interrupt()

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)

    def _settle(self) -> None:
        """A part of the end is there; end without what is missing when nothing more arrives."""
        if self._ended.done():
            return
        left = (REPLY_SECONDS if self._reply is None else SETTLE_SECONDS) - (self._loop.time() - self._heard)
        if left > 0:
            self._settling = self._loop.call_later(left, self._settle)
        elif self._reply is not None:
            self._lack("end of its output" if self._idle else "idle status")
        else:
            self._settling = None
            self._probe()  # while the code runs on there is no answer to that, and its deadline is what ends it

    def _lack(self, missing: str) -> None:
        self._note = f"the kernel sent no {missing}; the end of the output may be missing"
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._error = error
            self._heard_until = self._hub.position
            self._ended.set_result(None)
            self._leave()

    def _leave(self) -> None:
        """What comes from here on is late."""
        for msg_id in (self._msg_id, self._closing_id):
            if msg_id is not None:
                self._hub.runs.end(msg_id, self._session)

    def _status(self, error: UserError | None) -> str:
        if error is None:
            well = self._reply is not None and self._dialect.says_done(self._reply)
            return "ok" if well or not self._was_interrupted() else "interrupted"
        if self._dialect.says_interrupted(error) and self._was_interrupted():
            return "interrupted"
        return "error"

    def _user_error(self, shown: Outputs) -> UserError | None:
        """The error that ended the code: the reply knows, for code may also show one that it has handled."""
        if self._reply is None:
            return shown.error
        if self._reply.get("status") not in ("error", "aborted"):
            return None
        error = shown.error or user_error(self._reply, 100_000)
        return self._dialect.describe_error(error) if self.timed_out or self._was_interrupted() else error
