"""The audit log to a syslog server: RFC 5424 over UDP (RFC 5426), TCP (RFC 6587, counted octets) or a Unix socket.

Syslog answers nothing. Over TCP records count as delivered when the server's kernel has acknowledged them; over UDP
when they were sent, and what the network loses is lost.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import socket
import struct
import termios
from collections.abc import Sequence
from typing import Any, Final

from kernel_gateway.services.audit.line import Entry
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.syslog_address import SyslogAddress

_AUDIT: Final = 13
"""The facility "log audit"."""
_NOTICE, _INFO = 5, 6
_LONGEST_MESSAGE_ID: Final = 32
_LOOK_SECONDS: Final = 0.01
_READ_BYTES: Final = 4_096


class SyslogSink:
    """One connection, opened when there is something to send, and again after it broke."""

    name = "syslog"
    of_host = False

    def __init__(self, address: SyslogAddress) -> None:
        self._address = address
        self._host = re.sub(r"[^!-~]", "", socket.gethostname()) or "-"
        self._socket: socket.socket | None = None

    async def open(self) -> None:
        """A server that is away keeps no service from starting."""

    async def deliver(self, entries: Sequence[Entry]) -> None:
        try:
            if self._socket is None or self._has_ended(self._socket):
                await self.close()
                self._socket = await self._connect()
            await self._send(self._socket, [message(each, self._host) for each in entries])
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _connect(self) -> socket.socket:
        if self._address.kind == "unix":
            return await _open_connection(socket.AF_UNIX, socket.SOCK_DGRAM, self._address.path)
        kind = socket.SOCK_STREAM if self._address.kind == "tcp" else socket.SOCK_DGRAM
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._address.host, self._address.port, type=kind)
        for family, _, _, _, address in found[:-1]:
            try:
                return await _open_connection(family, kind, address)
            except OSError:
                continue
        return await _open_connection(found[-1][0], kind, found[-1][4])

    async def _send(self, connection: socket.socket, messages: Sequence[bytes]) -> None:
        loop = asyncio.get_running_loop()
        if self._address.kind != "tcp":
            for each in messages:
                await loop.sock_sendall(connection, each)
            return
        await loop.sock_sendall(connection, b"".join(b"%d %s" % (len(each), each) for each in messages))
        while _count_unacknowledged(connection):  # noqa: ASYNC110 - nothing tells of it; the feed has a deadline
            await asyncio.sleep(_LOOK_SECONDS)
        if self._has_ended(connection):
            raise ConnectionResetError("the syslog server closed the connection")

    def _has_ended(self, connection: socket.socket) -> bool:
        """Whether a server that never says anything has said that it is gone."""
        if self._address.kind != "tcp":
            return False
        try:
            return not connection.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True


def message(entry: Entry, host: str) -> bytes:
    """A record as RFC 5424 has it; the text is the line without its end."""
    row = entry.row
    priority = _AUDIT * 8 + (_INFO if row.allowed else _NOTICE)
    identity = re.sub(r"[^!-~]", "", row.event)[:_LONGEST_MESSAGE_ID] or "-"
    head = f"<{priority}>1 {rfc3339(row.at)} {host} sandcell - {identity} - "
    return head.encode() + entry.line[:-1]


async def _open_connection(family: int, kind: int, address: Any) -> socket.socket:
    connection = socket.socket(family, kind)
    try:
        connection.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _count_unacknowledged(connection: socket.socket) -> int:
    """Bytes that the other side's kernel does not have yet; raises OSError when the connection has broken."""
    broken = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if broken:
        raise OSError(broken, "the connection to the syslog server broke")
    left: int = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    return left
