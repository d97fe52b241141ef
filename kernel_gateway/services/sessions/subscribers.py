"""The clients attached to one session, now or lately: who is sent what, and what is said to them that no kernel says.

One subscription to the present hub and one ring serve all of them; a client is a cursor in the ring. Replies go to the
client whose session their parent names, what is published goes to all. A request of a client that the kernel will not
answer any more is answered here.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernels.errors import Death, KernelDied, KernelsError
from kernels.execution.hub import Hub
from kernels.kernelspec import Kernelspec
from kernels.languages import PYTHON
from kernels.wire.client_request import ClientRequest
from kernels.wire.message import Message, compose

# The latest messages of one session's kernel, for every client attached to it: one copy each, bounded in bytes. Pure.
#
# Sequence numbers rise by one with every message. When the bound is passed the oldest output goes first; replies and
# changes of state stay longer, up to their share, so that a client which comes back late still learns how its requests
# ended.

OVERHEAD_BYTES: Final = 512
FRAME_BYTES: Final = 48
"""What a kept message costs besides what is in its frames, and each of these."""
ESSENTIAL_SHARE: Final = 8
"""One part in so many of the bytes may be replies and changes of state that outlive the output around them."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for a client. One object however many clients get it; `sequence` rises within a session."""

    sequence: int
    channel: str
    message: Message


@dataclass(frozen=True, slots=True)
class _Kept:
    outgoing: Outgoing
    to: str | None
    cost: int
    essential: bool


class MessageRing:
    """Attributes are for reading: `last` is the latest sequence number, `gone` the latest of those no longer kept."""

    def __init__(self, limit_bytes: int) -> None:
        self.last = 0
        self.gone = 0
        self.size_bytes = 0
        self._limit_bytes = limit_bytes
        self._essential_bytes = 0
        self._kept: dict[int, _Kept] = {}
        self._bulk: deque[int] = deque()
        self._essential: deque[int] = deque()

    def has_room_for(self, channel: str, message: Message) -> bool:
        """Whether one message may be kept: an output may take most of the room, a reply half of it."""
        return cost(message) <= self._limit_bytes // 8 * (7 if channel == "iopub" else 4)

    def add(self, channel: str, message: Message, to: str | None = None) -> Outgoing:
        """Keep a message for one client, or for all of them; the oldest go."""
        self.last += 1
        outgoing = Outgoing(self.last, channel, message)
        essential = channel != "iopub" or message.msg_type == "status"
        kept = _Kept(outgoing, to, cost(message), essential)
        self._kept[self.last] = kept
        (self._essential if essential else self._bulk).append(self.last)
        self.size_bytes += kept.cost
        self._essential_bytes += kept.cost if essential else 0
        self._shrink()
        return outgoing

    def following(self, position: int, client: str) -> tuple[Outgoing | None, int]:
        """The first message past `position` that is for this client, and how far was looked."""
        if position < self.gone:  # there are holes up to there
            for sequence in self._left_of_the_gone(position):
                if self._kept[sequence].to in (None, client):
                    return self._kept[sequence].outgoing, sequence
        for sequence in range(max(position, self.gone) + 1, self.last + 1):
            if self._kept[sequence].to in (None, client):
                return self._kept[sequence].outgoing, sequence
        return None, max(position, self.last)

    def missing(self, position: int) -> int:
        """How many messages past `position` are no longer kept."""
        return max(self.gone - position, 0) - sum(1 for _ in self._left_of_the_gone(position))

    def _left_of_the_gone(self, position: int) -> Iterator[int]:
        """Those past `position` that outlived others after them."""
        for sequence in self._kept:
            if sequence > self.gone:
                return
            if sequence > position:
                yield sequence

    def _shrink(self) -> None:
        while self.size_bytes > self._limit_bytes:
            crowded = self._essential_bytes > self._limit_bytes // ESSENTIAL_SHARE
            self._drop(self._essential if (crowded and self._essential) or not self._bulk else self._bulk)

    def _drop(self, row: deque[int]) -> None:
        kept = self._kept.pop(row.popleft())
        self.size_bytes -= kept.cost
        self._essential_bytes -= kept.cost if kept.essential else 0
        self.gone = max(self.gone, kept.outgoing.sequence)


def cost(message: Message) -> int:
    """What a kept message is counted as."""
    return message.size_bytes + OVERHEAD_BYTES + FRAME_BYTES * message.frames


LONGEST_CLIENT_SESSION: Final = 256
MOST_CLIENTS: Final = 64
"""Clients attached to one session at once."""
MOST_CURSORS: Final = 256
"""Clients whose place is remembered; the first to leave is forgotten first."""
MOST_NAMES: Final = 64
"""Sessions that one client may name in its headers, the latest ones."""


