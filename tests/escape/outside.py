"""What checks use to look at a session from outside: its routes, the store on disk, the memory of the service."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.escape.position import Scene
from workspace_sync.entry import Entry
from workspace_sync.manifest import MANIFEST_NAME, decode_manifest

PATIENCE_SECONDS = 120.0
MEGABYTE = 1024 * 1024


class Routes:
    """The session's routes, answers taken as they come: a refusal is an answer."""

    def __init__(self, scene: Scene) -> None:
        service = scene.position.service
        self._session = f"/v1/sessions/{scene.session.id}"
        self._http = httpx.Client(
            base_url=service.url,
            headers={"Authorization": f"Bearer {service.token}", "Accept-Encoding": "identity"},
            timeout=120,
        )

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, address: str, **more: Any) -> httpx.Response:
        """A request to an address below the session's, or to one that starts with `/`."""
        return self._http.request(method, address if address.startswith("/") else f"{self._session}/{address}", **more)

    def stream(self, address: str, content: bytes, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]:
        """A request whose answer is read while it comes."""
        return self._http.stream("POST", address, content=content, headers=headers)

    def file(self, method: str, path: str | bytes, **more: Any) -> httpx.Response:
        return self.ask(method, f"files/{quote(path, safe='/')}", **more)

    def listing(self, path: str = "", *, recursive: bool = False) -> httpx.Response:
        return self.ask("GET", "files", params={"path": path, "recursive": str(recursive).lower(), "limit": 1000})


@contextmanager
def routes(scene: Scene) -> Iterator[Routes]:
    """The session's routes, closed at the end."""
    opened = Routes(scene)
    try:
        yield opened
    finally:
        opened.close()


@dataclass(frozen=True)
class Durable:
    """What the store holds of a workspace: objects by key, entries of its manifest by path, what the mirror says."""

    objects: dict[str, Path]
    entries: dict[bytes, Entry]
    error: str | None

    def holds(self, secret: str) -> list[str]:
        """Keys of the objects with this text in them."""
        return [key for key, path in self.objects.items() if secret.encode() in path.read_bytes()[:MEGABYTE]]


def durable(scene: Scene, workspace_id: str = "") -> Durable:
    """The store once the mirror has nothing to do any more; no object of the service lies outside of a workspace."""
    error = flushed(scene)
    home = store_of(scene, workspace_id or scene.session.info.workspace_id)
    objects = {os.fsdecode(path.relative_to(home)): path for path in home.rglob("*") if not path.is_dir()}
    assert all(path.is_file() and not path.is_symlink() for path in objects.values())
    manifest = decode_manifest((home / MANIFEST_NAME).read_bytes())
    assert manifest.skipped == ()
    return Durable(objects, manifest.entries, error)


def store_of(scene: Scene, workspace_id: str) -> Path:
    """Where a workspace lies in the local store."""
    data = scene.position.service.data_dir
    (store,) = [each for each in (data / "store", data / "state" / "store") if each.exists()]
    return store / "workspaces" / "sessions" / workspace_id


def flushed(scene: Scene) -> str | None:
    """Wait until all that was asked of the mirror is done; what it has to complain of."""
    assert scene.session.run("pass").ok  # each execution asks for a flush of what is there after it
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        sync = scene.session.refresh().sync
        if not sync.pending:
            return sync.error
        time.sleep(0.05)
    raise AssertionError(f"the mirror does not go on: {sync}")


def restarted(scene: Scene) -> None:
    """Have a new kernel in the session, whatever the old one was; the next attempt finds it ready."""
    scene.session.restart()
    scene.position.forget()


def service_bytes(scene: Scene) -> int:
    """Memory of the service's processes, at their peak since they began."""
    pid = scene.position.service.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    peaks = [_status(one, "VmHWM") for one in (str(pid), *children)]
    return sum(peaks) * 1024


def while_attacked(scene: Scene, call: Callable[[], object], seconds: float) -> None:
    """Call again and again for a time, the neighbour answering in between."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        call()
        scene.neighbour.unharmed()


def _status(pid: str, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))
