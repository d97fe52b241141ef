"""The whole way: programs in real sessions of environments with a role, an S3 server that asks for keys on the host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from sandcell import Client, Session
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET, s3_server
from tests.running_service import RunningService

ENVIRONMENTS = """
[writes]
image = "python"
role = {{bucket = "{bucket}", prefix = "team/a", access = "read-write", endpoint_url = "{server}"}}

[reads]
image = "python"
role = {{bucket = "{bucket}", prefix = "team/a", endpoint_url = "{server}"}}
"""

PRELUDE = """
import json, os, socket, subprocess, boto3, botocore.exceptions
s3 = boto3.client("s3")
BUCKET = os.environ["SANDCELL_S3_URI"].split("/")[2]

def refusal(call, **arguments):
    try:
        return "allowed: " + repr(getattr(s3, call)(Bucket=BUCKET, **arguments))
    except botocore.exceptions.ClientError as error:
        return error.response["Error"].get("Message", str(error)).removeprefix("Execution role: ").partition(":")[0]
"""


@dataclass
class Place:
    """A service whose environments have roles, the server behind them, and its owner's client."""

    service: RunningService
    server: str
    owner: Any
    client: Client
    sessions: dict[str, Session]

    def session(self, environment: str) -> Session:
        if environment not in self.sessions:
            live = Session(self.client, self.client.start_session(environment=environment))
            result = live.run(PRELUDE)
            assert result.ok, (result.error, result.stderr, result.death)
            self.sessions[environment] = live
        return self.sessions[environment]

    def said(self, environment: str, code: str) -> str:
        result = self.session(environment).run(code, timeout_seconds=120)
        assert result.ok, (result.error, result.stderr, result.death)
        for secret in (*ACCESS_KEY, "OUTSIDE"):
            assert secret not in result.stdout + result.stderr + result.text
        return result.stdout.strip()


@pytest.fixture(scope="module")
def place(make_service: Callable[..., RunningService], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("role")
    with s3_server("rclone", directory) as server:
        file = directory / "environments.toml"
        file.write_text(ENVIRONMENTS.format(bucket=BUCKET, server=server))
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY[0], "AWS_SECRET_ACCESS_KEY": ACCESS_KEY[1]}
        service = make_service(None, keys, environments_file=file)
        owner = boto3.session.Session().client(
            "s3", endpoint_url=server, region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY[0], aws_secret_access_key=ACCESS_KEY[1],
        )  # fmt: skip
        for key in ("secret.txt", "team/ab/secret.txt"):
            owner.put_object(Bucket=BUCKET, Key=key, Body=b"OUTSIDE")
        with service.client() as client:
            found = Place(service, server, owner, client, {})
            yield found
            for live in found.sessions.values():
                live.stop()
        owner.close()
        service.stop()


def test_boto3_reaches_the_prefix_and_nothing_else(place: Place) -> None:
    place.said("writes", "s3.put_object(Bucket=BUCKET, Key='team/a/from inside.txt', Body=b'hello')")
    assert place.owner.get_object(Bucket=BUCKET, Key="team/a/from inside.txt")["Body"].read() == b"hello"
    code = "print(s3.get_object(Bucket=BUCKET, Key='team/a/from inside.txt')['Body'].read())"
    assert place.said("writes", code) == "b'hello'"
    listed = "print([o['Key'] for o in s3.list_objects_v2(Bucket=BUCKET, Prefix='team/a/')['Contents']])"
    assert place.said("writes", listed) == "['team/a/from inside.txt']"
    for call, word in {
        "get_object', Key='secret.txt": "key",
        "get_object', Key='team/ab/secret.txt": "key",
        "get_object', Key='team/a/../ab/secret.txt": "key",
        "delete_object', Key='secret.txt": "key",
        "list_objects_v2', Prefix='": "prefix",
        "copy_object', Key='team/a/x', CopySource=f'{BUCKET}/secret.txt": "copy-source",
    }.items():
        assert place.said("writes", f"print(refusal('{call}'))") == word
    place.owner.delete_object(Bucket=BUCKET, Key="team/a/from inside.txt")


def test_the_command_line_reaches_the_prefix(place: Place) -> None:
    said = place.said(
        "writes",
        "open('/workspace/large.bin', 'wb').write(os.urandom(9_000_000))\n"
        "run = lambda *a: subprocess.run(['aws', 's3', *a], capture_output=True, text=True)\n"
        "uri = os.environ['SANDCELL_S3_URI']\n"
        "print(run('cp', '/workspace/large.bin', uri + 'large.bin').returncode)\n"
        "print(run('cp', uri + 'large.bin', '/tmp/back').returncode)\n"
        "print(open('/tmp/back', 'rb').read() == open('/workspace/large.bin', 'rb').read())\n"
        "print('large.bin' in run('ls', uri).stdout)\n"
        "print(run('rm', uri + 'large.bin').returncode)\n"
        "print('AccessDenied' in run('ls', f's3://{BUCKET}/').stderr)",
    )
    assert said.split() == ["0", "0", "True", "True", "0", "True"]


