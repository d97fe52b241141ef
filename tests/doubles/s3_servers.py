"""Real S3 servers as child processes on ports of the kernel's choosing: rclone over a directory, and moto."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3

ACCESS_KEY = ("AKIASANDCELLTESTS000", "sandcell-tests-secret-key-0123456789")
BUCKET = "sandcell-tests"
READY_SECONDS = 30
BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rclone_command(port: int, directory: Path) -> list[str]:
    (directory / "buckets" / BUCKET).mkdir(parents=True, exist_ok=True)
    key = ",".join(ACCESS_KEY)
    return [
        *(str(BIN / "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", key),
        *("--vfs-cache-mode", "writes", "--cache-dir", str(directory / "cache"), "--config", "/dev/null"),
        str(directory / "buckets"),
    ]


def moto_command(port: int, directory: Path) -> list[str]:
    return [str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


@contextlib.contextmanager
def s3_server(kind: str, directory: Path) -> Iterator[str]:
    """Start `rclone` or `moto`; yields its endpoint URL with the bucket made; stopped by its own id at the end."""
    command = {"rclone": rclone_command, "moto": moto_command}[kind]
    for _ in range(5):  # another process may take the port before the server does
        port = free_port()
        with (directory / "server.log").open("wb") as log:
            process = subprocess.Popen(command(port, directory), stdout=log, stderr=log, cwd=directory)
        try:
            if _answers(process, port):
                endpoint = f"http://127.0.0.1:{port}"
                make_bucket(endpoint)
                yield endpoint
                return
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
    raise AssertionError(f"{kind} did not start: {(directory / 'server.log').read_text()[-2000:]}")


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


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return process.poll() is None
        except OSError:
            time.sleep(0.05)
    return False
