"""A server that notes who asks it for anything, and serves pages of the tests' own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.testing import bind_unused_port


class Canary:
    """`pages` are served by path on 127.0.0.1; what asks for anything else is in `heard`, as host and path."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.pages: dict[str, bytes] = {}
        self.heard: list[str] = []

    def __call__(self, request: HTTPServerRequest) -> None:
        own = request.host_name == "127.0.0.1"
        content = self.pages.get(request.path) if own else None
        if content is None and not (own and request.path == "/favicon.ico"):
            self.heard.append(f"{request.host}{request.uri}")
        assert request.connection is not None
        start = ResponseStartLine("HTTP/1.1", 404 if content is None else 200, "")
        headers = HTTPHeaders({"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(content or b""))})
        request.connection.write_headers(start, headers, content or b"")
        request.connection.finish()


@contextlib.contextmanager
def listening() -> Iterator[Canary]:
    """One on a free port of this host."""
    socket, port = bind_unused_port()
    canary = Canary(port)
    server = HTTPServer(canary)
    server.add_socket(socket)
    try:
        yield canary
    finally:
        server.stop()
