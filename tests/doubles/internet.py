"""An internet of the tests' own: public-looking addresses, a name server, web sites and a package index.

Two namespaces joined by a cable. `world` has every server, on every address, private and metadata addresses included,
so that a request that should not have left is seen to arrive. `house` is where the service runs: with a public address
of its own, a route to the world and its name server, and a server of its own that nobody should reach.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import re
import socket
import ssl
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import trustme

from tests.doubles.namespaces import Forward, Namespace
from tests.running_service import RunningService

HOUSE, HOUSE_6, HOUSE_PRIVATE = "81.2.69.10", "2a02:6b8::10", "10.77.0.1"
GATEWAY, GATEWAY_6 = "81.2.69.1", "2a02:6b8::1"
SITE, SITE_6 = "93.184.216.34", "2606:2800:220:1::34"
OTHER = "93.184.216.35"
NAME_SERVER = "93.184.216.53"
INDEX = "151.101.0.223"
METADATA, PRIVATE, CARRIER, UNIQUE_LOCAL = "169.254.169.254", "192.168.77.1", "100.64.0.9", "fd00:77::1"
WORLD = (
    SITE,
    SITE_6,
    OTHER,
    NAME_SERVER,
    INDEX,
    METADATA,
    PRIVATE,
    CARRIER,
    UNIQUE_LOCAL,
    "10.99.0.1",
    "fd00:ec2::254",
)
PORTS = (80, 8080)
PACKAGE = "sandcell-sample"

NAMES: dict[str, list[list[str]]] = {
    "site.example": [[SITE]],
    "www.site.example": [[SITE]],
    "other.example": [[OTHER]],
    "six.example": [[SITE_6]],
    "pypi.org": [[INDEX]],
    "files.pythonhosted.org": [[INDEX]],
    "metadata.example": [[METADATA]],
    "metadata.google.internal": [[METADATA]],
    "private.example": [[PRIVATE]],
    "carrier.example": [[CARRIER]],
    "local6.example": [[UNIQUE_LOCAL]],
    "loopback.example": [["127.0.0.1"]],
    "loopback6.example": [["::1"]],
    "house.example": [[HOUSE]],
    "house6.example": [[HOUSE_6]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "rebinding.example": [[SITE], ["127.0.0.1"], [METADATA], [HOUSE]],
    "mirror.internal": [[PRIVATE]],
}
"""The answers to each name, one after another; the last one stays."""


@dataclass(frozen=True)
class Visit:
    """A request that arrived: at which address, for which Host."""

    address: str
    host: str
    method: str
    path: str
    headers: Mapping[str, str] = field(compare=False)


class Internet:
    """Open from when it is made until `close`.

    `visits` and `looked_up` are what arrived at its servers, `connected` how many connections they have now.
    """

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.looked_up: list[str] = []
        self.connected = 0
        self.names = {name: [list(answer) for answer in answers] for name, answers in NAMES.items()}
        self.authority = trustme.CA()
        with contextlib.ExitStack() as undo:
            self._undo = undo
            self.directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="scnet", dir="/tmp")))
            self.directory.chmod(0o755)
            self.world = undo.enter_context(contextlib.closing(Namespace("world")))
            self.house = undo.enter_context(contextlib.closing(Namespace("house")))
            self._connect()
            self._serve_names()
            for namespace, port in [(self.world, port) for port in PORTS] + [(self.house, 8080)]:
                self._serve_site(namespace, port)
            self._serve_site(self.world, 443, self._context())
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._undo.close()

    def service(self, data_dir: Path, settings: Mapping[str, object]) -> ServiceInHouse:
        """A service that will run in the house; `start` it."""
        return ServiceInHouse(self, data_dir, settings)

    def reached(self) -> set[str]:
        """The addresses that anything arrived at."""
        return {visit.address for visit in self.visits}

    def clear(self) -> None:
        """Forget what arrived."""
        self.visits.clear()
        self.looked_up.clear()

    def place(self) -> list[str]:
        """The command that starts another one in the house, with its name server, and becomes it."""
        resolver = self.directory / "resolv.conf"
        resolver.write_text(f"nameserver {NAME_SERVER}\noptions timeout:2 attempts:2\n")
        mounts = f"mount --make-rprivate / && mount --bind {resolver} /etc/resolv.conf && mount --make-rshared /"
        script = f'{mounts} && exec "$@"'
        return ["nsenter", f"--net={self.house.path}", "unshare", "--mount", "sh", "-c", script, "sh"]

    def _connect(self) -> None:
        self.world.ip(f"link add cable type veth peer name cable netns {self.house.name}")
        self.world.ip(
            f"addr add {GATEWAY}/24 dev cable",
            f"addr add {GATEWAY_6}/64 dev cable nodad",
            "link set cable up",
            *(f"addr add {one} dev lo{' nodad' if ':' in one else ''}" for one in WORLD),
        )
        self.house.ip(
            f"addr add {HOUSE}/24 dev cable",
            f"addr add {HOUSE_6}/64 dev cable nodad",
            f"addr add {HOUSE_PRIVATE}/24 dev cable",
            "link set cable up",
            f"route add default via {GATEWAY}",
            f"route add default via {GATEWAY_6}",
        )

    def _serve_names(self) -> None:
        def bind() -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((NAME_SERVER, 53))
            return made

        server = self.world.within(bind)

        def serve() -> None:
            while True:
                question, client = server.recvfrom(4096)
                if not question:
                    return server.close()
                server.sendto(self._answer(question), client)

        def stop() -> None:
            with self.world.within(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as last:
                last.sendto(b"", (NAME_SERVER, 53))
            thread.join(120)

        thread = threading.Thread(target=serve)
        thread.start()
        self._undo.callback(stop)

    def _answer(self, wire: bytes) -> bytes:
        question = dns.message.from_wire(wire)
        asked = question.question[0]
        name = asked.name.to_text(omit_final_dot=True).lower()
        answer = dns.message.make_response(question)
        answers = self.names.get(name)
        if answers is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
            return answer.to_wire()
        if asked.rdtype == dns.rdatatype.A:
            self.looked_up.append(name)
        # A resolver asks for both kinds of address: the turn passes with the second question, for AAAA.
        now = answers.pop(0) if len(answers) > 1 and asked.rdtype == dns.rdatatype.AAAA else answers[0]
        kind = "AAAA" if asked.rdtype == dns.rdatatype.AAAA else "A"
        fitting = [one for one in now if (":" in one) == (kind == "AAAA")]
        if fitting:
            answer.answer.append(dns.rrset.from_text(asked.name, 0, "IN", kind, *fitting))
        return answer.to_wire()

    def _context(self) -> ssl.SSLContext:
        names = [*NAMES, SITE, METADATA, PRIVATE, HOUSE]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(*names).configure_cert(context)
        return context

    def _serve_site(self, namespace: Namespace, port: int, context: ssl.SSLContext | None = None) -> None:
        server = ThreadingHTTPServer(("", 0), _site(self), bind_and_activate=False)
        server.socket.close()
        server.daemon_threads = True
        server.socket = namespace.within(
            lambda: socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        )
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join(120)
            server.server_close()

        self._undo.callback(stop)


class ServiceInHouse(RunningService):
    """The service in the house's namespace; `url` leads there from here."""

    def __init__(self, internet: Internet, data_dir: Path, settings: Mapping[str, object]) -> None:
        super().__init__(data_dir, settings, place=internet.place())
        self._internet = internet
        self._forward: Forward | None = None

    def start(self, deadline_seconds: float = 120, **settings: object) -> None:
        super().start(deadline_seconds, **settings)
        self._forward = Forward(self._internet.house, urlsplit(self.url).port or 0)
        self.url = f"http://127.0.0.1:{self._forward.port}"

    def stop(self, deadline_seconds: float = 120) -> int | None:
        if self._forward:
            self._forward.close()
            self._forward = None
        return super().stop(deadline_seconds)


