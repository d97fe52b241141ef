"""An attached client as a test holds it: requests with headers of its own, and everything that it is sent."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

from kernel_gateway.services.attach.attachments import AttachedPrincipal, Attachment, Ended, Incoming, Outgoing
from sandcell.models.executions import Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway

DEADLINE_SECONDS = 120


def incoming(channel: str, msg_type: str, content: Any, *, session: str, msg_id: str, **header: Any) -> Incoming:
    about = {"msg_id": msg_id, "msg_type": msg_type, "session": session, "username": "ann", "version": "5.3", **header}
    return Incoming(channel, json.dumps(about).encode(), b"{}", b"{}", json.dumps(content).encode())


class Client:
    """Reads all the time, unless asked not to."""

    def __init__(self, attachment: Attachment, name: str, *, reads: bool = True) -> None:
        self.attachment = attachment
        self.name = name
        self.got: list[Outgoing] = []
        self._changed = asyncio.Event()
        self._reader = asyncio.create_task(self._read()) if reads else None

    async def _read(self) -> None:
        async for outgoing in self.attachment.follow():
            self.got.append(outgoing)
            self._changed.set()
        self._changed.set()

    async def send(self, channel: str, msg_type: str, content: Any, **header: Any) -> str:
        msg_id = str(header.pop("msg_id", uuid.uuid4()))
        session = str(header.pop("session", self.name))
        await self.attachment.send(incoming(channel, msg_type, content, session=session, msg_id=msg_id, **header))
        return msg_id

    async def execute(self, code: str, **content: Any) -> str:
        asked = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        return await self.send("shell", "execute_request", {**asked, **content})

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def of(self, msg_id: str, msg_type: str) -> list[Outgoing]:
        return [each for each in self.got if each.message.parent_id == msg_id and each.message.msg_type == msg_type]

    async def reply(self, msg_id: str, msg_type: str = "execute_reply") -> dict[str, Any]:
        await self.until(lambda: bool(self.of(msg_id, msg_type)))
        return self.of(msg_id, msg_type)[0].message.content

    async def done(self, msg_id: str) -> dict[str, Any]:
        """The reply, once the kernel is idle as well."""
        reply = await self.reply(msg_id)
        await self.until(lambda: "idle" in self.states(msg_id))
        return reply

    def states(self, msg_id: str = "") -> list[str]:
        return [each.message.content["execution_state"] for each in self.of(msg_id, "status")]

    def stdout(self, msg_id: str) -> str:
        return "".join(each.message.content["text"] for each in self.of(msg_id, "stream"))

    async def leave(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self.attachment.aclose()

    async def ended(self) -> Ended:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.attachment.wait_ended()


class Room:
    """A gateway, a session in it, and the clients that a test attaches; they leave when it ends."""

    def __init__(self, gateway: Gateway, session: Session) -> None:
        self.gateway = gateway
        self.session = session
        self.clients: list[Client] = []

    async def attach(self, name: str, *, reads: bool = True, **visitor: Any) -> Client:
        who = AttachedPrincipal(self.gateway.me, author=f"{name} (attached)", **visitor)
        attachment = await self.gateway.services.attachments.open(who, self.session.id, name)
        client = Client(attachment, name, reads=reads)
        self.clients.append(client)
        return client

    async def run(self, code: str) -> str:
        """What the agent's code prints."""
        execution = await self.gateway.run(self.session, code)
        return execution.stdout

    async def recorded(self, most: int) -> list[Execution]:
        """The session's last executions, oldest first, once they have ended.

        Clients are sent what the kernel says as it says it: `idle` comes before the service has stored what it ended.
        """
        executions, me, session = self.gateway.services.executions, self.gateway.me, self.session.id
        page = await executions.list(me, session, most, newest_first=True)
        return [await executions.wait(me, session, each.id) for each in reversed(page.items)]

    def state(self) -> str:
        return self.gateway.services.attachments.execution_state(self.session.id)

    async def __aenter__(self) -> Room:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            await client.leave()


async def drained(messages: AsyncIterator[Outgoing], most: int) -> list[Outgoing]:
    """The first messages, so many at most, of what is there."""
    taken: list[Outgoing] = []
    async for each in messages:
        taken.append(each)
        if len(taken) >= most:
            break
    return taken
