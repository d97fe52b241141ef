"""A real launcher's server over a real runtime, and its other end held by an attacker who took the service over.

What the server does is watched from within, by the interpreter's audit events: every file it opens, makes, changes or
removes, every program it starts, every socket it binds or connects.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.server.starting import list_installation
from kernel_gateway.settings import Settings
from kernel_gateway.viewers import viewer_plan
from kernels.environment import Environment
from kernels.launcher import server as serving
from kernels.launcher.checks import Bounds, Checks
from kernels.launcher.layers import Layers
from kernels.launcher.plan import TokenPlan
from kernels.launcher.server import Server
from kernels.launcher.token_file import TokenFile
from kernels.launcher.viewers import Viewers, start_confined
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import RuntimeSettings, SandboxInfo

SERVICE = 1_199_999_999
MOST_SANDBOXES = 4
MOST_LAYERS = 1
LAYER_BYTES = 1_000_000
WATCHED = ("open", "os.", "shutil.", "subprocess.Popen", "socket.bind", "socket.connect", "ctypes.dlopen", "exec")
_watching: list[list[tuple[str, Any]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    ours = _watching and threading.current_thread().name.startswith(("launcher", "sandbox"))
    if ours and event.startswith(WATCHED):
        for seen in _watching:
            seen.append((event, arguments))


sys.addaudithook(_audit)


@dataclass
class Launcher:
    """The server, and the service's end of its sockets."""

    data: Path
    run: Path
    environment: Environment
    runtime: OciRuntime
    raw: socket.socket
    ended: threading.Event
    numbers: Iterator[int]
    seen: list[tuple[str, Any]] = field(default_factory=list)
    brought: int = 0
    left: tuple[SandboxInfo, ...] | None = None

    def say(self, packet: bytes | dict[str, Any]) -> None:
        self.raw.send(packet if isinstance(packet, bytes) else json.dumps(packet).encode())

    def hear(self) -> dict[str, Any]:
        """The next answer; an empty one when the launcher has hung up. Descriptors that come along are closed."""
        data, ancillary, _, _ = self.raw.recvmsg(1 << 20, 1024)
        self.brought = sum(len(rights) // 4 for _, _, rights in ancillary)
        for _, _, rights in ancillary:
            for at in range(0, len(rights), 4):
                os.close(int.from_bytes(rights[at : at + 4], sys.byteorder))
        answer: dict[str, Any] = json.loads(data) if data else {}
        return answer

    def ask(self, request: Any) -> dict[str, Any]:
        """The answer to a request that has a number."""
        number = next(self.numbers)
        self.say({"number": number, "request": request})
        reply = self.hear()
        assert reply["number"] == number
        answer: dict[str, Any] = reply["answer"]
        return answer

    def creation(self, **other: Any) -> dict[str, Any]:
        """A request to create that would be granted, but for what is `other`."""
        return {
            "type": "Create",
            "sandbox_id": str(uuid.uuid4()),
            "image": self.environment.image,
            "digest": self.environment.digest,
            "generation": 1,
            "hostname": "sandbox",
            "memory_mb": 2048,
            "storage_mb": 512,
            "pids": 512,
            "vcpus": 1.0,
            "runtime": "",
            "network": "SANDBOX",
            "role": None,
            **other,
        }

    def started(self) -> list[str]:
        """Programs that the launcher has started since the test began."""
        return [str(arguments[0]) for event, arguments in self.seen if event == "subprocess.Popen"]

    def touched(self) -> set[Path]:
        """Files and directories that it has touched since then, but for those of its own interpreter and /proc."""
        found = set()
        for event, arguments in self.seen:
            if event not in ("subprocess.Popen", "ctypes.dlopen"):
                found |= {Path(os.fsdecode(each)) for each in arguments[:2] if isinstance(each, str | bytes)}
        own = (Path("/proc"), Path("/sys/fs/cgroup"), Path(sys.base_prefix), Path(sys.prefix), Path("/usr"))
        return {path for path in found if path.is_absolute() and not any(path.is_relative_to(each) for each in own)}

    def sandboxes(self) -> list[str]:
        return sorted(path.name for path in (self.data / "sandboxes").glob("*"))


@pytest.fixture(scope="module")
def directories() -> Iterator[tuple[Path, Path]]:
    data, run = Path(tempfile.mkdtemp(prefix="scl", dir="/tmp")), Path(tempfile.mkdtemp(prefix="scr", dir="/tmp"))
    yield data, run
    shutil.rmtree(data)
    shutil.rmtree(run)


@pytest.fixture(scope="module")
def bounds() -> Bounds:
    return Bounds(
        memory_mb=2048,
        storage_mb=512,
        pids=512,
        vcpus=2.0,
        sandboxes=MOST_SANDBOXES,
        runtimes=("runc",),
        layers=MOST_LAYERS,
        layer_bytes=LAYER_BYTES,
    )


@pytest.fixture
def launcher(
    directories: tuple[Path, Path],
    bounds: Bounds,
    environment: Environment,
    environments_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Launcher]:
    """A server in a thread of its own; when the test is over every sandbox is removed and nothing may be left."""
    monkeypatch.setattr(serving, "_SEND_SECONDS", 1.0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.settimeout(120)
    settings = RuntimeSettings("runc", *directories, service_uid=SERVICE)
    runtime = OciRuntime(settings)
    checks = Checks(environments_dir, bounds, directories[0])
    layers = Layers(runtime, checks, settings, bounds)
    ended = threading.Event()
    token_file = os.open(directories[1] / "client.toml", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    plan = TokenPlan(token_file, 'url = "http://127.0.0.1:1"\ntoken = ', "\n", "")

    async def serve() -> None:
        viewer = viewer_plan(Settings(), list_installation())
        viewers = Viewers(viewer, start_confined(viewer, ""))
        await Server(runtime, checks, ours, TokenFile(plan), viewers, layers=layers).serve()
        await viewers.aclose()
        held.left = await runtime.list()
        ended.set()
        for info in held.left:
            await runtime.destroy(info.sandbox_id)
        await runtime.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="launcher")
    held = Launcher(*directories, environment, runtime, theirs, ended, iter(range(1, 1 << 40)))
    thread.start()
    _watching.append(held.seen)
    yield held
    _watching.clear()
    theirs.close()
    thread.join(120)
    os.close(token_file)
    (directories[1] / "client.toml").unlink()
    assert not thread.is_alive(), "the server did not end when its service was gone"
    assert held.sandboxes() == []
    mounted = Path("/proc/self/mountinfo").read_text()
    assert not [line for line in mounted.splitlines() if any(f"{each}/" in line for each in directories)]


@pytest.fixture
def sandbox(launcher: Launcher) -> str:
    """A sandbox of the launcher's, whose guest answers."""
    request = launcher.creation()
    assert launcher.ask(request)["type"] == "Made"
    assert launcher.started(), "what the launcher starts is not seen"
    dial = {"type": "Dial", "sandbox_id": request["sandbox_id"], "name": "guest", "patience_seconds": 1}
    while launcher.ask(dial)["type"] != "Descriptor":
        pass
    launcher.seen.clear()
    return str(request["sandbox_id"])
