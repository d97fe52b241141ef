"""HTTPS by a certificate in files. A renewed one holds from the next handshake, without a restart."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import structlog

from kernel_gateway.errors import StartRefused

log = structlog.get_logger(__name__)
_NO_PASSWORD: Final = ""
"""For a key that needs one: OpenSSL would ask for it on the terminal."""


class Certificate:
    """`context` is what a server uses; each handshake first looks whether the files are still the same."""

    def __init__(self, cert: str, key: str) -> None:
        """Raises `StartRefused`."""
        self._files = (Path(cert), Path(key))
        try:
            self._seen = self._look()
            self._current = self._load()
        except (OSError, ssl.SSLError) as error:
            raise StartRefused(
                f"tls_cert {cert} and tls_key {key} cannot be used by the service's user (service_uid): {error}"
            ) from error
        self.context = self._current
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called by OpenSSL when a client says hello, whether it names a server or not."""
        try:
            found = self._look()
            if found != self._seen:
                self._seen = found  # also of what cannot be used: it is tried again when it changes again
                self._current = self._load()
                log.info("certificate_renewed", file=str(self._files[0]))
        except (OSError, ssl.SSLError) as error:
            log.warning("certificate_unusable", file=str(self._files[0]), error=str(error), kept="the former")
        connection.context = self._current

    def _look(self) -> list[tuple[int, int, int]]:
        """What changes when a file does: written in place, replaced, or another by its link."""
        return [(found.st_mtime_ns, found.st_size, found.st_ino) for found in (each.stat() for each in self._files)]

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files, password=_NO_PASSWORD)
        return context
