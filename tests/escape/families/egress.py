"""Attempts to reach by the way out, where the network is public, what is not: this host, its services, the metadata.

No attempt names anything that is really public, so nothing leaves this machine even if one succeeds.
"""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family

ASK = r"""
def say(data, port=3128):
    with socket.create_connection(('127.0.0.1', port), 15) as one:
        one.sendall(data)
        answer = b''.join(iter(lambda: one.recv(65536), b'')).decode()
    word = answer.partition('X-Sandcell-Refusal: ')[2].partition('\r\n')[0]
    print(answer[9:12], answer.partition('PUBLIC')[1], word)

def ask(url):
    name = url.split('/')[2]
    say(f'GET {url} HTTP/1.1\r\nHost: {name}\r\n\r\n'.encode())

def tunnel(to):
    say(f'CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n'.encode())
"""


def refused(name: str, program: str, word: str, status: int = 403) -> Attempt:
    return Attempt(name, f"{ASK}\n{program}", f"said: {status} PUBLIC {word}")


HEAD = "GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\n"


def malformed(name: str, data: str, word: str, status: int = 400) -> Attempt:
    """A request with the port of the host's bait in it, as the body of a bytes literal."""
    return refused(name, f"say(b'{data}'.replace(b'{{port}}', str(host.port).encode()))", word, status)


FAMILY = Family(
    "egress",
    "network modes: the way out where it is public",
    (
        refused("reach the host's loopback by a tunnel", "tunnel(f'127.0.0.1:{host.port}')", "loopback_address"),
        refused("reach the host's loopback by plain HTTP", "ask(f'http://127.0.0.1:{host.port}/')", "loopback_address"),
        refused(
            "reach the service itself", "ask(f'http://127.0.0.1:{host.service_port}/v1/sessions')", "loopback_address"
        ),
        refused("reach the loopback beside the first", "tunnel(f'127.8.8.8:{host.port}')", "loopback_address"),
        refused("reach the loopback of version 6", "tunnel(f'[::1]:{host.port}')", "loopback_address"),
        refused(
            "reach the loopback in a mapped address", "tunnel(f'[::ffff:127.0.0.1]:{host.port}')", "loopback_address"
        ),
        refused("reach the loopback through NAT64", "tunnel(f'[64:ff9b::7f00:1]:{host.port}')", "loopback_address"),
        refused("reach the loopback through 6to4", "tunnel(f'[2002:7f00:1::]:{host.port}')", "transition_address"),
        refused("reach the loopback through Teredo", "tunnel(f'[2001::80ff:fffe]:{host.port}')", "transition_address"),
        refused("reach all addresses of the host", "tunnel(f'0.0.0.0:{host.port}')", "unspecified_address"),
        refused("reach all addresses of version 6", "tunnel(f'[::]:{host.port}')", "unspecified_address"),
        refused("write the loopback short", "ask(f'http://127.1:{host.port}/')", "odd_address"),
        refused("write the loopback in hexadecimals", "ask(f'http://0x7f000001:{host.port}/')", "odd_address"),
        refused("write the loopback in octals", "ask(f'http://017700000001:{host.port}/')", "odd_address"),
        refused("write the loopback as one number", "tunnel(f'2130706433:{host.port}')", "odd_address"),
        refused("write the loopback in mixed numbers", "tunnel(f'0x7f.0.0.01:{host.port}')", "odd_address"),
        refused("write the loopback with a final dot", "tunnel(f'127.0.0.1.:{host.port}')", "loopback_address"),
        refused("write the loopback with a zone", "tunnel(f'[fe80::1%lo]:{host.port}')", "odd_address"),
        refused("write the loopback in escapes", "ask(f'http://%31%32%37.0.0.1:{host.port}/')", "bad_target", 400),
        refused("hide the host behind a user name", "ask(f'http://1.1.1.1@127.0.0.1:{host.port}/')", "bad_target", 400),
        refused("ask the metadata service", "ask('http://169.254.169.254/latest/meta-data/')", "metadata_address"),
        refused(
            "ask the metadata service of containers", "ask('http://169.254.170.2/v2/credentials')", "metadata_address"
        ),
        refused(
            "ask the metadata service in a public range", "ask('http://168.63.129.16/machine')", "metadata_address"
        ),
        refused("ask the metadata service by version 6", "ask('http://[fd00:ec2::254]/')", "metadata_address"),
        refused(
            "ask the metadata service in a mapped address", "ask('http://[::ffff:a9fe:a9fe]/')", "metadata_address"
        ),
        refused("reach a private network", "tunnel('10.0.0.1:22')", "private_address"),
        refused("reach a carrier's network", "tunnel('100.64.0.1:22')", "shared_address"),
        refused("reach many at once", "tunnel('224.0.0.1:5353')", "multicast_address"),
        malformed(
            "send two lengths",
            f"{HEAD}Host: 127.0.0.1:{{port}}\\r\\nContent-Length: 5\\r\\n"
            "Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
            "two_lengths",
        ),
        malformed("send two hosts", f"{HEAD}Host: 127.0.0.1:{{port}}\\r\\nHost: x\\r\\n\\r\\n", "repeated_field"),
        malformed("send another host than the target", f"{HEAD}Host: 1.1.1.1\\r\\n\\r\\n", "other_host"),
        malformed("send a folded field", f"{HEAD}Host: 127.0.0.1:{{port}}\\r\\nX: a\\r\\n b\\r\\n\\r\\n", "bad_field"),
        malformed(
            "send bare line feeds",
            "GET http://127.0.0.1:{port}/ HTTP/1.1\\nHost: 127.0.0.1:{port}\\n\\n",
            "bare_line_feed",
        ),
        malformed(
            "send a head without an end",
            "GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nX: ' + bytes(65536).replace(b'\\0', b'a') + b'",
            "long_head",
            431,
        ),
        malformed("ask the proxy itself", "GET /v1/status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", "bad_target"),
        Attempt(
            "connect to the host's side of the way out",
            "socket.socket(socket.AF_UNIX).connect('/run/sandcell/egress/http.sock')",
            "EACCES",
        ),
        Attempt(
            "replace the host's side of the way out",
            "os.rename('/run/sandcell/egress', '/run/sandcell/other')",
            {"runc": "EACCES", "runsc": "EACCES"},
        ),
        Attempt("take the guest's port", "socket.create_server(('127.0.0.1', 3128))", "EADDRINUSE"),
        Attempt(
            "share the guest's port",
            "one = socket.socket()\n"
            "one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
            "one.bind(('127.0.0.1', 3128))",
            "EADDRINUSE",
        ),
    ),
    {"environment": "public"},
)
