"""Real S3 servers as child processes: rclone over a directory, moto, and Ceph (`ceph`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3

from tests.doubles.ceph import ceph_gateway
from tests.doubles.faulty_s3 import FaultyS3
from tests.doubles.server_process import answers, free_port, server_process

ACCESS_KEY = ("AKIASANDCELLTESTS000", "sandcell-tests-secret-key-0123456789")
BUCKET = "sandcell-tests"
READY_SECONDS = 120
LOG = "server.log"
ATTEMPTS = 5
BIN = Path(sys.executable).parent


def rclone_command(port: int, directory: Path) -> list[str]:
    (directory / "buckets" / BUCKET).mkdir(parents=True, exist_ok=True)
    key = ",".join(ACCESS_KEY)
    return [
        *(str(BIN / "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", key),
        # Its write cache cannot read an object back whose key has been a directory for a moment before.
        *("--vfs-cache-mode", "off", "--config", "/dev/null"),
        str(directory / "buckets"),
    ]


def moto_command(port: int, directory: Path) -> list[str]:
    return [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


@contextlib.contextmanager
def s3_server(kind: str, directory: Path) -> Iterator[str]:
    """Start `rclone`, `moto` or `ceph`; yields its endpoint URL with the bucket made; stopped at the end.

    rclone's makes a directory twice when two writes that need it come at once, acknowledges both objects, and shows one
    of them; so writes reach it one by one.
    """
    with bare_s3_server(kind, directory) as endpoint:
        if kind != "rclone":
            yield endpoint
            return
        with FaultyS3(endpoint, one_write_at_a_time=True) as orderly:
            yield orderly.endpoint


@contextlib.contextmanager
def bare_s3_server(kind: str, directory: Path) -> Iterator[str]:
    """The server itself, for a benchmark; into rclone's, write only to directories that are there already."""
    with ceph_gateway(directory, ACCESS_KEY) if kind == "ceph" else _of_one_process(kind, directory) as port:
        endpoint = f"http://127.0.0.1:{port}"
        make_bucket(endpoint)
        yield endpoint


@contextlib.contextmanager
def _of_one_process(kind: str, directory: Path) -> Iterator[int]:
    command = {"rclone": rclone_command, "moto": moto_command}[kind]
    for _ in range(ATTEMPTS):  # another process may take the port before the server does
        port = free_port()
        with server_process(command(port, directory), directory, LOG) as process:
            if answers(process, port, READY_SECONDS):
                yield port
                return
    raise AssertionError(f"{kind} did not start: {(directory / LOG).read_text()[-2000:]}")


def make_bucket(endpoint: str) -> None:
    key_id, secret = ACCESS_KEY
    client = boto3.session.Session().client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=key_id, aws_secret_access_key=secret
    )
    try:
        client.create_bucket(Bucket=BUCKET)
    except client.exceptions.BucketAlreadyOwnedByYou:
        pass
    except client.exceptions.BucketAlreadyExists:
        pass
    finally:
        client.close()
