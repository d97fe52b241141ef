"""A package index (PEP 503, 691) of tiny wheels on loopback, which wants a name and a password and notes visits."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME, PASSWORD = "operator", "p@ss:word"
ADDRESS = "127.0.0.1"


@dataclass
class PackageIndex:
    """What it serves: by package, files and what the page says of their hashes; `visits` are paths that were asked."""

    port: int = 0
    json_pages: bool = True
    broken: bool = False
    packages: dict[str, dict[str, bytes]] = field(default_factory=dict)
    wrong_hashes: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)
    visits: list[str] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    """Cleared, no request is answered until it is set again."""

    def __post_init__(self) -> None:
        self.held.set()

    @property
    def url(self) -> str:
        """The index as an operator declares it, with what it asks for."""
        return f"http://{NAME}:p%40ss%3Aword@{ADDRESS}:{self.port}/root/simple/"

    def add(self, name: str, version: str = "1.0", **modules: str) -> str:
        """Add a wheel of some modules; its file's name."""
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        self.packages.setdefault(name, {})[file] = make_wheel(
            name, version, {f"{module}.py": text.encode() for module, text in modules.items()}
        )
        return file

    def add_installed(self, name: str) -> None:
        """Add a package as it is installed beside the tests."""
        found = importlib.metadata.distribution(name)
        info = f"{name}-{found.version}"
        content = {str(each): each.locate().read_bytes() for each in found.files or () if ".." not in str(each)}
        scripts = [each for each in found.files or () if "/bin/" in str(each)]
        content |= {f"{info}.data/scripts/{each.name}": each.locate().read_bytes() for each in scripts}
        kept = {path: data for path, data in content.items() if ".dist-info/" not in path}
        self.packages[name] = {f"{info}-py3-none-any.whl": make_wheel(name, found.version, kept)}

    def page(self, name: str) -> tuple[str, bytes]:
        """Content type and page."""
        listed = {file: self._digest(file, data) for file, data in self.packages[name].items()}
        address = {file: self.elsewhere.get(file, f"../../files/{name}/{file}") for file in listed}
        if self.json_pages:
            files = [{"filename": each, "url": address[each], "hashes": {"sha256": listed[each]}} for each in listed]
            return "application/vnd.pypi.simple.v1+json", json.dumps({"name": name, "files": files}).encode()
        links = [f'<a href="{address[each]}#sha256={listed[each]}">{each}</a>' for each in listed]
        return "text/html; charset=utf-8", "".join(links).encode()

    def _digest(self, file: str, data: bytes) -> str:
        return hashlib.sha256(data + b"!" * (file in self.wrong_hashes)).hexdigest()


def make_wheel(name: str, version: str, files: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A wheel of these files."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    content[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path, data in content.items():
            member = zipfile.ZipInfo(path)
            member.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            archive.writestr(member, data, compression)
    return written.getvalue()


@contextmanager
def package_index() -> Iterator[PackageIndex]:
    """One that listens until the block ends."""
    index = PackageIndex()
    with ThreadingHTTPServer((ADDRESS, 0), _handler(index)) as server:
        server.daemon_threads = True
        index.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield index
        finally:
            index.held.set()
            server.shutdown()
            thread.join(120)


def _handler(index: PackageIndex) -> type[BaseHTTPRequestHandler]:
    expected = f"Basic {base64.b64encode(f'{NAME}:{PASSWORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            index.visits.append(self.path)
            index.held.wait(300)
            words = self.path.removeprefix("/root/").strip("/").split("/")
            if self.headers.get("Authorization") != expected:
                return self._say(401, "text/plain", b"who are you?")
            if index.broken:
                return self._say(503, "text/plain", b"not now")
            match words:
                case ["simple", name] if name in index.packages:
                    return self._say(200, *index.page(name))
                case ["moved", name]:
                    return self._say(302, "text/plain", b"", Location=f"/root/simple/{name}/")
                case ["files", name, file] if file in index.packages.get(name, {}):
                    return self._say(200, "application/octet-stream", index.packages[name][file])
            return self._say(404, "text/plain", b"nothing here")

        def _say(self, status: int, kind: str, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    return Handler
