"""Memory for what an upload unpacks to is held before it is unpacked and until it is written."""

from __future__ import annotations

import asyncio
import gzip
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.netutil import bind_sockets
from tornado.web import Application

from kernel_gateway.faces.connections import Server
from kernel_gateway.faces.e2b.handler import E2BHandler
from kernel_gateway.identity.principal import Caller, Principal
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.settings import Settings
from kernels.guest_client.answers import FileStat

SIZE = 3_000_000
FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n%s\r\n--b--\r\n' % bytes(SIZE)
CALLER = Caller(Principal("p", "ann", admin=False), "run", "credential")


class Written:
    """The services that an upload needs; notes how much memory is held while a file is written."""

    def __init__(self, directory: Path) -> None:
        settings = replace(Settings(), data_dir=str(directory))
        settings.state_path.mkdir()
        self.body_room = BodyRoom(settings, lambda _: None)
        self.held: list[int] = []
        self.services: Any = SimpleNamespace(
            settings=settings,
            body_room=self.body_room,
            identity=SimpleNamespace(authenticate=self.authenticate),
            limits=SimpleNamespace(take_request=lambda _: None),
            open_calls=SimpleNamespace(enter=lambda *_: None, leave=lambda _: None),
            registry=SimpleNamespace(find=lambda *_: SimpleNamespace(ending=None, is_snapshot=False)),
            audit=SimpleNamespace(call=lambda _: None),
            sandbox_files=SimpleNamespace(write=self.write),
        )

    async def authenticate(self, _token: str) -> Caller:
        return CALLER

    async def write(self, _owner: Principal, _session: str, path: str, pieces: AsyncIterator[bytes]) -> FileStat:
        self.held.append(self.body_room.whole.held)
        return FileStat(path, "file", sum([len(each) async for each in pieces]), 0.0)


async def upload(services: Any, body: bytes, *headers: str) -> bytes:
    server = Server(Application([("/.*", E2BHandler, {"services": services})]), services.settings)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
    lines = [
        "POST /files?path=f HTTP/1.1",
        "Host: here",
        "Connection: close",
        "X-Api-Key: key",
        f"E2b-Sandbox-Id: {uuid.uuid4()}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    async with asyncio.timeout(120):
        answer = await reader.read()
    writer.close()
    server.stop()
    return answer


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", [False, True])
def test_an_upload_holds_memory_for_all_that_is_made_of_it(packed: bool, form: bool, tmp_path: Path) -> None:
    written, body = Written(tmp_path), FORM if form else bytes(SIZE)
    headers = ["Content-Type: " + ("multipart/form-data; boundary=b" if form else "application/octet-stream")]
    if packed:
        body = gzip.compress(body)
        headers.append("Content-Encoding: gzip")
    answer = asyncio.run(upload(written.services, body, *headers))
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert len(written.held) == 1
    assert written.held[0] >= (3 if form else 2 if packed else 1) * SIZE
    assert written.body_room.whole.held == 0
