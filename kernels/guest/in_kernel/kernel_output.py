"""What a kernel's code prints and displays: in messages of bounded size, under the request that it belongs to.

Loaded by `kernel_main`, once. ipykernel names the last request in what threads print, whichever of them started the
thread; here it is the running one, else the one under which the thread was started.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import codecs
import contextvars
import fcntl
import functools
import io
import os
import select
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread, OutStream
from ipykernel.zmqshell import ZMQDisplayPublisher
from zmq.eventloop.zmqstream import ZMQStream

PIECE_CHARACTERS = 65_536
"""A message never carries more text than this, and no stream holds more that has not been handed to its socket."""

SEND_MESSAGES = 32
"""Published messages that wait for a slow reader; then the writer waits."""

STARTED_UNDER = "_sandcell_started_under"
SENDER = "ZMQbg/IO"
"""How the names of ZMQ's own threads begin, which write to sockets what they are handed."""
SENT_SECONDS = 1.0
"""How long a flush waits for them at most: on a busy host they wait for their turn, too."""
LOOK_SECONDS = 0.0001
CHILD_LINGER_MILLISECONDS = 3000
"""How long a forked child that ends waits until its last output is taken; as ipykernel has it."""


class ThreadParents:
    """What ipykernel's streams and display publisher take as the parent of what they publish, with this before it."""

    cell_runs = False
    """While a cell runs what any thread prints is shown in it, as Jupyter does: a pool's threads serve many cells."""

    _parent_header: Any
    _parent_header_global: Any

    @property
    def parent_header(self) -> Any:
        """The header of a request; asyncio's tasks carry theirs with them."""
        try:
            return self._parent_header.get()
        except (LookupError, AttributeError):
            started = None if ThreadParents.cell_runs else getattr(threading.current_thread(), STARTED_UNDER, None)
            return started or getattr(self, "_parent_header_global", {})

    @parent_header.setter
    def parent_header(self, value: Any) -> None:
        if "_parent_header" not in vars(self):  # ipykernel 6 sets it itself in some versions, and in streams only
            self._parent_header = contextvars.ContextVar("parent_header")
        self._parent_header.set(value)
        self._parent_header_global = value


class BoundedStream(ThreadParents, OutStream):
    """`sys.stdout` or `sys.stderr`, and what is written to their descriptors, as messages of bounded size.

    A writer waits until its text is handed to the socket, and the socket waits for its reader. Text that went to the
    descriptor before (by a subprocess) is published before text that is written now.
    """

    flush_timeout = 24 * 3600

    def __init__(self, session: Any, pub_thread: Any, name: str, *arguments: Any, **options: Any) -> None:
        self._begin()
        self._child = False
        self._read_end = self._spare = -1
        self._descriptor = {"stdout": 1, "stderr": 2}[name]
        self._undecoded = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__(session, pub_thread, name, *arguments, **options)
        os.register_at_fork(after_in_child=self._begin_in_child)

    def write(self, string: str) -> int:
        """Publish text, in pieces; raises TypeError for anything else, as any text file does."""
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string).__name__}")
        self._drain()
        self._publish(string)
        return len(string)

    def flush(self) -> None:
        """Return when everything written so far has been handed to the socket.

        While a cell runs also when it has left the process, which may end in the next moment.
        """
        self._drain()
        if self._runs:
            super().flush()
            if ThreadParents.cell_runs and not self._child:
                wait_sent()

    def fileno(self) -> int:
        """A descriptor whose text is published too, for `subprocess` and the like."""
        if self._spare < 0:
            raise io.UnsupportedOperation("fileno")
        return self._spare

    def close(self) -> None:
        """Flush only: code that closes its stdout must not silence the code after it."""
        self.flush()

    def restore(self) -> None:
        """Undo what code may have done to the descriptor: closed it, or put another file in its place."""
        if self._spare < 0:
            return
        try:
            ours = os.path.sameopenfile(self._descriptor, self._spare)
        except OSError:
            ours = False
        if not ours:
            os.dup2(self._spare, self._descriptor)

    def _begin(self) -> None:
        self._runs: list[tuple[dict[str, Any], list[str]]] = []
        self._characters = 0
        self._runs_lock = threading.RLock()
        self._pipe_lock = threading.RLock()

    def _begin_in_child(self) -> None:
        """What a forked process inherits is its parent's to publish, and its locks have no owner any more."""
        self._begin()
        self._child = True

    def _setup_stream_redirects(self, name: str) -> None:
        """Put a pipe in the descriptor's place and keep its write end, so that closing one is not the end.

        Called by the constructor.
        """
        self._original_stdstream_fd = self._descriptor
        self._original_stdstream_copy = os.dup(self._descriptor)
        self._read_end, self._spare = os.pipe()
        os.dup2(self._spare, self._descriptor)
        self.watch_fd_thread = threading.Thread(target=self._watch_pipe_fd, name=f"watch {name}", daemon=True)
        self.watch_fd_thread.start()

    def _watch_pipe_fd(self) -> None:
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        while True:
            poll.poll()
            self._drain()

    def _drain(self) -> None:
        """Publish what waits in the pipe, in whichever thread comes first; never in the publishing thread itself."""
        if self._read_end < 0 or self._child or threading.get_ident() == self.pub_thread.thread.ident:
            return
        with self._pipe_lock:
            while size := self._count_piped_bytes():
                data = os.read(self._read_end, min(size, PIECE_CHARACTERS))
                self._publish(self._undecoded.decode(data))

    def _count_piped_bytes(self) -> int:
        return int.from_bytes(fcntl.ioctl(self._read_end, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)

    def _publish(self, text: str) -> None:
        if not text.isascii():  # half a surrogate pair: no message can carry it
            text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), PIECE_CHARACTERS):
            self._append(text[start : start + PIECE_CHARACTERS])
        if self._child and "\n" in text:
            # Whole lines, as at a terminal: `print` writes the end of a line by itself, and others print in between.
            self._flush()

    def _append(self, piece: str) -> None:
        """Keep text until the next flush, which is now when there is enough for a message."""
        if self._characters + len(piece) > PIECE_CHARACTERS:
            super().flush()
        parent = self.parent_header
        with self._runs_lock:
            if not self._runs or self._runs[-1][0] is not parent:
                self._runs.append((parent, []))
            self._runs[-1][1].append(piece)
            self._characters += len(piece)
        if not self._child:
            self._schedule_flush()

    def _flush(self) -> None:
        """Send what is kept; called in the publishing thread, or in a forked process, which has none."""
        with self._runs_lock:
            # What waits may be a flush for text that follows this one: all goes with it, or later than what waits.
            waits = self.pub_thread.has_waiting()
            if not waits:
                self._flush_pending = False
                runs, self._runs, self._characters = self._runs, [], 0
        if waits:
            self.pub_thread.schedule(self._flush)
            return
        with self.pub_thread.in_turn():
            for parent, pieces in runs:
                self.session.pid = os.getpid()  # the session refuses to send in a fork, the publishing thread can
                message = self.session.msg("stream", {"name": self.name, "text": "".join(pieces)}, parent=parent)
                for hook in self._hooks:
                    if (message := hook(message)) is None:
                        break
                else:
                    self.session.send(self.pub_thread, message, ident=self.topic)


