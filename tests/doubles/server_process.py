"""A server as a child process: on a port that nothing else is given, waited for, and stopped by its own id."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

STOP_SECONDS = 120


def free_port() -> int:
    """Below those that the kernel gives out by itself: a connection of another test could have one of them first."""
    first_given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(12_000, max(first_given_out, 30_000))
    while True:
        port = secrets.choice(ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def server_process(command: Sequence[str], directory: Path, log: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs in the directory, where what it says goes into a file of this name."""
    with (directory / log).open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, cwd=directory)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


def answers(process: subprocess.Popen[bytes], port: int, seconds: float) -> bool:
    """Whether the process takes connections within so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return process.poll() is None
        except OSError:
            time.sleep(0.05)
    return False
