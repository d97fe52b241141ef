"""A web site on loopback in place of the internet: answers every GET with the path that was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADDRESS = "127.0.0.2"
"""A loopback address that `NO_PROXY` inside a sandbox does not name."""


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"you asked for {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def loopback_site() -> Iterator[int]:
    """Its port at `ADDRESS`."""
    with ThreadingHTTPServer((ADDRESS, 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(120)
