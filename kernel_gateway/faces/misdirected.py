"""The way in for requests of every face: those addressed to another name than this service's get no further.

No token is in an address any more behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import Router
from tornado.web import Application

from kernel_gateway.faces.errors import MisdirectedRequest
from kernel_gateway.faces.forwarding import Forwards
from kernel_gateway.faces.librechat.identifiers import KEY, find_token, split_token
from kernel_gateway.faces.rest.handler import RestHandler
from kernel_gateway.faces.rest.table import TABLE
from kernel_gateway.faces.routing import Address
from kernel_gateway.faces.signs import Signs
from kernel_gateway.hosts import Hosts

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


_CREDENTIALS: Final = ("Authorization", "X-Goog-Api-Key", "X-Api-Key")
_PUBLIC: Final = frozenset(route.path for route in TABLE if route.public)


class MisdirectedHandler(RestHandler):
    """Refuses, before anything is looked up."""

    def initialize(self, services: Services) -> None:
        super().initialize(services)
        self.address = Address()

    async def admit(self) -> None:
        raise MisdirectedRequest(
            "this service is not known by the name that the request is addressed to: name it in allowed_hosts"
        )


class OwnHosts(Router):
    """Hands requests to the application that are addressed to a name of this service's."""

    def __init__(self, application: Application, services: Services, hosts: Hosts) -> None:
        self.application = application
        self._refused: dict[str, Any] = {"services": services}
        self._hosts = hosts
        self._forwards = Forwards(services.gateways, Signs(services))

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        _take_token(request)
        # Whether it is a true one is seen to by every route but the public ones, which take any.
        credential = request.path not in _PUBLIC and (
            "token=" in request.query or any(name in request.headers for name in _CREDENTIALS)
        )
        if self._hosts.admit(request.headers.get("Host", ""), credential=credential):
            return self._forwards.wrap(request, self.application.find_handler(request, **kwargs))
        return self.application.get_handler_delegate(request, MisdirectedHandler, self._refused)


def _take_token(request: HTTPServerRequest) -> None:
    """Out of an address of LibreChat's, to where other clients send it: addresses are logged, headers never."""
    path, token = split_token(request.path)
    if path != request.path:
        request.path, request.uri = path, f"{path}?{request.query}" if request.query else path
    if token and not find_token(request.headers):
        request.headers[KEY] = token
