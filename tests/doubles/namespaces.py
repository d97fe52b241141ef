"""Network namespaces of the tests' own: sockets made in them, commands run in them, ports of theirs reached from here.

A thread that enters a namespace may leave its sockets to any other; so servers run in the test's own process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")
_NEWNET = 0x40000000


class Namespace:
    """One network namespace with its loopback up; `close` removes it with all its interfaces."""

    def __init__(self, name: str) -> None:
        self.name = f"sc{name}{uuid.uuid4().hex[:6]}"
        run("ip", "netns", "add", self.name)
        self.ip("link set lo up")

    @property
    def path(self) -> str:
        return f"/run/netns/{self.name}"

    def ip(self, *commands: str) -> None:
        """Run `ip` commands inside."""
        run("ip", "-n", self.name, "-batch", "-", text="\n".join(commands) + "\n")

    def within(self, make: Callable[[], Made]) -> Made:
        """Call it on a thread that is inside."""

        def enter_and_make() -> Made:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(descriptor, _NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns failed")
            finally:
                os.close(descriptor)
            return make()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(enter_and_make).result(120)

    def close(self) -> None:
        run("ip", "netns", "delete", self.name)


def run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Forward:
    """A port of this process's loopback that leads to one inside a namespace."""

    def __init__(self, namespace: Namespace, port: int) -> None:
        self._namespace = namespace
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(120)
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(here)
            try:
                there = self._namespace.within(lambda: socket.create_connection(self._target, 10))
            except OSError:
                here.close()
                continue
            there.settimeout(None)
            self._open.add(there)
            for source, target in ((here, there), (there, here)):
                thread = threading.Thread(target=_pump, args=(source, target))
                thread.start()
                self._threads.append(thread)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for one, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            one.shutdown(how)
