"""Where a syslog server is, as the setting says it. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

_PORT: Final = 514


class SyslogAddress(msgspec.Struct, frozen=True):
    """`udp` or `tcp` with host and port, or `unix` with a path."""

    kind: str
    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def of_text(cls, text: str) -> SyslogAddress:
        """From udp://host:514, tcp://host:514 or unix:///dev/log; raises ValueError."""
        parts = urlsplit(text)
        rest = parts.query or parts.fragment or parts.username
        if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc and not rest:
            return cls("unix", path=parts.path)
        if parts.scheme in {"udp", "tcp"} and parts.hostname and parts.path in {"", "/"} and not rest:
            return cls(parts.scheme, parts.hostname, parts.port or _PORT)
        raise ValueError(f"it must be udp://host:514, tcp://host:514 or unix:///dev/log, not {text!r}")
