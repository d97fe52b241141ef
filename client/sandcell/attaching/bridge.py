"""A live kernel of a service as a connection file on this machine, for clients that speak ZMQ: jupyter console.

Its sockets lie in a directory that only its owner may enter. They lead to one WebSocket of the service, so that one
process still talks to the kernel, and what is run from here is queued, attributed and recorded as from anywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import uuid
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote, urlsplit

import zmq
import zmq.asyncio
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from sandcell.attaching.wire import V1, MalformedFrame, Refused, Translator

CHANNELS: Final = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4, "hb": 5}
MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
"""The largest frame that is taken from the service."""
WAITING_MESSAGES: Final = 1_000
"""Messages that wait for a client here; beyond them the service is not read, which has its own bounds."""
_CONNECT_SECONDS: Final = 20.0
_TRIES: Final = 8
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 15.0
_FINAL: Final = (1000, 1001)
"""Close codes after which the service does not want us back."""


class AttachEnded(Exception):
    """There is no way to the kernel any more; the text says why."""


class Bridge:
    """`async with` it: `file` is the connection file. `run` carries messages until the attachment ends."""

    def __init__(self, directory: Path, url: str, token: str, session_id: str) -> None:
        self.file = directory / f"kernel-{session_id}.json"
        self._directory = directory
        self._token = token
        scheme = "wss" if urlsplit(url).scheme == "https" else "ws"
        place = f"{url.rstrip('/').partition('://')[2]}/api/kernels/{quote(session_id)}/channels"
        self._address = f"{scheme}://{place}?session_id={uuid.uuid4().hex}"
        self._key = secrets.token_hex(32)
        self._translator = Translator(self._key.encode())
        self._context = zmq.asyncio.Context()
        self._sockets: dict[str, zmq.asyncio.Socket] = {}
        self._service: WebSocketClientConnection | None = None
        self._connected = asyncio.Event()

    async def __aenter__(self) -> Bridge:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        for channel, number in CHANNELS.items():
            socket = self._context.socket(zmq.XPUB if channel == "iopub" else zmq.ROUTER)
            self._sockets[channel] = socket
            socket.linger = 0  # closing does not wait for clients that are gone
            socket.sndhwm = WAITING_MESSAGES
            if channel == "iopub":
                # At the mark a send waits, and with it the service, which bounds what it keeps; nothing is lost unseen.
                socket.setsockopt(zmq.XPUB_NODROP, 1)
            socket.bind(f"ipc://{self._directory / 'k'}-{number}")
        self._write_file()
        try:
            await self._connect()
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._service is not None:
            self._service.close()
        for socket in self._sockets.values():
            socket.close()
        self._context.term()
        for place in [self.file, *(self._directory / f"k-{number}" for number in CHANNELS.values())]:
            place.unlink(missing_ok=True)

    async def run(self) -> None:
        """Carry messages until the service ends the attachment; raises `AttachEnded`."""
        carriers = [self._send_all(channel) for channel in ("shell", "control", "stdin")]
        tasks = [asyncio.create_task(each) for each in (*carriers, self._receive_all(), self._beat(), self._follow())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each

    def _write_file(self) -> None:
        numbers = {f"{channel}_port": number for channel, number in CHANNELS.items()}
        names = {"transport": "ipc", "ip": str(self._directory / "k"), "kernel_name": "sandcell"}
        content = {**names, **numbers, "key": self._key, "signature_scheme": "hmac-sha256"}
        self.file.unlink(missing_ok=True)
        descriptor = os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(content, stream)

    async def _connect(self) -> None:
        """Open the WebSocket; tried again while the service restarts."""
        pause = _PAUSE_SECONDS
        for attempt in range(1, _TRIES + 1):
            request = HTTPRequest(self._address, headers={"Authorization": f"token {self._token}"})
            request.connect_timeout = request.request_timeout = _CONNECT_SECONDS
            try:
                self._service = await websocket_connect(
                    request, subprotocols=[V1], max_message_size=MAX_FRAME_BYTES, ping_interval=30
                )
            except HTTPClientError as error:
                if error.code not in (503, 599) or attempt == _TRIES:
                    raise AttachEnded(f"the service refuses the connection: {error}") from None
            except OSError as error:
                if attempt == _TRIES:
                    raise AttachEnded(f"the service cannot be reached: {error}") from None
            else:
                self._connected.set()
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _send_all(self, channel: str) -> None:
        """What clients here send on one channel goes to the service, in order."""
        while True:
            parts = await self._sockets[channel].recv_multipart()
            with contextlib.suppress(Refused):
                await self._send(self._translator.frame(channel, parts))

    async def _send(self, frame: bytes) -> None:
        while True:
            await self._connected.wait()
            service = self._service
            try:
                if service is not None:
                    return await service.write_message(frame, binary=True)
            except WebSocketClosedError:
                await asyncio.sleep(0.05)  # the reader sees it too, and connects again

    async def _receive_all(self) -> None:
        """What the service sends goes to its client, or to all; a connection that broke is opened again."""
        while True:
            service = self._service
            frame = None if service is None else await service.read_message()
            if frame is not None:
                with contextlib.suppress(MalformedFrame):
                    channel, parts = self._translator.parts(frame)
                    if parts:
                        await self._sockets[channel].send_multipart(parts)
                continue
            self._connected.clear()
            if service is not None and service.close_code in _FINAL:
                raise AttachEnded(service.close_reason or "the session has ended, or another client took its place")
            await self._connect()

    async def _beat(self) -> None:
        """Clients ask by heartbeat whether the kernel lives; while there is a way to it, it does."""
        while True:
            parts = await self._sockets["hb"].recv_multipart()
            await self._connected.wait()
            await self._sockets["hb"].send_multipart(parts)

    async def _follow(self) -> None:
        """Read the subscriptions of clients and ignore them: every client gets every message."""
        while True:
            await self._sockets["iopub"].recv_multipart()
