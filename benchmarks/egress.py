"""Requests and megabytes out of a sandbox, through guest and proxy, against the same program on the host without them.

Both speak in turn to the same server on this machine's loopback, which the operator's rules declare.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.running_service import RunningService

ADDRESS = "127.0.0.2"
MEGABYTE = bytes(1_000_000)
CLIENT = """
import http.client, json, time

def connection(server, proxy, way):
    if proxy is None or way == 'plain':
        return http.client.HTTPConnection(*(proxy or server), timeout=60)
    made = http.client.HTTPConnection(*proxy, timeout=60)
    made.set_tunnel(*server)
    return made

def seconds(server, proxy, way, path, body=None):
    begun = time.perf_counter()
    made = connection(server, proxy, way)
    target = f'http://{server[0]}:{server[1]}{path}' if proxy and way == 'plain' else path
    made.request('POST' if body else 'GET', target, body)
    answer = made.getresponse()
    assert answer.status == 200, (answer.status, answer.reason)
    while answer.read(65536):
        pass
    made.close()
    return time.perf_counter() - begun

def measure(server, proxy, requests, megabytes):
    found = {}
    for way in ('plain', 'tunnel'):
        found[way] = [seconds(server, proxy, way, '/') for _ in range(requests)]
        found[way + ' down'] = [seconds(server, proxy, way, f'/{megabytes}') / megabytes]
        found[way + ' up'] = [seconds(server, proxy, way, '/', bytes(megabytes * 1000000)) / megabytes]
    return json.dumps(found)
"""
WHAT = ("plain", "tunnel", "plain down", "plain up", "tunnel down", "tunnel up")


class Handler(BaseHTTPRequestHandler):
    """Takes any body; answers with as many megabytes as the path says."""

    def do_GET(self) -> None:
        left = int(self.headers.get("Content-Length", 0))
        while left:
            left -= len(self.rfile.read1(min(left, 1 << 16)))
        megabytes = int(self.path[1:] or 0)
        self.send_response(200)
        self.send_header("Content-Length", str(megabytes * len(MEGABYTE)))
        self.end_headers()
        for _ in range(megabytes):
            self.wfile.write(MEGABYTE)

    do_POST = do_GET  # noqa: N815 - http.server looks for this name

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving() -> Iterator[int]:
    with ThreadingHTTPServer((ADDRESS, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


def run(service: RunningService, environments_dir: Path, *, rounds: int = 10) -> str:
    megabytes, requests = (1, 3) if rounds < 10 else (30, 30)
    direct: dict[str, list[float]] = {what: [] for what in WHAT}
    through: dict[str, list[float]] = {what: [] for what in WHAT}
    with serving() as port:
        service.stop()
        file = service.data_dir / "environments.toml"
        file.write_text('[public]\nimage = "python"\nnetwork = "PUBLIC"\n')
        service.start(environments_file=file, egress_private=f"{ADDRESS}:{port}", egress_sent_bytes=10**12)
        with service.client() as client, client.session("public") as session:

            def call(proxy: tuple[str, int] | None) -> str:
                return f"{CLIENT}\nprint(measure({(ADDRESS, port)!r}, {proxy!r}, {requests}, {megabytes}))"

            for _ in range(rounds):
                here = subprocess.run([sys.executable, "-c", call(None)], capture_output=True, text=True, check=True)
                add(direct, here.stdout)
                there = session.run(call(("127.0.0.1", 3128)), timeout_seconds=120)
                assert there.ok, there.text
                add(through, there.stdout)
    return "; ".join(compared(what, direct[what], through[what]) for what in WHAT)


def add(found: dict[str, list[float]], printed: str) -> None:
    for what, seconds in json.loads(printed).items():
        found[what] += seconds


def compared(what: str, direct: list[float], through: list[float]) -> str:
    """The medians of both, in milliseconds, and how they compare."""
    one, other = statistics.median(direct) * 1000, statistics.median(through) * 1000
    unit = "a MB" if " " in what else "a request"
    return f"{what} {one:.2f} ms {unit} direct, {other:.2f} ms out of a sandbox ({other / one:.1f} times)"
