"""The order of what a kernel's code puts out, whatever its own thread and that of the code do at the same moment."""

# mypy: allow-untyped-calls

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session

from kernels.guest.in_kernel.kernel_output import BoundedStream, Publisher

SECONDS = 30.0


class Output:
    """A stream that no time flushes, and the other end of its socket."""

    def __init__(self) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        sender, self._taken = self._context.socket(zmq.PUSH), self._context.socket(zmq.PULL)
        self._taken.bind("inproc://output")
        sender.connect("inproc://output")
        self._taken.rcvtimeo = int(SECONDS * 1000)
        self.publisher: Any = Publisher(sender)
        self.session: Any = Session(key=b"")
        self.stream: Any = BoundedStream(self.session, self.publisher, "stdout", watchfd=False)
        self.stream.parent_header = {}
        self.stream.flush_interval = 1000
        self.publisher.start()

    def flush_as_time_does(self) -> None:
        """Soon, in the publisher's thread, which nobody waits for."""
        self.publisher.io_loop.add_callback(self.stream._flush)

    def take(self) -> Any:
        """What comes next: the text of a stream, or what was displayed."""
        parts = self._taken.recv_multipart()
        if len(parts) == 1:
            return parts[0].decode()
        return self.session.deserialize(self.session.feed_identities(parts)[1])["content"]["text"]

    def close(self) -> None:
        self.publisher.stop()
        self.publisher.close()
        self._context.destroy(linger=0)


@pytest.fixture
def output() -> Iterator[Output]:
    made = Output()
    yield made
    made.close()


def test_text_that_time_flushes_comes_before_text_that_is_flushed_meanwhile(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, building, written = output.session.msg, threading.Event(), threading.Event()

    def build_late(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        building.set()
        assert written.wait(SECONDS)
        return build(*arguments, **options)

    monkeypatch.setattr(output.session, "msg", build_late)
    output.stream.write("1")
    output.flush_as_time_does()
    assert building.wait(SECONDS)
    output.stream.write("\n")
    output.publisher.schedule(output.stream._flush)  # as `flush` does, which waits for it
    written.set()
    assert [output.take(), output.take()] == ["1", "\n"]


def test_text_that_time_flushes_comes_after_what_was_displayed_before(output: Output) -> None:
    busy, shown = threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        assert shown.wait(SECONDS)

    output.publisher.io_loop.add_callback(wait)
    assert busy.wait(SECONDS)
    output.publisher.send_multipart([b"a picture"])
    output.stream.write("below it")
    output.flush_as_time_does()
    shown.set()
    assert [output.take(), output.take()] == ["a picture", "below it"]
