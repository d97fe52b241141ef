"""The lean way to an S3 server: slow links, answers nobody asked for, a way that cannot be made."""

from __future__ import annotations

import hashlib
import io
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.doubles.faulty_s3 import FaultyS3
from tests.doubles.s3_servers import ACCESS_KEY, BUCKET
from workspace_sync import DurableWorkspace
from workspace_sync.errors import StoreUnavailable
from workspace_sync.stores.s3.store import S3Store
from workspace_sync.stores.s3.wire import BODY_BYTES, Address, Key, Wire, WireBroken

SECONDS = 120.0
READ_SECONDS = 3.0
BODY = bytes(16 << 20)
SHA256 = hashlib.sha256(BODY).hexdigest()
NOTHING = memoryview(b"")


def answer(tag: str) -> bytes:
    return f'HTTP/1.1 200 OK\r\nETag: "{tag}"\r\nContent-Length: 0\r\n\r\n'.encode()


def taken(connection: socket.socket, size: int = 0) -> None:
    """A request's head, and a body that comes in its own time."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1)
    left, pause = size, size
    while left:
        piece = connection.recv(min(left, 1 << 16))
        assert piece, "the client gave up"
        left -= len(piece)
        if pause - left > 1 << 20:
            pause = left
            time.sleep(0.35)


@contextmanager
def served(*scripts: Callable[[socket.socket], None]) -> Iterator[Wire]:
    """A wire to a server that treats each connection as a script of its own says."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.settimeout(SECONDS)
    over = threading.Event()

    def run() -> None:
        held = []
        try:
            for script in scripts:
                connection, _ = listener.accept()
                connection.settimeout(SECONDS)
                held.append(connection)
                script(connection)
            over.wait(SECONDS)
        except (OSError, AssertionError):
            pass
        finally:
            for connection in held:
                connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    port = listener.getsockname()[1]
    address = Address("127.0.0.1", port, f"127.0.0.1:{port}", None, "/bucket/", "us-east-1")
    wire = Wire(address, lambda: Key("id", "secret"), READ_SECONDS, READ_SECONDS)
    try:
        yield wire
    finally:
        wire.close()
        over.set()
        listener.close()
        thread.join(SECONDS)


def test_a_body_has_the_time_that_a_slow_link_needs_as_long_as_it_moves() -> None:
    def slow(connection: socket.socket) -> None:
        taken(connection, len(BODY))
        connection.sendall(answer("whole"))

    with served(slow) as wire:
        assert wire.put("key", memoryview(BODY), SHA256).headers["etag"] == '"whole"'


def test_what_came_before_a_request_is_no_answer_to_it() -> None:
    told = threading.Event()

    def hasty(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(answer("first"))
        assert told.wait(SECONDS)
        connection.sendall(answer("nobody asked"))
        told.clear()

    def steady(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(answer("second"))

    with served(hasty, steady) as wire:
        assert wire.put("key", NOTHING, "").headers["etag"] == '"first"'
        told.set()
        while told.is_set():
            time.sleep(0.01)
        assert wire.put("key", NOTHING, "").headers["etag"] == '"second"'


def test_two_answers_at_once_are_none() -> None:
    def double(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(answer("one") + answer("two"))

    with served(double) as wire, pytest.raises(WireBroken):
        wire.put("key", NOTHING, "")


def test_an_answer_whose_length_is_not_told_is_whole_when_it_ends() -> None:
    def chunked(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"first ", b"second ", b"third"):
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            time.sleep(0.05)
        connection.sendall(b"0\r\n\r\n")

    with served(chunked) as wire:
        assert bytes(wire.receive(wire.ask("key")).body) == b"first second third"


def test_an_object_comes_in_pieces_and_its_connection_is_used_again() -> None:
    head = b'HTTP/1.1 200 OK\r\nETag: "tag"\r\nContent-Length: 11\r\n\r\n'

    def steady(connection: socket.socket) -> None:
        for _ in range(2):
            taken(connection)
            connection.sendall(head + b"first")
            time.sleep(0.05)
            connection.sendall(b"second")

    with served(steady) as wire:
        for _ in range(2):
            assert bytes(wire.receive(wire.ask("key")).body) == b"firstsecond"


def test_an_object_that_ends_too_early_is_told_as_broken() -> None:
    def hasty(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst")
        connection.shutdown(socket.SHUT_RDWR)

    with served(hasty) as wire, pytest.raises(WireBroken):
        wire.receive(wire.ask("key"))


@pytest.mark.parametrize("length", [b"Content-Length: %d" % (2 * BODY_BYTES), b"Connection: close"])
def test_an_answer_longer_than_what_was_asked_for_is_none(length: bytes) -> None:
    def endless(connection: socket.socket) -> None:
        taken(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + bytes(2 * BODY_BYTES))

    with served(endless) as wire, pytest.raises(WireBroken, match="too long"):
        wire.receive(wire.ask("key"))


def test_a_copy_that_fails_after_its_answer_began_is_none() -> None:
    body = b"<?xml version='1.0'?><%b><ETag>&quot;tag&quot;</ETag></%b>"

    def steady(connection: socket.socket) -> None:
        for kind in (b"Error", b"CopyObjectResult"):
            taken(connection)
            told = body % (kind, kind)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))

    with served(steady) as wire:
        assert [wire.copy("bucket/source", "key").etag for _ in range(2)] == ["", "tag"]


def test_the_files_of_a_workspace_are_copied_by_a_request_each(proxy_of_each: FaultyS3) -> None:
    store = S3Store(BUCKET, "copied", endpoint_url=proxy_of_each.endpoint, access_key=ACCESS_KEY)
    try:
        for number in range(40):
            store.put(f"one/workspace/{number}", io.BytesIO(b"content"), 7)
        before = len(proxy_of_each.operations())
        DurableWorkspace(store, "one").copy_to("two")
        asked = Counter(proxy_of_each.operations()[before:])
        assert (asked["CopyObject"], asked["HeadObject"]) == (40, 0), asked
        with store.get("two/workspace/39") as copied:
            assert copied.read() == b"content"
    finally:
        store.close()


def test_certificates_that_cannot_be_read_are_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    store = S3Store(BUCKET, endpoint_url="https://127.0.0.1:1", access_key=ACCESS_KEY)
    try:
        with pytest.raises(StoreUnavailable):
            store.get("key")
    finally:
        store.close()
