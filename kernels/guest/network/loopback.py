"""The sandbox's loopback ports that are the guest's: taken before any user code runs, so no other program has them.

Bound with `_socket`: this runs before the first kernel starts, and importing `socket` costs more than it gives here.
Until the loop serves them, connections wait in the kernel.
"""

from __future__ import annotations

import _socket
import sys

from ..options import Options

HTTP = "http"
S3 = "s3"
PACKAGES = "packages"
WAITING = 128


def take_ports(options: Options) -> dict[str, int]:
    """Listening, non-blocking descriptors by name: the HTTP proxy's, S3's with an execution role, the package index's.

    A port that cannot be had is a way out that does not exist.
    """
    wanted = {HTTP: options.http_port, **({S3: options.s3_port} if options.role else {})}
    if options.has_index_port:
        wanted[PACKAGES] = options.packages_port
    taken = {}
    for name, port in wanted.items():
        try:
            taken[name] = _listen(port)
        except OSError as error:
            sys.stderr.write(f"guest: 127.0.0.1:{port} cannot be had: {error}\n")
    return taken


def _listen(port: int) -> int:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(WAITING)
    listener.settimeout(0)
    return listener.detach()