class Publisher(IOPubThread):
    """ipykernel's publishing thread; who publishes faster than it can send waits, be it text or images."""

    _in_turn = False
    """Whether it does what it was asked to do, one after another."""

    def _setup_pipe_in(self) -> None:
        """Listen for what forked children print: on a Unix socket, since gVisor cannot save a TCP socket in use."""
        context, self._pipe_uuid = self.socket.context, os.urandom(16)
        self._pipe_address = f"ipc://@{os.urandom(16).hex()}"  # of the sandbox's network namespace, in no directory
        listener = context.socket(zmq.PULL)
        listener.linger = 0
        listener.bind(self._pipe_address)
        self._pipe_in = ZMQStream(listener, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> Any:
        """Connect a child to that; called in it."""
        context = zmq.Context()
        sender = context.socket(zmq.PUSH)
        sender.linger = CHILD_LINGER_MILLISECONDS
        sender.connect(self._pipe_address)
        return context, sender

    def _handle_event(self, message: Any) -> None:
        with self.in_turn():
            super()._handle_event(message)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """What its own thread sends meanwhile goes at once, whatever waits by then."""
        before, self._in_turn = self._in_turn, True
        try:
            yield
        finally:
            self._in_turn = before

    def has_waiting(self) -> bool:
        """Whether its own thread, which does not do what it was asked to, is to let that go first.

        So a flush that nobody asked for, but time, waits its turn: what was displayed before comes first.
        """
        return threading.get_ident() == self.thread.ident and not self._in_turn and bool(self._events)

    def send_multipart(self, *arguments: Any, **options: Any) -> None:
        """Hand a message over; called in any thread.

        ipykernel would put what its own thread sends behind all that waits there, and so behind the end of the flush
        that it is of.
        """
        ours = threading.get_ident() == self.thread.ident
        if ours and not self.has_waiting():
            self._really_send(*arguments, **options)
            return
        super().send_multipart(*arguments, **options)
        if not ours and len(self._events) > SEND_MESSAGES and self.thread.is_alive():
            sent = threading.Event()
            self.schedule(sent.set)
            sent.wait()


senders: list[str] = []
"""Where the states of ZMQ's own threads are shown."""


def find_senders() -> None:
    """Called once, when the kernel has its sockets and code has none yet."""
    with suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/comm") as name:
                if name.read().startswith(SENDER):
                    senders.append(f"/proc/self/task/{task}/stat")


def wait_sent() -> None:
    """Wait until ZMQ's own threads sleep: then they have written what they were handed, as far as the reader took it.

    Handing something over wakes such a thread before that returns, and it sleeps again when there is nothing to write.
    gVisor shows it as awake a moment later: there some text may still be lost.
    """
    until = time.monotonic() + SENT_SECONDS
    for place in senders:
        with suppress(OSError, ValueError, IndexError):
            while _runs(place) and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)


def _runs(place: str) -> bool:
    with open(place, "rb", buffering=0) as file:
        said = file.read(400)
    return said[said.rindex(b")") + 2] != ord("S")


class Displays(ThreadParents, ZMQDisplayPublisher):
    """What `display` publishes with."""


def remember_starts(publisher: ThreadParents) -> None:
    """Have each thread know the request under which it was started, as `publisher` has it."""
    start = threading.Thread.start

    @functools.wraps(start)
    def remembering(thread: threading.Thread) -> None:
        setattr(thread, STARTED_UNDER, publisher.parent_header)
        start(thread)

    threading.Thread.start = remembering  # type: ignore[method-assign, assignment]
