"""A TCP proxy before a real server that can refuse, cut, tear, stall or crawl: what an outage is to a client."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["none", "refuse", "cut", "tear", "stall"]
TORN_BYTES = 100_000
SLOW_PIECE_BYTES = 1_000


class FaultyProxy:
    """`fault` may be set at any time, and `bytes_per_second`, which each direction of a connection has at most.

    `refuse` closes at once, `cut` within a request, `tear` within a long answer, `stall` says nothing more.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._server = (parts.hostname or "", parts.port or 0)
        self.fault: Fault = "none"
        self.bytes_per_second = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(120)

    def drop(self) -> None:
        """Cut every connection there is."""
        with self._guard:
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.fault == "refuse":
                client.close()
                continue
            server = socket.create_connection(self._server)
            with self._guard:
                self._sockets |= {client, server}
            done = threading.Barrier(2, action=lambda a=client, b=server: self._forget(a, b))  # type: ignore[misc]
            for source, target, answer in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pump, args=(source, target, answer, done))
                thread.start()
                self._threads.append(thread)

    def _forget(self, *ended: socket.socket) -> None:
        with self._guard:
            for one in ended:
                self._sockets.discard(one)
                one.close()

    def _pump(self, source: socket.socket, target: socket.socket, answer: bool, done: threading.Barrier) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(SLOW_PIECE_BYTES if self.bytes_per_second else 1 << 16):
                if self.bytes_per_second:
                    time.sleep(len(piece) / self.bytes_per_second)
                if self.fault == "refuse":
                    break
                if self.fault == "stall":
                    continue
                if self.fault == "cut" and not answer:
                    target.sendall(piece[: len(piece) // 2])
                    break
                passed += len(piece)
                if self.fault == "tear" and answer and passed > TORN_BYTES:
                    break
                target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        done.wait(120)
