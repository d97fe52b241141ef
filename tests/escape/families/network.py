"""Attempts to get out by the network from an environment that has none: no route, no name, no version 6, no proxy."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

ADDRESSES = {
    "a public address": "1.1.1.1",
    "the metadata service": "169.254.169.254",
    "a private address": "10.0.0.1",
    "another private address": "192.168.0.1",
    "a carrier's address": "100.64.0.1",
}
UNREACHABLE = {"runc": "ENETUNREACH", "runsc": "EHOSTUNREACH"}
REFUSED = "Network mode SANDBOX: nothing may be reached from this environment (no_network)"
"""What the proxy that programs know says to all."""

ASK = (
    "one = socket.create_connection(('127.0.0.1', 3128), 3)\n"
    "one.sendall(b'{request} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
    "print(one.recv(4096).split(b'\\r\\n')[0].decode())"
)

FAMILY = Family(
    "network",
    "network",
    (
        *(
            Attempt(f"connect to {name}", f"socket.create_connection(('{address}', 80), 3)", UNREACHABLE)
            for name, address in ADDRESSES.items()
        ),
        *(
            Attempt(
                f"send a datagram to {name}",
                "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "one.setsockopt(1, 6, 1)\n"
                f"one.sendto(b'x', ('{address}', 53))",
                UNREACHABLE,
            )
            for name, address in ADDRESSES.items()
        ),
        Attempt(
            "connect to a public address of version 6",
            "socket.create_connection(('2606:4700:4700::1111', 80), 3)",
            UNREACHABLE,
        ),
        Attempt(
            "connect to the metadata service by version 6",
            "socket.create_connection(('fd00:ec2::254', 80), 3)",
            UNREACHABLE,
        ),
        Attempt("connect to a mapped address", "socket.create_connection(('::ffff:1.1.1.1', 80), 3)", UNREACHABLE),
        Attempt(
            "call to all on the link",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "one.setsockopt(1, 6, 1)\n"
            "one.sendto(b'x', ('255.255.255.255', 68))",
            "ENETUNREACH",
        ),
        Attempt(
            "connect to a neighbour on the link",
            "socket.create_connection(('fe80::1%lo', 80), 1)",
            {"runc": "ENETUNREACH", "runsc": "TimeoutError"},
        ),
        Attempt("connect to nowhere", "socket.create_connection(('0.0.0.0', host.port), 3)", "ECONNREFUSED"),
        Attempt(
            "connect with the first data",
            "one = socket.socket()\none.sendto(b'x', 0x20000000, ('1.1.1.1', 80))",
            {"runc": "ENETUNREACH", "runsc": "EPIPE"},
        ),
        Attempt(
            "look up a name",
            "try: socket.getaddrinfo('example.com', 80)\nexcept socket.gaierror as error: print(error.args[1])",
            "said: Temporary failure in name resolution",
        ),
        Attempt(
            "look up the host by name",
            "try: socket.getaddrinfo(host.hostname, 80)\nexcept socket.gaierror as error: print(error.args[1])",
            "said: Temporary failure in name resolution",
        ),
        Attempt(
            "ask a name server by hand",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\none.connect(('8.8.8.8', 53))",
            UNREACHABLE,
        ),
        Attempt(
            "ask a name server on the loopback",
            "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "one.settimeout(1)\n"
            "one.connect(('127.0.0.53', 53))\n"
            "one.send(bytes(17))\n"
            "one.recv(512)",
            "ECONNREFUSED",
        ),
        Attempt(
            "ask the name service of the host",
            "socket.socket(socket.AF_UNIX).connect('/run/systemd/resolve/io.systemd.Resolve')",
            "ENOENT",
        ),
        Attempt(
            "reach the host by a route of one's own",
            "one = socket.socket()\nfcntl.ioctl(one, 0x890B, bytes(120))",
            {"runc": "EPERM", "runsc": "ENOTTY"},
        ),
        Attempt(
            "see addresses that are not loopback",
            "one = socket.socket()\n"
            "print(sorted(socket.inet_ntoa(row[20:24]) for row in [fcntl.ioctl(one, 0x8915, "
            "struct.pack('16sH22x', name.encode(), 2)) for _, name in socket.if_nameindex()]))",
            "said: ['127.0.0.1']",
        ),
        Attempt(
            "install a package",
            "python3 -m pip install --no-input iniconfig 2>&1 | grep -o 'Network mode SANDBOX' | sort -u",
            "said: Network mode SANDBOX",
            "shell",
        ),
        Attempt(
            "ask the proxy for a page",
            "import urllib.error, urllib.request\n"
            "try: urllib.request.urlopen('http://example.com/', timeout=120)\n"
            "except urllib.error.HTTPError as error: print(error.code, error.reason)",
            f"said: 403 {REFUSED}",
        ),
        Attempt(
            "ask the proxy for a tunnel", ASK.format(request="CONNECT 1.1.1.1:443"), f"said: HTTP/1.1 403 {REFUSED}"
        ),
        Attempt(
            "ask the proxy for the metadata service",
            ASK.format(request="GET http://169.254.169.254/latest/meta-data/"),
            f"said: HTTP/1.1 403 {REFUSED}",
        ),
        Attempt(
            "ask the proxy for the host",
            ASK.format(request="GET http://127.0.0.1:80/"),
            f"said: HTTP/1.1 403 {REFUSED}",
        ),
        Attempt("ask for a bucket without a role", "socket.create_connection(('127.0.0.1', 3129), 3)", "ECONNREFUSED"),
        Attempt(
            "connect to the way out itself",
            "socket.socket(socket.AF_UNIX).connect('/run/sandcell/egress/http.sock')",
            "ENOENT",
        ),
    ),
)
