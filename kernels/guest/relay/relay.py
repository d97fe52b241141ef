"""One kernel's relay: its only client, which keeps what it says and passes it on to the gateway that is there."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from .channels import Channels, Reach
from .frames import CHANNELS, FIRST, LAST
from .runs import Deadline, Run, Runs, replied_to
from .store import OpenFile, Store

BEHIND_BYTES = 2 * 1024 * 1024
"""How far a gateway may be behind before the kernel is not read any more."""
HANG_SECONDS = 20.0
"""How long a gateway that takes nothing keeps a kernel from being read: then it counts as gone."""
FORMER_LINKS = 16
_SHELL, _CONTROL = CHANNELS.index("shell"), CHANNELS.index("control")


class Source(Protocol):
    """A kernel as its relay sees it."""

    name: str
    generation: int
    key: str

    def alive(self) -> bool: ...
    def interrupt(self) -> object: ...
    def kill(self) -> object: ...


class Listener(Protocol):
    """The gateway's connection."""

    def push(self, data: bytes, count: int = 1) -> None: ...
    def read_on(self) -> None: ...
    def drop(self) -> None: ...


class Relay:
    """Belongs to the loop. `listener` is the gateway that is there, if any."""

    def __init__(self, source: Source, reach: Reach, runs: Runs, open_file: OpenFile) -> None:
        self.source = source
        self.store = Store(open_file)
        self.runs = runs
        self.note = b""
        self.lost = ""
        """Why the kernel is not connected any more."""
        self.link = ""
        """Whose requests are counted, and how many were taken."""
        self.taken = 0
        self.told = 0
        """The last number that gateways which are gone were sent."""
        self._answered = ""
        """The request that the message on shell answers whose pieces come."""
        self._former: deque[str] = deque(maxlen=FORMER_LINKS)
        self.listener: Listener | None = None
        self._channels = Channels(reach, source.alive, self._take, self._on_lost, self._ask_on)
        self._paused: asyncio.TimerHandle | None = None

    def attach(self, listener: Listener, link: str) -> None:
        """A gateway is there, in the place of any other; its requests are numbered, anew for each link.

        Raises ValueError for one whose place another has taken: it may have hung, and is not to come back.
        """
        if link in self._former:
            raise ValueError("another gateway has come since")
        if self.listener is not None:
            self.listener.drop()
        self.listener = listener
        if link != self.link:
            self._former.append(self.link)
            self.link, self.taken = link, 0

    def detach(self, listener: Listener) -> None:
        """The connection is gone: the kernel is read on, whatever it says is kept."""
        if self.listener is listener:
            self.listener = None
            self.read_on()

    def request(self, number: int, channel: int, described: bytes, data: bytes) -> None:
        """Pass a request on, unless it was taken before. Raises ValueError."""
        if number <= self.taken:
            return
        self.taken = number
        if described:
            run = Run(described, self.source.name, self.source.generation, self.source.key)
            if not self.runs.add(run):
                return
            if run.seconds > 0:
                Deadline(
                    run,
                    attended=lambda: self.listener is not None,
                    interrupt=self.source.interrupt,
                    kill=self.source.kill,
                    say=lambda run_id, stage: self._say({"deadline": run_id, "stage": stage}),
                )
        self._channels.send(channel, data)

    def note_interrupt(self, why: str, run_id: str = "") -> bool:
        """The gateway is about to interrupt the kernel: that it did, and why, is kept with what the kernel says.

        False, and nothing is to be interrupted, where that was for a run which has ended: another one may run by now.
        """
        runs = [each for each in self.runs.of(self.source.name, self.source.generation) if run_id in ("", each.id)]
        for run in runs:
            if why not in run.noted:
                run.noted.add(why)
                self._say({"deadline": run.id, "stage": "interrupt"} if why == "deadline" else {"interrupted": run.id})
        return bool(runs) or not run_id

    def interrupt(self, why: str, message: bytes, run_id: str = "") -> None:
        """Interrupt a kernel that takes a message for that, past all requests that wait for it on other channels."""
        if self.note_interrupt(why, run_id):
            self._channels.send(_CONTROL, message)

    def is_full(self, channel: int) -> bool:
        """Whether the kernel is so far behind with its requests that the gateway has to wait."""
        return self._channels.is_full(channel)

    def hold(self) -> None:
        """The gateway is behind: read nothing more until it has caught up, or hangs."""
        if self._paused is None:
            self._channels.pause()
            self._paused = asyncio.get_running_loop().call_later(HANG_SECONDS, self._give_up)

    def progress(self) -> None:
        """The gateway, behind as it is, takes something."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = asyncio.get_running_loop().call_later(HANG_SECONDS, self._give_up)

    def read_on(self) -> None:
        """The gateway has caught up, or is gone."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
            self._channels.resume()

    def retire(self) -> None:
        """Its kernel is replaced by another: what it said stays for a gateway that comes for it."""
        self._stop()
        if not self.lost:
            self._on_lost("the kernel was replaced")

    def close(self) -> None:
        """Nobody comes for what its kernel said any more."""
        self._stop()
        self.store.close()

    def _stop(self) -> None:
        for run in self.runs.of(self.source.name, self.source.generation):
            run.end()
        if self.listener is not None:
            self.listener.drop()
        if self._paused is not None:
            self._paused.cancel()
        self._channels.close()

    def _ask_on(self) -> None:
        if self.listener is not None:
            self.listener.read_on()

    def _give_up(self) -> None:
        if self.listener is not None:
            self.listener.drop()

    def _take(self, channel: int, pieces: Sequence[tuple[int, bytes]]) -> None:
        """Pieces of what the kernel says, as they came together: the gateway is woken once for them."""
        kept = [self.store.append_piece(channel, flags, data) for flags, data in pieces]
        if self.listener is not None:
            self.listener.push(b"".join(kept), len(kept))
        if channel == _SHELL:
            for flags, data in pieces:
                self._end_run(flags, data)

    def _end_run(self, flags: int, data: bytes) -> None:
        """A reply ends its run: its first piece says which, its last one that it is whole."""
        open_runs = self.runs.of(self.source.name, self.source.generation)
        if flags & FIRST:
            self._answered = replied_to(data) if open_runs else ""
        if flags & LAST and self._answered:
            for run in open_runs:
                if run.msg_id == self._answered:
                    run.end()

    def _on_lost(self, why: str) -> None:
        """The kernel has closed its sockets: it has ended, or will not be spoken to."""
        for run in self.runs.of(self.source.name, self.source.generation):
            if not self.source.alive():
                run.end()
        self.lost = why
        self._say({"lost": why})

    def _say(self, word: dict[str, str]) -> None:
        frame = self.store.append_word(json.dumps(word).encode())
        if self.listener is not None:
            self.listener.push(frame)


FindRelay = Callable[[str, int], Relay]
