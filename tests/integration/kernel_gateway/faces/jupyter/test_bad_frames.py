"""What clients send that is no message, or not theirs to send: ignored or cut off, and nobody else is disturbed."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.faces.jupyter.channels import MOST_MALFORMED
from tests.integration.kernel_gateway.faces.jupyter.conftest import Face
from tests.integration.kernel_gateway.faces.jupyter.wire import Wire, packed, reply_of, result_of
from tests.running_service import RunningService

HEADER = {"msg_id": "1", "msg_type": "execute_request", "session": "s", "username": "u", "version": "5.3"}
BAD_V1 = [
    b"",
    b"\x00" * 7,
    b"\xff" * 64,
    struct.pack("<Q", 2**63),
    packed("shell", [b"{}"] * 3),
    packed("shell", [b"{}", b"{}", b"{}", b"not json"]),
    packed("shell", [b"\xff\xfe", b"{}", b"{}", b"{}"]),
    packed("shell", [b"[]", b"{}", b"{}", b"{}"]),
    packed("shell", [b"{" * 100_000, b"{}", b"{}", b"{}"]),
    packed("shell", [b"{}"] * 4)[:-3],
    "text on a binary socket",
]
BAD_LEGACY = ["", "nothing", "[]", "{}", '{"header": 7}', "[" * 100_000, b"\x00\x00\x00\x01", b"\xff" * 40, b""]
UNWANTED = [
    ("heartbeat", "execute_request"),
    ("iopub", "execute_request"),
    ("\x00", "execute_request"),
    ("shell", "no_such_request"),
    ("shell", "execute_reply"),
    ("shell", ""),
    ("control", "execute_request"),
    ("stdin", "execute_request"),
    ("shell" * 1000, "x" * 1000),
]


def is_reply(message: dict[str, Any]) -> bool:
    return str(message["header"]["msg_type"]).endswith("_reply")


def still_works(wire: Wire) -> None:
    assert result_of(wire.run("40 + 2")) == "42"


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_frames_without_a_message_are_ignored(guest: Face, v1: bool) -> None:
    with guest.wire(v1=v1) as wire:
        for frame in BAD_V1 if v1 else BAD_LEGACY:
            wire.socket.send(frame)
        still_works(wire)


@pytest.mark.parametrize("v1", [True, False], ids=["v1", "legacy"])
def test_messages_of_unknown_channels_and_types_are_ignored(guest: Face, v1: bool) -> None:
    with guest.wire(v1=v1) as wire:
        for channel, msg_type in UNWANTED:
            wire.send(channel, msg_type, {"code": "1/0"})
        still_works(wire)


@pytest.mark.parametrize(
    "header",
    [{}, {"msg_id": 1}, {**HEADER, "msg_id": None}, {**HEADER, "session": 3}, {**HEADER, "msg_id": "x" * 100_000}],
)
def test_headers_that_are_none_are_ignored(guest: Face, header: dict[str, object]) -> None:
    with guest.wire() as wire:
        wire.socket.send(packed("shell", [json.dumps(header).encode(), b"{}", b"{}", b'{"code": "1/0"}']))
        still_works(wire)


WRONG = [
    {**HEADER, "session": ""},
    {name: value for name, value in HEADER.items() if name != "session"},
    {name: value for name, value in HEADER.items() if name != "version"},
    {**HEADER, "version": "6.0"},
]


def test_a_request_with_a_wrong_header_is_answered_to_its_sender_alone(guest: Face) -> None:
    with guest.wire() as bystander, guest.wire() as wire:
        for number, header in enumerate(WRONG):
            named = json.dumps({**header, "msg_id": f"wrong {number}"}).encode()
            wire.socket.send(packed("shell", [named, b"{}", b"{}", b'{"code": "1/0"}']))
            seen = wire.finished(f"wrong {number}")
            assert [each["header"]["msg_type"] for each in seen] == ["error", "execute_reply", "status"]
            assert reply_of(seen)["content"]["ename"] == "InvalidRequest"
            assert "header" in reply_of(seen)["content"]["evalue"] or "version" in reply_of(seen)["content"]["evalue"]
        asked = json.dumps({**HEADER, "msg_type": "complete_request", "session": ""}).encode()
        wire.socket.send(packed("shell", [asked, b"{}", b"{}", b"{}"]))
        assert reply_of(wire.finished("1"))["header"]["msg_type"] == "complete_reply"
        still_works(wire)
        own = bystander.execute("'mine'")
        heard = bystander.until(lambda each: each["parent_header"].get("msg_id") == own and is_reply(each))
        assert not {"wrong 0", "1"} & {each["parent_header"].get("msg_id") for each in heard}


def test_who_sends_nothing_else_is_cut_off(guest: Face) -> None:
    with guest.wire() as bystander, guest.wire() as wire:
        for _ in range(MOST_MALFORMED + 1):  # what comes after the last would be unread, and cost us the goodbye
            wire.socket.send(b"junk")
        assert wire.closed()[0] == 1008
        still_works(bystander)


def test_a_message_that_is_too_large_is_not_read(guest: Face) -> None:
    with raw(guest) as one:
        one.sendall(frame(0x2, length=17_000_000))
        told = drained(one)
    assert told.endswith(b"\x03\xf1message too big")


def frame(
    opcode: int, payload: bytes = b"", *, flags: int = 0x80, masked: bool = True, length: int | None = None
) -> bytes:
    """A WebSocket frame with whatever in it; payloads are short."""
    size = len(payload) if length is None else length
    mark = 0x80 if masked else 0
    head = bytes([flags | opcode]) + (
        bytes([mark | size]) if size < 126 else bytes([mark | 127]) + struct.pack("!Q", size)
    )
    return head + (b"\x00" * 4 if masked else b"") + payload


@pytest.mark.parametrize(
    "sent",
    [
        frame(0x1, b"\xff\xfe"),
        frame(0x3, b"what is this"),
        frame(0x2, b"x", flags=0xF0),
        frame(0x0, b"goes on with nothing"),
        frame(0x9, b"x", flags=0x00),
        frame(0x8, b"\x03"),
        frame(0x8, b"\x03\xe8\xff\xff"),
        frame(0x2, b"x", length=2**62),
        b"GET / HTTP/1.1\r\n\r\n" * 20,
        os.urandom(4096),
    ],
    ids=["text", "opcode", "reserved", "continuation", "fragment", "close", "reason", "endless", "http", "noise"],
)
def test_what_is_no_websocket_is_cut_off(guest: Face, sent: bytes) -> None:
    with raw(guest) as one:
        one.sendall(sent)
        one.settimeout(120)
        drained(one)
    with guest.wire() as wire:
        still_works(wire)


def test_clients_that_come_and_go_leave_nothing(guest: Face, service: RunningService) -> None:
    open_files = Path(f"/proc/{service.service_pid}/fd")
    with guest.wire() as wire:
        still_works(wire)
    before = len(list(open_files.iterdir()))
    for number in range(200):
        one = raw(guest)
        if number % 2:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends without goodbye
        one.close()
    until(lambda: guest.http.get(f"/api/kernels/{guest.kernel_id}").json()["connections"] == 0)
    until(lambda: len(list(open_files.iterdir())) <= before + 5)
    with guest.wire() as wire:
        still_works(wire)


def test_clients_that_leave_while_their_token_is_looked_at_leave_nothing(owner: Face, service: RunningService) -> None:
    with service.client() as client:
        tokens = [client.create_attach_token(owner.kernel_id).token for _ in range(20)]
    for token in tokens:
        asking(replace(owner, token=str(token))).close()
    until(lambda: all(is_known(replace(owner, token=str(token))) for token in tokens))
    until(lambda: owner.http.get(f"/api/kernels/{owner.kernel_id}").json()["connections"] == 0, seconds=20)


def is_known(face: Face) -> bool:
    """The service has answered an earlier request of this token's too: both take the same way."""
    return face.http.get("/api", headers={"Authorization": f"token {face.token}"}).status_code == 200


def raw(face: Face) -> socket.socket:
    """A connection that has shaken hands, and nothing else."""
    one = asking(face)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += one.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return one


def asking(face: Face) -> socket.socket:
    """A connection on which a handshake is asked for."""
    host, _, port = face.url.removeprefix("http://").partition(":")
    one = socket.create_connection((host, int(port)), timeout=120)
    lines = [
        f"GET /api/kernels/{face.kernel_id}/channels?session_id={os.urandom(8).hex()} HTTP/1.1",
        f"Host: {host}:{port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: token {face.token}",
    ]
    one.sendall("\r\n".join([*lines, "", ""]).encode())
    return one


def drained(one: socket.socket) -> bytes:
    """Read until the other side has closed."""
    found = b""
    try:
        while data := one.recv(65_536):
            found += data
    except ConnectionResetError:
        return found
    return found


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
