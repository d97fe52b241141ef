"""An S3 server that does what none can be made to do: redirects, quotes keys in errors, breaks off, answers late."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType

Answer = Callable[[bytes], bytes]
"""From a request's head to everything that is sent; the connection is closed after it."""


class ScriptedS3:
    """Answers every request by one function; `heads` are those that came."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.heads: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> ScriptedS3:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join(120)

    @property
    def endpoint(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(120)
        try:
            connection = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
        except OSError:
            plain.close()
            return
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            self.heads.append(head)
            connection.sendall(self._answer(head))


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """An HTTP answer, which says that it is the connection's last."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return head.encode() + body