def _site(internet: Internet) -> type[BaseHTTPRequestHandler]:
    """What every web server of this internet answers."""

    class Site(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def handle(self) -> None:
            internet.connected += 1
            try:
                super().handle()
            except OSError:
                self.close_connection = True
            finally:
                internet.connected -= 1

        def do_GET(self) -> None:
            address = self.connection.getsockname()[0].removeprefix("::ffff:")
            host = self.headers.get("Host", "")
            internet.visits.append(Visit(address, host, self.command, self.path, dict(self.headers)))
            length = int(self.headers.get("Content-Length", 0))
            sent = self.rfile.read(length)
            asked = urlsplit(self.path)
            to = parse_qs(asked.query).get("to")
            if to:
                return self._say(302, b"", Location=to[0])
            if found := re.fullmatch(r"/bytes/(\d+)", asked.path):
                return self._say(200, bytes(int(found[1])))
            if asked.path.startswith(f"/simple/{PACKAGE}"):
                return self._say(200, index_page().encode(), **{"Content-Type": "text/html"})
            if asked.path.endswith(".whl"):
                return self._say(200, wheel())
            return self._say(200, f"{address} says hello to {host}: {self.command} {self.path} {sent!r}".encode())

        do_POST = do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815 - http.server looks for these names

        def _say(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    return Site


def wheel() -> bytes:
    """A package of one module and nothing else: `sandcell_sample.GREETING`."""
    name, version = PACKAGE.replace("-", "_"), "1.0"
    files = {
        f"{name}.py": 'GREETING = "installed"\n',
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{name}-{version}.dist-info/RECORD"] = record + f"{name}-{version}.dist-info/RECORD,,\n"
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return written.getvalue()


def index_page() -> str:
    """The package's page, as package indexes make it (PEP 503)."""
    file = f"{PACKAGE.replace('-', '_')}-1.0-py3-none-any.whl"
    digest = hashlib.sha256(wheel()).hexdigest()
    return f'<!DOCTYPE html><a href="https://files.pythonhosted.org/{file}#sha256={digest}">{file}</a>'


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
