"""Both S3 servers, with objects inside and outside of a role's prefix, and roles on them."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from kernels.environment import ExecutionRole
from tests.doubles.role_side import PLACEHOLDERS, RoleSide
from tests.doubles.s3_servers import ACCESS_KEY, BIN, BUCKET, s3_server

OUTSIDE = {"team/other.txt": b"OUTSIDE-1", "team/ab/secret.txt": b"OUTSIDE-2", "secret.txt": b"OUTSIDE-3"}
PREFIX = "team/a/"


@pytest.fixture(scope="module", params=["rclone", "moto"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a real S3 server."""
    with s3_server(request.param, tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def owner(server: str) -> Iterator[Any]:
    """boto3 with the real keys: sees everything."""
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY[0],
        aws_secret_access_key=ACCESS_KEY[1],
    )
    yield client
    client.close()


@pytest.fixture
def outside(owner: Any) -> Iterator[dict[str, bytes]]:
    """Objects beyond the prefix, which must be there unchanged after the test, and nothing else beyond it."""
    for key, body in OUTSIDE.items():
        owner.put_object(Bucket=BUCKET, Key=key, Body=body)
    yield OUTSIDE
    listed = owner.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    assert {one["Key"] for one in listed if not one["Key"].startswith(PREFIX)} == OUTSIDE.keys()
    for key, body in OUTSIDE.items():
        assert owner.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's credentials, as an operator gives them: a profile in a file."""
    path = tmp_path / "credentials"
    path.write_text(f"[role]\naws_access_key_id = {ACCESS_KEY[0]}\naws_secret_access_key = {ACCESS_KEY[1]}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    for name in PLACEHOLDERS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_side(server: str, credentials: None, short_directory: Path) -> Iterator[Callable[..., RoleSide]]:
    """Makes roles; whatever entered the sandboxes must not hold a key of the host's, nor an object of beyond."""
    with ExitStack() as stack:
        made: list[RoleSide] = []

        def make(*, write: bool = True, prefix: str = "team/a", **more: Any) -> RoleSide:
            role = ExecutionRole(BUCKET, prefix, write=write, endpoint_url=server, profile="role")
            directory = short_directory / uuid.uuid4().hex[:8]
            directory.mkdir()
            side = stack.enter_context(RoleSide(role, directory, **more))
            made.append(side)
            return side

        yield make
        for side in made:
            for secret in (*ACCESS_KEY, *(body.decode() for body in OUTSIDE.values()), server.removeprefix("http://")):
                assert secret.encode() not in side.entered


@pytest.fixture
def side(make_side: Callable[..., RoleSide]) -> RoleSide:
    """A role that reads and writes team/a/."""
    return make_side()


@dataclass(frozen=True)
class CommandLine:
    """The AWS command line as it is inside."""

    endpoint: str
    home: Path

    def __call__(self, *arguments: str, ok: bool = True) -> str:
        """What it wrote; `ok` is whether it has to succeed."""
        done = subprocess.run(
            [str(BIN / "aws"), *arguments],
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "AWS_ENDPOINT_URL_S3": self.endpoint, **PLACEHOLDERS}
            | {"AWS_MAX_ATTEMPTS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def aws(side: RoleSide, tmp_path: Path) -> CommandLine:
    return CommandLine(side.endpoint, tmp_path)
