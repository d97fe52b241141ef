"""A source of Debian packages on loopback, unsigned, with small packages that `dpkg-deb` made."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1"
CODENAME = "bookworm"


@dataclass
class DebianMirror:
    """`directory` is served, the source below its `debian`."""

    directory: Path
    port: int = 0

    @property
    def source(self) -> str:
        """As the setting `apt_sources` has it."""
        return f"[trusted=yes] http://{ADDRESS}:{self.port}/debian {{codename}} main"

    def add(self, name: str, files: Mapping[str, str], *, links: Mapping[str, str], scripts: Mapping[str, str]) -> None:
        """Add a package of these files, links and scripts, for every architecture; files in `bin` are programs."""
        tree = self.directory / "trees" / name
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
            (tree / path).chmod(0o4755 if "/bin/" in path else 0o644)
        for path, target in links.items():
            (tree / path).symlink_to(target)
        (tree / "DEBIAN").mkdir()
        control = f"Package: {name}\nVersion: 1.0-1\nArchitecture: all\nMaintainer: nobody\nDescription: a sample\n"
        (tree / "DEBIAN/control").write_text(control)
        for script, text in scripts.items():
            (tree / "DEBIAN" / script).write_text(f"#!/bin/sh\nset -e\n{text}\n")
            (tree / "DEBIAN" / script).chmod(0o755)
        pool = self.directory / "debian/pool"
        pool.mkdir(parents=True, exist_ok=True)
        file = pool / f"{name}_1.0-1_all.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(file)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        self._list(control, file)

    def _list(self, control: str, file: Path) -> None:
        """Put a package into the index, and the index into the release."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        release = self.directory / "debian/dists" / CODENAME
        index = release / f"main/binary-{machine}/Packages"
        index.parent.mkdir(parents=True, exist_ok=True)
        content = file.read_bytes()
        place = f"Filename: pool/{file.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
        with index.open("a") as listed:
            listed.write(f"{control}{place}\n")
        whole = index.read_bytes()
        (release / "Release").write_text(
            f"Suite: {CODENAME}\nCodename: {CODENAME}\nArchitectures: {machine}\nComponents: main\n"
            f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n"
            f" {hashlib.sha256(whole).hexdigest()} {len(whole)} {index.relative_to(release)}\n"
        )


@contextmanager
def debian_mirror(directory: Path) -> Iterator[DebianMirror]:
    """One that listens until the block ends."""
    mirror = DebianMirror(directory)
    with ThreadingHTTPServer((ADDRESS, 0), functools.partial(_Quiet, directory=str(directory))) as server:
        server.daemon_threads = True
        mirror.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield mirror
        finally:
            server.shutdown()
            thread.join(120)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...
