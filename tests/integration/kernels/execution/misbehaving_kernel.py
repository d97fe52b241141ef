"""A kernel that breaks the protocol in one way when it is asked to run code: `misbehaving_kernel.py FAULT -f FILE`.

It binds real ZMQ sockets, answers `kernel_info_request` as it should and signs with the right key unless the fault is
another. After the fault it ends the execution properly, if the fault leaves anything to end.
"""

from __future__ import annotations

import hmac
import json
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import zmq

FAULT = sys.argv[1]
CONNECTION = json.loads(Path(sys.argv[3]).read_text())
KEY = CONNECTION["key"].encode()
MEGABYTE = 1024 * 1024


def signed(parts: list[bytes], key: bytes = KEY) -> list[bytes]:
    digest = hmac.new(key, digestmod="sha256")
    for part in parts[:4]:
        digest.update(part)
    return [b"<IDS|MSG>", digest.hexdigest().encode(), *parts]


def message(msg_type: str, parent: dict[str, Any], content: Any) -> list[bytes]:
    header = {"msg_id": uuid.uuid4().hex, "msg_type": msg_type, "session": "s", "username": "", "version": "5.3"}
    return [json.dumps(each).encode() for each in (header, parent, {}, content)]


class Kernel:
    def __init__(self) -> None:
        context = zmq.Context()
        self.shell = self.bind(context, zmq.ROUTER, 1)
        self.iopub = self.bind(context, zmq.PUB, 2)
        self.stdin, self.control = self.bind(context, zmq.ROUTER, 3), self.bind(context, zmq.ROUTER, 4)

    def bind(self, context: zmq.Context[Any], kind: int, port: int) -> zmq.Socket[bytes]:
        bound: zmq.Socket[bytes] = context.socket(kind)
        bound.linger = 0
        bound.sndhwm = 0
        bound.bind(f"ipc://{CONNECTION['ip']}-{port}")
        return bound

    def publish(self, msg_type: str, parent: dict[str, Any], content: Any) -> None:
        self.iopub.send_multipart([b"topic", *signed(message(msg_type, parent, content))])

    def say(self, parent: dict[str, Any], text: str) -> None:
        self.publish("stream", parent, {"name": "stdout", "text": text})

    def serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self.shell, zmq.POLLIN)
        poller.register(self.control, zmq.POLLIN)
        while True:
            for channel, _ in poller.poll():
                self.answer(channel)

    def answer(self, channel: zmq.Socket[bytes]) -> None:
        route, _, _, header, *_ = channel.recv_multipart()
        parent = json.loads(header)
        asked = parent["msg_type"]
        self.publish("status", parent, {"execution_state": "busy"})
        if asked == "execute_request":
            getattr(self, FAULT)(route, parent)
        if asked != "execute_request" or FAULT != "no_reply":
            reply = asked.replace("_request", "_reply")
            channel.send_multipart([route, *signed(message(reply, parent, {"status": "ok"}))])
        if asked != "execute_request" or FAULT != "no_idle":
            self.publish("status", parent, {"execution_state": "idle"})

    def garbage(self, route: bytes, parent: dict[str, Any]) -> None:
        good = message("stream", parent, {"name": "stdout", "text": "bad"})
        for channel, before in ((self.iopub, [b"topic"]), (self.shell, [route])):
            channel.send_multipart([*before, b"", b"nothing of use"])
            channel.send_multipart([*before, b"<IDS|MSG>"])
            channel.send_multipart([*before, b"<IDS|MSG>", b"", *good])
            channel.send_multipart([*before, *signed(good, b"another key")])
            channel.send_multipart([*before, *signed([b"{", *good[1:]])])
            channel.send_multipart([*before, *signed([b'{"msg_id": 7}', *good[1:]])])
            channel.send_multipart([*before, *signed([good[0], b"[" * 100_000, *good[2:]])])
            channel.send_multipart([*before, *signed([*good[:3], b"[" * 100_000])])
            channel.send_multipart([*before, *signed([*good[:3], b"[1, 2]"])])
            channel.send_multipart([*before, *signed([*good[:3], b"\xff\xfe"])])
        for content in ({"text": 7, "name": []}, {"name": "stdin", "text": "x"}, {"data": {"a": float("nan")}}):
            for kind in ("stream", "display_data", "update_display_data", "error", "execute_result", "execute_input"):
                self.publish(kind, parent, content)
        self.say(parent, "after the garbage")

    def giant(self, route: bytes, parent: dict[str, Any]) -> None:
        self.publish("display_data", parent, {"data": {"image/png": "A" * (30 * MEGABYTE)}, "metadata": {}})
        self.publish("display_data", parent, {"data": {"image/png": "A" * (113 * MEGABYTE)}, "metadata": {}})
        self.say(parent, "after the giant")

    def frames(self, route: bytes, parent: dict[str, Any]) -> None:
        self.iopub.send_multipart([b"topic", *signed(message("stream", parent, {})), *[b"x"] * 5000])
        self.say(parent, "after the frames")

    def forged(self, route: bytes, parent: dict[str, Any]) -> None:
        other = {**parent, "msg_id": "an earlier one"}
        for forged in (other, {}, {"msg_id": ""}):
            self.say(forged, "not of this run")
            self.publish("status", forged, {"execution_state": "idle"})
            self.shell.send_multipart([route, *signed(message("execute_reply", forged, {"status": "error"}))])
        time.sleep(0.2)
        self.say(parent, "of this run")

    def flood(self, route: bytes, parent: dict[str, Any]) -> None:
        for number in range(6_000):
            self.publish("stream", parent, {"name": ("stdout", "stderr")[number % 2], "text": "x"})
            self.publish("display_data", parent, {"data": {"text/plain": "y"}, "metadata": {}})

    def no_idle(self, route: bytes, parent: dict[str, Any]) -> None:
        self.say(parent, "never idle")

    def no_reply(self, route: bytes, parent: dict[str, Any]) -> None:
        self.say(parent, "never replies")

    def ends_early(self, route: bytes, parent: dict[str, Any]) -> None:
        self.shell.send_multipart([route, *signed(message("execute_reply", parent, {"status": "ok"}))])
        self.publish("status", parent, {"execution_state": "idle"})
        time.sleep(0.5)
        self.say(parent, "after all")

    def closes(self, route: bytes, parent: dict[str, Any]) -> None:
        for each in (self.shell, self.iopub, self.stdin, self.control):
            each.close()
        time.sleep(60)


def speak_http() -> None:
    """Something that is no kernel at all listens where its sockets should be."""
    listeners = []
    for port in range(1, 5):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{CONNECTION['ip']}-{port}")
        listener.listen()
        listeners.append(listener)
    client, _ = listeners[0].accept()
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    time.sleep(60)


if FAULT == "speaks_http":
    speak_http()
else:
    Kernel().serve()
