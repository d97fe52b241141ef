"""How long a body is said to be, in every form that tornado takes, and how long a refused one is waited for."""

from __future__ import annotations

import asyncio

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from kernel_gateway.errors import Forbidden
from kernel_gateway.faces import receiving
from kernel_gateway.faces.receiving import LENGTH_DIGITS, ReceivingHandler, length_of


@pytest.mark.parametrize("announced", ["134000000", "0" * LENGTH_DIGITS + "134000000", "134000000,134000000"])
def test_every_form_of_a_length_is_that_length(announced: str) -> None:
    assert length_of(announced) == 134_000_000


def test_an_endless_length_is_a_large_one() -> None:
    assert length_of("9" * 5_000) == 10**LENGTH_DIGITS - 1


@pytest.mark.parametrize("announced", ["", "0", "0,0", "-5", "+5", "1_0", "0x10", "²", "many"])
def test_what_is_no_length_is_none(announced: str) -> None:
    assert length_of(announced) == 0


class Refusing(ReceivingHandler):
    """Takes no request."""

    async def admit(self) -> None:
        raise Forbidden("not for you")

    def ours(self, error: Exception) -> Exception:
        return error

    def say(self, error: Exception) -> None:
        self.set_status(403)
        self.write(str(error))

    def fail(self, error: Exception) -> None:
        self.say(error)
        self.finish()

    def audit(self) -> None:
        """No log here."""


@pytest.mark.parametrize("body", [b"", b"half"])
def test_a_refused_body_that_does_not_come_is_not_waited_for(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "LINGER_SECONDS", 0.01)

    async def scene() -> None:
        server = HTTPServer(Application([("/", Refusing, {"services": None})]))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n" + body)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        server.stop()
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.endswith(b"not for you")

    asyncio.run(scene())