class Ended(msgspec.Struct, frozen=True):
    """Why an attachment ended: `reason` is slow, replaced, draining, session_ended or closed."""

    reason: str
    detail: str = ""


@dataclass
class Cursor:
    """How far one client has been sent messages.

    `forgiven`: up to where messages were dropped while it was away; it hears of them, and is not ended for them.
    """

    client: str
    position: int
    forgiven: int = 0
    names: list[str] = field(default_factory=list)
    end: Callable[[Ended], None] | None = None
    left_at: float = 0.0


class _Pending:
    """A request to execute that is not answered yet."""

    def __init__(self, request: ClientRequest, client: str) -> None:
        self.request = request
        self.client = client
        self.replied = False
        self.idle = False
        self.held = False
        """Its reply waits until it is concluded."""
        self.reply: tuple[Message, str] | None = None


def name_client(author: str, client_session: str) -> str:
    """Who a client is: it comes back under the same name."""
    return f"{author}/{client_session[:LONGEST_CLIENT_SESSION]}"


class Subscribers:
    """Made when the first client attaches to a session; `close` ends all of them.

    They are the Python kernel's, or those of a `declared` one, for which nobody else starts another: when it has died
    `on_death` is called, and returns at once.
    """

    def __init__(
        self,
        limit_bytes: int,
        declared: Kernelspec | None = None,
        on_death: Callable[[Death], object] = lambda _death: None,
    ) -> None:
        self.declared = declared
        self.runtime = PYTHON if declared is None else declared.name
        self._on_death = on_death
        self.ring = MessageRing(limit_bytes)
        self.closed: Ended | None = None
        self._hub: Hub | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._session = uuid.uuid4().hex
        self._cursors: dict[str, Cursor] = {}
        self._names: dict[str, str] = {}
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._running: _Pending | None = None
        self._busy = False
        self._restarting = False
        self._asked: tuple[str, str] | None = None
        """The client that code waits for, since it called `input()`, and the request that this code belongs to."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def connections(self) -> int:
        return sum(1 for cursor in self._cursors.values() if cursor.end is not None)

    @property
    def pending_bytes(self) -> int:
        """What the requests that wait or run hold."""
        return sum(each.request.size_bytes for each in self._pending.values())

    def has(self, client: str) -> bool:
        """Whether a client with this name is attached now."""
        cursor = self._cursors.get(client)
        return cursor is not None and cursor.end is not None

    def enter(self, client: str, end: Callable[[Ended], None]) -> Cursor:
        """A client comes, or comes back; the client that holds its place ends as replaced."""
        cursor = self._cursors.pop(client, None) or Cursor(client, self.ring.last)
        if cursor.end is not None:
            cursor.end(Ended("replaced", "the client has attached again"))
        # What is gone by now it reads of in `explain_missed`: it is not a reason to end it as slow.
        cursor.end, cursor.forgiven = end, self.ring.gone
        self._cursors[client] = cursor
        return cursor

    def expect_back(self, author: str, client_session: str, now: float) -> None:
        """A client of an earlier process has a cell that goes on: what is said from now on is kept for it."""
        client = name_client(author, client_session)
        cursor = self._cursors.setdefault(client, Cursor(client, self.ring.last, left_at=now))
        self.name(cursor, client_session)

    def leave(self, cursor: Cursor, end: Callable[[Ended], None], now: float) -> None:
        """A client has gone, unless it has been replaced; its place is kept."""
        if cursor.end == end:
            cursor.end, cursor.left_at = None, now
            absent = [each for each in self._cursors.values() if each.end is None]
            for each in sorted(absent, key=lambda one: one.left_at)[: max(len(self._cursors) - MOST_CURSORS, 0)]:
                self._forget(each)

    def is_deserted(self, before: float) -> bool:
        """Whether code waits for input from a client that left before, or is not known any more."""
        if self._asked is None:
            return False
        cursor = self._cursors.get(self._asked[0])
        return cursor is None or (cursor.end is None and cursor.left_at < before)

    def forget(self, before: float) -> bool:
        """Forget the clients that left before; says whether any is left."""
        for each in list(self._cursors.values()):
            if each.end is None and each.left_at < before:
                self._forget(each)
        return bool(self._cursors)

    def name(self, cursor: Cursor, session: str) -> None:
        """Replies to this session go to this client from now on."""
        if self._names.get(session) == cursor.client:
            return
        self._names[session] = cursor.client
        cursor.names.append(session)
        while len(cursor.names) > MOST_NAMES:
            self._drop_name(cursor, cursor.names.pop(0))

    def explain_missed(self, cursor: Cursor) -> Outgoing | None:
        """What to say to a client that has come back too late for some of the messages."""
        missing = self.ring.missing(cursor.position)
        if not missing:
            return None
        text = (
            f"[{missing:,} messages came while this client was away or did not read, and are not kept for it; the"
            " session's notebook has the output]\n"
        )
        latest = self._running.request.header if self._running is not None else b"{}"
        note = compose("stream", {"name": "stderr", "text": text}, session=self._session, parent=latest)
        return Outgoing(cursor.position, "iopub", note)

    async def wait_changed(self) -> None:
        """Wait until there is more, or until something ends."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def connect(self, hub: Hub) -> None:
        """Another kernel takes code from now on."""
        self._unsubscribe()
        self._hub, self._busy = hub, False
        if self._restarting:
            self._restarting = False
            self.say_state("starting")
            self.say_state("idle")
        self._unsubscribe = hub.subscribe(self._deliver, failed=self._note_failure, skipped=self._note_skipped)

    def await_kernel(self) -> None:
        """There is no kernel yet: its start is to be announced."""
        self._restarting = True

    def close(self, ended: Ended) -> None:
        """End every attachment; what they have not been sent yet they may still be sent."""
        if self.closed is not None:
            return
        self.closed = ended
        self._unsubscribe()
        if ended.reason == "session_ended":
            self.say_state("dead")
        for cursor in self._cursors.values():
            if cursor.end is not None:
                cursor.end(ended)
        self.wake()

    def is_pending(self, request: ClientRequest) -> bool:
        return (request.msg_id, request.session) in self._pending

    def expect(self, request: ClientRequest, client: str) -> None:
        """A client's request to execute waits from now on; every such request gets an answer."""
        self._pending[request.msg_id, request.session] = _Pending(request, client)

    def running(self, request: ClientRequest, *, held: bool = False) -> None:
        """The kernel is given this request now; while it is `held` its reply waits for `conclude`."""
        self._running, self._asked = self._pending.get((request.msg_id, request.session)), None
        if self._running is not None:
            self._running.held = held

    def conclude(self, request: ClientRequest, *, error: tuple[str, str] | None = None, note: str = "") -> None:
        """A request has ended: say so, if the kernel has not: as aborted, or with an error's name and text."""
        pending = self._pending.pop((request.msg_id, request.session), None)
        if pending is None:
            return
        if note:
            self._note(note, request.header)
        if pending.reply is not None:
            self._pass_on("shell", *pending.reply)
        if self._running is pending:
            self._running = self._asked = None
        self._answer(pending, error)

    def refuse(self, channel: str, msg_type: str, header: bytes, client: str, why: str) -> None:
        """Answer a request that no kernel gets: only the client that sent it hears of it."""
        shown = {"ename": "InvalidRequest", "evalue": why, "traceback": [f"InvalidRequest: {why}"]}
        if msg_type == "execute_request":
            self._say("iopub", "error", shown, parent=header, to=client)
        content = {"status": "error", "execution_count": 0, **shown}
        self._say(channel, msg_type.replace("_request", "_reply"), content, parent=header, to=client)
        self._say("iopub", "status", {"execution_state": "idle"}, parent=header, to=client)
        if self._busy:
            self._say("iopub", "status", {"execution_state": "busy"}, to=client)

    def reply(self, request: ClientRequest, client: str, msg_type: str, content: dict[str, Any]) -> None:
        """Answer a request of a client's, in the kernel's place, with the states that belong to it."""
        self._say(request.channel, msg_type, content, parent=request.header, to=client)
        self._say("iopub", "status", {"execution_state": "idle"}, parent=request.header, to=client)
        if self._busy:
            self._say("iopub", "status", {"execution_state": "busy"}, to=client)

    def say_state(self, state: str) -> None:
        """Tell all of a state that no kernel tells."""
        self._say("iopub", "status", {"execution_state": state})

    def say(self, text: str) -> None:
        """A sentence for all of them, under the cell that runs."""
        self._note(text, self._running.request.header if self._running is not None else b"{}")

    def _answer(self, pending: _Pending, error: tuple[str, str] | None) -> None:
        request = pending.request
        shown = {"ename": error[0], "evalue": error[1], "traceback": [f"{error[0]}: {error[1]}"]} if error else {}
        if not pending.replied:
            if error is not None and not request.silent:
                self._say("iopub", "error", shown, parent=request.header)
            content = {"status": "error", "execution_count": 0, **shown} if error else {"status": "aborted"}
            self._say("shell", "execute_reply", content, parent=request.header, to=pending.client)
        if not pending.idle:
            self._say("iopub", "status", {"execution_state": "idle"}, parent=request.header)
            if self._busy and self._running is not None:
                self.say_state("busy")
        pending.replied = pending.idle = True

    def _say(
        self, channel: str, msg_type: str, content: dict[str, Any], *, parent: bytes = b"{}", to: str | None = None
    ) -> None:
        self._add(channel, compose(msg_type, content, session=self._session, parent=parent), to)

    def _deliver(self, channel: str, message: Message) -> None:
        """A message of the kernel's; called by the hub for each."""
        to = None
        if channel != "iopub":
            to = self._names.get(message.parent_session)
            if channel == "stdin":
                self._asked = to or "", message.parent_id
            if to is None:
                return
        elif message.msg_type == "status":
            if self._is_own_state(message):
                return
            self._busy = message.content.get("execution_state") == "busy"
            if not self._busy and self._asked is not None and self._asked[1] == message.parent_id:
                self._asked = None
        elif self._hub is not None and self._hub.repeats:
            return  # output that clients had of an earlier process; replies, questions and states they may get twice
        pending = self._follow_up(channel, message)
        if pending is not None and pending.held and pending.replied and to is not None and channel == "shell":
            pending.reply = message, to
        else:
            self._pass_on(channel, message, to)

    def _pass_on(self, channel: str, message: Message, to: str | None) -> None:
        if not self.ring.has_room_for(channel, message):
            self._say_too_large(channel, message, to)
        else:
            self._add(channel, message, to)

    def _is_own_state(self, message: Message) -> bool:
        """A state that belongs to what we ask for ourselves, or to a start that has been announced already."""
        ours = self._hub is not None and message.parent_session == self._hub.session
        asked = ours and message.parent_type != "execute_request"
        return asked or message.content.get("execution_state") == "starting"

    def _follow_up(self, channel: str, message: Message) -> _Pending | None:
        """Note what a client's request has been answered with."""
        pending = self._pending.get((message.parent_id, message.parent_session))
        if pending is None:
            return None
        if channel == "shell" and message.msg_type == "execute_reply":
            pending.replied = True
        elif channel == "iopub" and message.msg_type == "status" and not self._busy:
            pending.idle = True
        return pending

    def _say_too_large(self, channel: str, message: Message, to: str | None) -> None:
        """A message that the ring has no room for: say so in its place."""
        why = f"a message of {message.size_bytes:,} bytes is too large for attached clients"
        if channel == "iopub":
            self._note(f"[{message.msg_type}: {why}; the session's notebook has the output]\n", message.parent_json)
        else:
            content = {"status": "error", "ename": "MessageTooLarge", "evalue": why, "traceback": []}
            self._say(channel, message.msg_type, content, parent=message.parent_json, to=to)

    def _note_skipped(self, parent_id: str, size_bytes: int) -> None:
        """The hub could not read a message whole; called by the hub."""
        header = next((each.request.header for each in self._pending.values() if each.request.msg_id == parent_id), b"")
        why = f"[a message of {size_bytes:,} bytes is larger than is read from a kernel]\n"
        self._note(why, header or b"{}")

    def _note(self, text: str, parent: bytes) -> None:
        self._say("iopub", "stream", {"name": "stderr", "text": text}, parent=parent)

    def _note_failure(self, error: KernelsError) -> None:
        """The kernel is gone, and another will come; called by the hub."""
        if self.closed is not None or self._restarting:
            return
        pending, self._running, self._busy, self._asked = self._running, None, False, None
        if pending is not None:
            detail = error.death.detail if isinstance(error, KernelDied) else str(error)
            self._answer(pending, ("KernelDied", detail))
        self._restarting = True
        # To JupyterLab and VS Code this state says that a kernel has died: they show a dialog that blocks the notebook.
        if not (isinstance(error, KernelDied) and error.death.cause == "restart"):
            self.say_state("restarting")
        if isinstance(error, KernelDied):
            self._on_death(error.death)

    def _add(self, channel: str, message: Message, to: str | None) -> None:
        gone = self.ring.gone
        self.ring.add(channel, message, to)
        if self.ring.gone != gone:
            self._cut_slow()
        if self._waiting:
            self.wake()

    def _cut_slow(self) -> None:
        """End each client that is behind what is kept; it may come back."""
        for cursor in self._cursors.values():
            if cursor.end is not None and self.ring.gone > max(cursor.position, cursor.forgiven):
                cursor.end(Ended("slow", "the client did not read as fast as the kernel published"))

    def _forget(self, cursor: Cursor) -> None:
        self._cursors.pop(cursor.client, None)
        for session in cursor.names:
            self._drop_name(cursor, session)

    def _drop_name(self, cursor: Cursor, session: str) -> None:
        if self._names.get(session) == cursor.client:
            del self._names[session]
