"""The process that runs user code: ipykernel, with output that is bounded and survives what code does to it.

Started inside the sandbox by the environment's own Python as `kernel_main.py -f CONNECTION_FILE`. Needs the standard
library and ipykernel 6 or newer, and nothing of ours.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios
import threading
from typing import Any

import zmq
from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core.error import StdinNotImplementedError

PIECE_CHARACTERS = 65_536
"""A message never carries more text than this, and no stream holds more that has not been handed to its socket."""

SEND_MESSAGES = 32
"""Published messages that wait for a slow reader; then whoever writes waits."""

NO_INPUT = (
    "input is not available: this code runs without a person at a keyboard. Put the value into the code, or read it"
    " from a file in the workspace"
)


class BoundedStream(OutStream):
    """`sys.stdout` or `sys.stderr`, and what is written to their descriptors, as messages of bounded size.

    A writer waits until its text is handed to the socket, and the socket waits for its reader. Text that went to the
    descriptor before (by a subprocess) is published before text that is written now.
    """

    flush_timeout = 24 * 3600

    def __init__(self, session: Any, pub_thread: Any, name: str, *arguments: Any, **options: Any) -> None:
        self._waiting = 0
        self._pipe_lock = threading.RLock()
        self._pending = b""
        self._owner = os.getpid()
        self._read_end = -1
        super().__init__(session, pub_thread, name, *arguments, **options)

    def write(self, string: str) -> int:
        """Publish text, in pieces; raises TypeError for anything else, as any text file does."""
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string).__name__}")
        self._drain()
        self._publish(string)
        return len(string)

    def flush(self) -> None:
        """Return when everything written so far has been handed to the socket."""
        self._drain()
        self._waiting = 0
        super().flush()

    def close(self) -> None:
        """Flush only: code that closes its stdout must not silence the code after it."""
        self.flush()

    def restore(self) -> None:
        """Undo what code may have done to the descriptor: closed it, or put another file in its place."""
        try:
            ours = os.path.sameopenfile(self._descriptor, self._spare)
        except OSError:
            ours = False
        if not ours:
            os.dup2(self._spare, self._descriptor)

    def _setup_stream_redirects(self, name: str) -> None:
        """Put a pipe in the descriptor's place and keep its write end, so that closing one is not the end."""
        self._descriptor = {"stdout": 1, "stderr": 2}[name]
        self._original_stdstream_fd = self._descriptor
        self._original_stdstream_copy = os.dup(self._descriptor)
        self._read_end, self._spare = os.pipe()
        os.dup2(self._spare, self._descriptor)
        self._exc = None
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
        if self._read_end < 0 or os.getpid() != self._owner or threading.current_thread() is self.pub_thread.thread:
            return
        with self._pipe_lock:
            while size := self._piped_bytes():
                self._publish(self._decoded(os.read(self._read_end, min(size, PIECE_CHARACTERS))))

    def _piped_bytes(self) -> int:
        return int(struct.unpack("i", fcntl.ioctl(self._read_end, termios.FIONREAD, bytes(4)))[0])

    def _decoded(self, data: bytes) -> str:
        """Text of the pipe; a character whose end has not come yet waits for it."""
        data = self._pending + data
        cut = len(data)
        for back in range(1, min(4, len(data)) + 1):
            first = data[-back]
            if first >= 0xC0:
                expected = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
                cut = len(data) - back if expected > back else len(data)
                break
            if first < 0x80:
                break
        self._pending = data[cut:]
        return data[:cut].decode(errors="replace")

    def _publish(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: no message can carry it
            text = text.encode("utf-8", "replace").decode()
        for start in range(0, len(text), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            if self._waiting + len(piece) > PIECE_CHARACTERS:
                self._waiting = 0
                super().flush()
            super().write(piece)
            self._waiting += len(piece)


class Kernel(IPythonKernel):
    """IPython's kernel; each execution starts with streams that work, and asking for input gets a sentence."""

    def _restore_streams(self) -> None:
        for name, stream in streams.items():
            stream.restore()
            setattr(sys, name, stream)

    async def do_execute(self, *arguments: Any, **options: Any) -> Any:
        """Run a cell; called by ipykernel for each execute request."""
        self._restore_streams()
        try:
            return await super().do_execute(*arguments, **options)
        finally:
            self._restore_streams()

    def raw_input(self, prompt: str = "") -> str:
        """What `input` is while code runs."""
        if not self._allow_stdin:
            raise StdinNotImplementedError(NO_INPUT)
        return str(super().raw_input(prompt))

    def getpass(self, *arguments: Any, **options: Any) -> str:
        """What `getpass.getpass` is while code runs."""
        if not self._allow_stdin:
            raise StdinNotImplementedError(NO_INPUT)
        return str(super().getpass(*arguments, **options))


streams: dict[str, BoundedStream] = {}


class KernelApp(IPKernelApp):
    """ipykernel's application, publishing without loss: a full queue makes the writer wait and drops nothing.

    A message for which nobody has subscribed is gone at once, so nobody waits for a reader that is not there.
    """

    def _try_bind_socket(self, s: Any, port: int) -> int:
        if s.type in (zmq.PUB, zmq.XPUB):
            s.sndhwm = SEND_MESSAGES
            s.setsockopt(zmq.XPUB_NODROP, 1)
        return int(super()._try_bind_socket(s, port))

    def init_io(self) -> None:
        """Called by `initialize` when the publishing thread runs."""
        super().init_io()
        for name in ("stdout", "stderr"):
            if isinstance(stream := getattr(sys, name), BoundedStream):
                streams[name] = stream


def make_stream(*arguments: Any, **options: Any) -> BoundedStream:
    """The application's `outstream_class`, named by where it is found."""
    return BoundedStream(*arguments, **options)


def main() -> None:
    """Run the kernel until it is told to end."""
    app = KernelApp.instance(kernel_class=Kernel, outstream_class="__main__.make_stream", log_level=50)
    app.config.HistoryManager.hist_file = ":memory:"
    app.initialize(sys.argv[1:])
    app.start()


if __name__ == "__main__":
    main()
