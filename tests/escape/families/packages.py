"""Attempts to make more of the package index's port than it is: other hosts, paths and indexes, and its password."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family
from tests.escape.indexes import unharmed

ASK = r"""
import re

def say(data):
    with socket.create_connection(('127.0.0.1', 3130), 15) as one:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        answer = b''.join(iter(lambda: one.recv(65536), b'')).decode('latin-1')
    sys.stderr.write(answer)  # the host looks for secrets in it
    print(*re.findall(r'HTTP/1.1 (\d+)', answer), *re.findall(r'^(request|not_there|index): ', answer, re.MULTILINE))

def ask(target, method='GET', more='', host='127.0.0.1:3130'):
    say(f'{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n'.encode())
"""


def refused(name: str, program: str, answer: str = "404 not_there") -> Attempt:
    """An attempt that the package proxy refuses, with this status and word."""
    return Attempt(name, f"{ASK}\n{program}", f"said: {answer}", check=unharmed)


FAMILY = Family(
    "packages",
    "network modes: the package index's port",
    (
        refused("reach the host by an absolute address", "ask(f'http://127.0.0.1:{host.port}/')"),
        refused("reach the metadata service by an absolute address", "ask('http://169.254.169.254/latest/meta-data/')"),
        refused("reach another index by its address", "ask(f'http://127.0.0.1:{index.other}/simple/secret-sample/')"),
        refused("reach another index without a scheme", "ask(f'//127.0.0.1:{index.other}/simple/secret-sample/')"),
        refused(
            "reach another index behind a user name",
            "ask(f'http://127.0.0.1:{index.port}@127.0.0.1:{index.other}/root/simple/secret-sample/')",
        ),
        refused(
            "reach another index by the host's name", "ask('/simple/secret-sample/', host=f'127.0.0.1:{index.other}')"
        ),
        refused(
            "reach another index by forwarding",
            "ask('/simple/secret-sample/', more=f'X-Forwarded-Host: 127.0.0.1:{index.other}\\r\\n"
            "X-Original-URL: http://127.0.0.1:{index.other}/root/simple/secret-sample/\\r\\n')",
        ),
        refused("open a tunnel to another index", "ask(f'127.0.0.1:{index.other}', 'CONNECT')", "405 request"),
        refused("open a tunnel to the host", "ask(f'127.0.0.1:{host.port}', 'CONNECT')", "405 request"),
        refused(
            "open a tunnel and speak through it",
            "ask(f'127.0.0.1:{index.other}', 'CONNECT', "
            "more='\\r\\nGET /root/simple/secret-sample/ HTTP/1.1\\r\\nHost: x\\r\\n')",
            "405 request",
        ),
        refused("climb out of the pages by dots", "ask('/simple/../files/tiny/')"),
        refused("climb out of the pages by encoded dots", "ask('/simple/%2e%2e/')"),
        refused("climb out of the pages by encoded slashes", "ask('/simple/..%2f..%2froot/')"),
        refused("name a package of nothing but dots", "ask('/simple/../')"),
        refused("climb out of the files by dots", "ask('/files/tiny/../../root/simple/tiny/')"),
        refused("climb out of the files by encoded dots", "ask('/files/tiny/..%2f..%2f..%2fetc%2fpasswd')"),
        refused("climb out of the files by dots encoded twice", "ask('/files/tiny/..%252f..%252fsimple%252f')"),
        refused("climb out of the files by a backslash", "ask('/files/tiny/..%5c..%5csimple')"),
        refused("name the files' package in other words", "ask('/files/..%2ftiny/tiny-1.0-py3-none-any.whl')"),
        refused("end a file's name early", "ask('/files/tiny/tiny-1.0-py3-none-any.whl%00.metadata')"),
        refused("have a name break into fields", "ask('/simple/tiny%0d%0aHost:%20127.0.0.1/')"),
        refused("have a file's name break into fields", "ask('/files/tiny/x%0d%0aX-Harm:1')"),
        refused("ask for a path of the index itself", "ask('/root/simple/tiny/')"),
        refused("ask for all that the index has", "ask('/simple/')"),
        refused("ask the service", "ask('/v1/sessions')"),
        refused(
            "ask for more behind a page",
            "say(b'GET /simple/tiny/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'"
            "+ f'GET http://127.0.0.1:{index.other}/simple/secret-sample/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())",
            "200 404 not_there",
        ),
        refused("upload a package", "ask('/simple/tiny/', 'PUT', 'Content-Length: 0\\r\\n')", "405 request"),
        refused("have the index repeat the request", "ask('/simple/tiny/', 'TRACE')", "405 request"),
        refused(
            "send a head without an end", "ask('/simple/tiny/', more='X: ' + 'a' * 65536 + '\\r\\n')", "431 request"
        ),
        refused("send an address without an end", "ask('/simple/' + 'a' * 65536 + '/')", "431 request"),
        refused("send fields without an end", "ask('/simple/tiny/', more='X: 1\\r\\n' * 20000)", "431 request"),
        refused(
            "send two lengths",
            "ask('/simple/tiny/', 'POST', 'Content-Length: 1\\r\\nContent-Length: 2\\r\\n')",
            "400 request",
        ),
        refused("send two hosts", "ask('/simple/tiny/', more=f'Host: 127.0.0.1:{index.other}\\r\\n')", "400 request"),
        Attempt(
            "go to the index itself",
            "socket.create_connection(('127.0.0.1', index.port), 3)",
            "ECONNREFUSED",
            check=unharmed,
        ),
        Attempt(
            "go to the index by the proxy for the web",
            "one = socket.create_connection(('127.0.0.1', 3128), 3)\n"
            "target = f'http://127.0.0.1:{index.port}/root/simple/tiny/'\n"
            "one.sendall(f'GET {target} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'.encode())\n"
            "print(one.recv(4096).split(b'\\r\\n')[0].decode()[:33])",
            "said: HTTP/1.1 403 Network mode SANDBOX",
            check=unharmed,
        ),
        Attempt(
            "call the package proxy past the guest",
            "socket.socket(socket.AF_UNIX).connect('/run/sandcell/egress/packages.sock')",
            "EACCES",
            check=unharmed,
        ),
        Attempt("take the port of the index", "socket.create_server(('127.0.0.1', 3130))", "EADDRINUSE"),
        Attempt(
            "install from another index",
            "python3 -m pip download --no-deps --retries 0 --timeout 3 --index-url"
            " http://127.0.0.1:3130/simple/../../other/simple/ secret-sample >/dev/null 2>&1",
            "exit 1: ",
            "shell",
            check=unharmed,
        ),
        Attempt(
            "find the name and the password of the index",
            "(env; python3 -m pip config list; cat ~/.netrc ~/.config/pip/* /etc/pip.conf) 2>/dev/null; exit 1",
            "exit 1: ",
            "shell",
            check=unharmed,
        ),
    ),
    {"environment": "indexed"},
)
