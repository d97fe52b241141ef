"""How far the code of a session reaches, and what it used of that."""

from __future__ import annotations

from typing import Literal

import msgspec

from sandcell.models.model import Model


class EndpointInfo(Model):
    """What may be reached: a host, `*.` and a domain, or an address; methods and path narrow plain HTTP."""

    host: str
    port: int
    methods: list[str] = msgspec.field(default_factory=list)
    path_prefix: str = ""


class RoleInfo(Model):
    """The one S3 prefix that code may reach; the credentials stay with the service."""

    bucket: str
    prefix: str
    access: Literal["read", "read-write"]
    endpoint_url: str
    region: str


class NetworkLimits(Model):
    """What one session may use of its way out: connections at once, everything else over the session's life."""

    connections: int = 0
    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class NetworkUse(Model):
    """What a session has used of its way out; sent is what left the sandbox."""

    connections_open: int = 0
    requests: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class Network(Model):
    """How far code reaches: the mode, the endpoints that `ALLOWLIST` allows, the execution role, and the limits.

    `index_url` is the package index that pip and uv install from, whatever the mode; the service asks it for them.
    """

    mode: Literal["SANDBOX", "ALLOWLIST", "PUBLIC"] = "SANDBOX"
    allow: list[EndpointInfo] = msgspec.field(default_factory=list)
    role: RoleInfo | None = None
    limits: NetworkLimits = msgspec.field(default_factory=NetworkLimits)
    index_url: str = ""


class SessionNetwork(Network):
    """The policy in force for a session, or that was at its end, and what the session used."""

    used: NetworkUse = msgspec.field(default_factory=NetworkUse)
