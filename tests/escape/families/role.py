"""Attempts to make more of an execution role than it is: other objects, other buckets, other hosts, keys."""

from __future__ import annotations

from tests.escape.attempt import Attempt, Family
from tests.escape.bucket import unharmed

ASK = """
import http.client
INSIDE = f"/{role.bucket}/team/a/mine"

def ask(method, target, body=None, host="127.0.0.1:3129", **headers):
    one = http.client.HTTPConnection("127.0.0.1", 3129, timeout=120)
    one.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    one.putheader("Host", host)
    for name, value in headers.items():
        one.putheader(name.replace("_", "-"), value)
    if body is not None:
        one.putheader("Content-Length", str(len(body)))
    one.endheaders(body)
    answer = one.getresponse()
    text = answer.read().decode()
    print(answer.status, (answer.headers["x-sandcell-reason"] or text).split(": ")[1])

"""


def refused(name: str, program: str, word: str) -> Attempt:
    """An attempt that the signing proxy refuses by this word."""
    return Attempt(name, ASK + program, f"said: 403 {word}", check=unharmed)


FAMILY = Family(
    "role",
    "execution role",
    (
        refused("read an object beside the prefix", "ask('GET', f'/{role.bucket}/team/other.txt')", "key"),
        refused("read below a name that begins alike", "ask('GET', f'/{role.bucket}/team/ab/secret.txt')", "key"),
        refused("climb out by dots", "ask('GET', f'{INSIDE}/../../../secret.txt')", "key"),
        refused("climb out by encoded dots", "ask('GET', f'/{role.bucket}/team/a/%2e%2e/other.txt')", "key"),
        refused("climb out by dots encoded twice", "ask('GET', f'/{role.bucket}/team/a/%252e%252e/other.txt')", "key"),
        refused("climb out by an encoded slash", "ask('GET', f'/{role.bucket}/team/a/..%2fother.txt')", "key"),
        refused("climb out by a backslash", "ask('GET', f'/{role.bucket}/team/a/..%5cother.txt')", "key"),
        refused("climb out by overlong dots", "ask('GET', f'/{role.bucket}/team/a/%c0%ae%c0%ae/other.txt')", "key"),
        refused("write beside the prefix", "ask('PUT', f'/{role.bucket}/team/ab/secret.txt', b'HARM')", "key"),
        refused("list the whole bucket", "ask('GET', f'/{role.bucket}?list-type=2')", "prefix"),
        refused("list without the last slash", "ask('GET', f'/{role.bucket}?list-type=2&prefix=team/a')", "prefix"),
        refused("list by two prefixes", "ask('GET', f'/{role.bucket}?list-type=2&prefix=team/a/&prefix=')", "query"),
        refused("reach another bucket", "ask('GET', '/another-bucket/team/a/mine')", "bucket"),
        refused("make a bucket", "ask('PUT', '/another-bucket', b'')", "bucket"),
        refused(
            "reach a bucket by a host name",
            "ask('GET', '/secret.txt', host=f'{role.bucket}.127.0.0.1:3129')",
            "host",
        ),
        refused(
            "have the host ask the metadata service",
            "ask('GET', 'http://169.254.169.254/latest/meta-data/iam/security-credentials/')",
            "target",
        ),
        refused(
            "copy an object in from outside",
            "ask('PUT', f'{INSIDE}2', b'', x_amz_copy_source=f'{role.bucket}/secret.txt')",
            "copy-source",
        ),
        refused(
            "copy in from outside by encoded dots",
            "ask('PUT', f'{INSIDE}2', b'', x_amz_copy_source=f'/{role.bucket}/team/a/%2E%2E/%2E%2E/secret.txt')",
            "copy-source",
        ),
        refused(
            "copy in through an access point",
            "ask('PUT', f'{INSIDE}2', b'', x_amz_copy_source='arn:aws:s3:us-east-1:1:accesspoint/a/object/team/a/x')",
            "copy-source",
        ),
        refused(
            "delete an object outside among others",
            "ask('POST', f'/{role.bucket}?delete', b'<Delete><Object><Key>team/a/none</Key></Object>'"
            " b'<Object><Key>secret.txt</Key></Object></Delete>')",
            "key",
        ),
        refused(
            "have an entity name the key",
            "ask('POST', f'/{role.bucket}?delete', b'<!DOCTYPE d [<!ENTITY k \"secret.txt\">]>'"
            " b'<Delete><Object><Key>&k;</Key></Object></Delete>')",
            "document",
        ),
        refused(
            "carry data out with keys of one's own",
            "ask('PUT', INSIDE, b'x', Authorization='AWS4-HMAC-SHA256 Credential=AKIAATTACKER00000000/20261121/"
            "us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00')",
            "authorization",
        ),
        refused(
            "carry data out with a presigned address",
            "ask('PUT', f'{INSIDE}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAATTACKER&X-Amz-Signature=00',"
            " b'x')",
            "presigned",
        ),
        refused("open an object to the world", "ask('PUT', INSIDE, b'x', x_amz_acl='public-read')", "header"),
        refused("open the bucket to the world", "ask('PUT', f'/{role.bucket}?policy', b'{}')", "operation"),
        refused(
            "have a website lead elsewhere",
            "ask('PUT', INSIDE, b'x', x_amz_website_redirect_location='http://example.org/')",
            "header",
        ),
        Attempt(
            "hide a request behind a body",
            ASK + "one = socket.create_connection(('127.0.0.1', 3129), 10)\n"
            "one.sendall(f'GET {INSIDE} HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 99\\r\\nTransfer-Encoding: "
            "chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /{role.bucket}/secret.txt HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'"
            ".encode())\n"
            "one.shutdown(socket.SHUT_WR)\n"
            "answer = b''.join(iter(lambda: one.recv(65536), b'')).decode()\n"
            "print([line for line in answer.splitlines() if line.startswith('HTTP/')], 'payload' in answer)",
            "said: ['HTTP/1.1 403 Forbidden'] True",
            check=unharmed,
        ),
        Attempt(
            "list the bucket by the command line",
            "aws s3 ls \"s3://$(echo $SANDCELL_S3_URI | cut -d/ -f3)/\" 2>&1 | grep -o 'Execution role: prefix'",
            "said: Execution role: prefix",
            "shell",
            check=unharmed,
        ),
        Attempt(
            "go to the server itself",
            "socket.create_connection(('127.0.0.1', role.port), 3)",
            "ECONNREFUSED",
            check=unharmed,
        ),
        Attempt(
            "go to the server by the proxy for the web",
            "one = socket.create_connection(('127.0.0.1', 3128), 3)\n"
            "one.sendall(f'GET {role.endpoint}/{role.bucket}/secret.txt HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'.encode())\n"
            "print(one.recv(4096).split(b'\\r\\n')[0].decode()[:33])",
            "said: HTTP/1.1 403 Network mode SANDBOX",
            check=unharmed,
        ),
        Attempt(
            "call the signing proxy past the guest",
            "socket.socket(socket.AF_UNIX).connect('/run/sandcell/egress/s3.sock')",
            "EACCES",
            check=unharmed,
        ),
        Attempt(
            "find keys that are more than placeholders",
            "import re\n"
            "found = {os.environ[name] for name in os.environ if name.startswith('AWS_') and 'KEY' in name}\n"
            "found |= {name for name in os.listdir(os.path.expanduser('~')) if name == '.aws'}\n"
            "print(sorted(found))",
            "said: ['SANDCELLPLACEHOLDER', 'placeholder-the-host-signs']",
            check=unharmed,
        ),
    ),
    session={"environment": "role"},
)