def test_a_role_that_reads_writes_nothing(place: Place) -> None:
    place.owner.put_object(Bucket=BUCKET, Key="team/a/given.txt", Body=b"given")
    assert (
        place.said("reads", "print(s3.get_object(Bucket=BUCKET, Key='team/a/given.txt')['Body'].read())") == "b'given'"
    )
    for call in ("put_object', Body=b'x', Key='team/a/given.txt", "delete_object', Key='team/a/given.txt"):
        assert place.said("reads", f"print(refusal('{call}'))") == "read-only"
    assert place.owner.get_object(Bucket=BUCKET, Key="team/a/given.txt")["Body"].read() == b"given"
    place.owner.delete_object(Bucket=BUCKET, Key="team/a/given.txt")


def test_there_are_no_keys_and_no_way_to_the_server_but_the_role(place: Place) -> None:
    found = json.loads(place.said("reads", "print(json.dumps({k: v for k, v in os.environ.items() if 'AWS' in k}))"))
    assert found["AWS_ENDPOINT_URL_S3"].startswith("http://127.0.0.1:")
    parts = urlsplit(place.server)
    direct = f"socket.create_connection(('{parts.hostname}', {parts.port}), 3)"
    assert place.said("reads", f"try: {direct}\nexcept OSError as error: print(type(error).__name__)") == (
        "ConnectionRefusedError"
    )
    for request in (f"GET {place.server}/{BUCKET}/secret.txt", f"CONNECT {parts.netloc}"):
        proxied = (
            "one = socket.create_connection(('127.0.0.1', 3128), 5)\n"
            f"one.sendall(b'{request} HTTP/1.1\\r\\nHost: {parts.netloc}\\r\\n\\r\\n')\n"
            "print(one.recv(1000).decode().splitlines()[0])"
        )
        assert place.said("reads", proxied).startswith("HTTP/1.1 403 Network mode SANDBOX")
    # The placeholders are no keys: the server itself takes them for a stranger's.
    stranger = boto3.session.Session().client(
        "s3", endpoint_url=place.server, region_name="us-east-1",
        aws_access_key_id=found["AWS_ACCESS_KEY_ID"], aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
    )  # fmt: skip
    with pytest.raises(stranger.exceptions.ClientError):
        stranger.list_objects_v2(Bucket=BUCKET, Prefix="team/a/")
    stranger.close()


def test_the_session_tells_its_role_and_the_audit_log_what_was_asked(place: Place) -> None:
    live = place.session("writes")
    place.said("writes", "print(refusal('get_object', Key='secret.txt'))")
    network = live.refresh().network
    assert network.role is not None
    assert (network.role.bucket, network.role.prefix, network.role.access) == (BUCKET, "team/a/", "read-write")
    assert network.used.refused > 0
    assert not any(secret in repr(network) for secret in ACCESS_KEY)
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        refused = place.client.list_audit(session_id=live.id, kind="egress", allowed=False).items
        found = [one for one in refused if one.event == "s3" and one.target.endswith("/secret.txt")]
        if found:
            break
        time.sleep(0.1)
    assert found
    assert all(one.reason.startswith("key: ") for one in found)


def test_the_role_goes_on_in_a_new_generation(place: Place) -> None:
    live = place.session("writes")
    live.restart()
    result = live.run(PRELUDE + "\ns3.put_object(Bucket=BUCKET, Key='team/a/again', Body=b'x')")
    assert result.ok, (result.error, result.stderr, result.death)
    assert place.owner.get_object(Bucket=BUCKET, Key="team/a/again")["Body"].read() == b"x"
    place.owner.delete_object(Bucket=BUCKET, Key="team/a/again")


def test_a_role_without_credentials_keeps_its_sessions_from_starting(
    place: Place, make_service: Callable[..., RunningService], tmp_path: Path
) -> None:
    file = tmp_path / "environments.toml"
    file.write_text(ENVIRONMENTS.format(bucket=BUCKET, server=place.server))
    nothing = {"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    service = make_service(None, nothing, environments_file=file)
    with service.client() as client, pytest.raises(Exception, match="credentials"):
        client.start_session(environment="reads")
    service.stop()
