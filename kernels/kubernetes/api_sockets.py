"""WebSockets to the API server, for what it streams from and to pods.

In their protocol, `v4.channel.k8s.io`, the first byte of each message is the number of the channel that it is for.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kernels.errors import NotReached

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PROTOCOL: Final = "v4.channel.k8s.io"
MOST_MESSAGE_BYTES: Final = 1024 * 1024
"""The server's have 32 KiB."""
MOST_MESSAGES: Final = 8
"""That wait to be taken before no more is read."""
UNSENT_BYTES: Final = 64 * 1024
PING_SECONDS: Final = 20.0
"""What lies between may end a connection on which nothing goes. Nobody waits for the answer, which comes behind all
that is still to be taken: who takes nothing for a while has not lost the server."""
_LOST_MILLISECONDS: Final = 60_000
"""How long what was sent may stay without an answer of the server's machine."""
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class ApiSockets:
    """Opened as the official client sends its requests: where to, with which certificates, as whom.

    `find_client` is called in a thread, and may have to make it.
    """

    def __init__(self, find_client: Callable[[], Any]) -> None:
        self._find_client = find_client
        self._client: Any = None
        self._context: tuple[object, ssl.SSLContext] | None = None

    async def open(self, path: str, seconds: float) -> ClientConnection:
        """Open it within so many seconds, and have its end take no longer.

        Raises NotReached when the server does not answer; what it refuses with is `websockets`' InvalidStatus.
        """
        from websockets.asyncio.client import connect  # noqa: PLC0415 - comes with the extra, as the client does
        from websockets.exceptions import InvalidStatus  # noqa: PLC0415
        from websockets.typing import Subprotocol  # noqa: PLC0415

        if self._client is None:  # it is imported for the first of all requests
            self._client = await asyncio.to_thread(self._find_client)
        try:
            async with asyncio.timeout(seconds):
                # In a thread: a program that the configuration names may be asked for another token.
                url, headers, more = await asyncio.to_thread(self._prepare, path)
                connection = await connect(
                    url,
                    additional_headers=headers,
                    subprotocols=[Subprotocol(PROTOCOL)],
                    compression=None,
                    open_timeout=None,
                    close_timeout=seconds,
                    ping_interval=PING_SECONDS,
                    ping_timeout=None,
                    max_size=MOST_MESSAGE_BYTES,
                    max_queue=(MOST_MESSAGES, MOST_MESSAGES // 2),
                    write_limit=UNSENT_BYTES,
                    **more,
                )
        except InvalidStatus:
            raise
        except Exception as error:  # of a token's program, the way there and the library, which have no common root
            why = str(error) or f"nothing within {seconds:g} s"
            raise NotReached(f"the Kubernetes API server did not answer: {why}"[:1000]) from None
        _notice_loss(connection.transport.get_extra_info("socket"))
        return connection

    def _prepare(self, path: str) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The URL, the headers, and what else `connect` is to be called with."""
        configuration = self._client.configuration
        headers: dict[str, str] = {}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        url = urllib.parse.urlsplit(configuration.host)
        without = {"no": configuration.no_proxy or ""}
        around = urllib.request.proxy_bypass_environment(url.netloc, without)  # type: ignore[attr-defined]
        more: dict[str, Any] = {"proxy": None if around else configuration.proxy}
        if url.scheme == "https":
            more["ssl"] = self._find_context(configuration)
            if configuration.tls_server_name:
                more["server_hostname"] = configuration.tls_server_name
        return configuration.host.replace("http", "ws", 1) + path, headers, more

    def _find_context(self, configuration: Any) -> ssl.SSLContext:
        """Made again when its files have changed: certificates of clients may live for an hour."""
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        version = (configuration.verify_ssl, files, [Path(each).stat().st_mtime_ns for each in files if each])
        if self._context is None or self._context[0] != version:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if not configuration.verify_ssl:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file)
            self._context = version, context
        return self._context[1]


def _notice_loss(tcp: socket.socket) -> None:
    """Have the connection break when the server's machine is gone, though nothing may be sent on it for hours."""
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (*_KEEPALIVE, (socket.TCP_USER_TIMEOUT, _LOST_MILLISECONDS)):
        tcp.setsockopt(socket.IPPROTO_TCP, option, value)
