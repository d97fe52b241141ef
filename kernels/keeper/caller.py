"""The caller's side of a keeper: starts it, asks it, remembers what it reports. Blocking, and safe between threads."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import IO, cast

import msgspec

from kernels.errors import SandboxFailed
from kernels.keeper.wire import LINE_BYTES, LaunchRequest, Report, Request

END_SECONDS = 60.0
"""How long an end may take: removing a sandbox is a matter of a second, unless others have their turn first."""


class KeptSandbox:
    """A keeper's process and the last that it said. It ends with this process, however that ends."""

    def __init__(self, order: LaunchRequest) -> None:
        self._said = threading.Condition()
        self._kernel: Report | None = None
        self._exit_code: int | None = None
        self._failure = ""
        self._ended = False
        process = subprocess.Popen(
            [sys.executable, "-m", "kernels.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the terminal is the caller's to understand
            cwd="/",
        )
        self._process = process
        self._input, self._output = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        self._reader = threading.Thread(target=self._read, name="sandcell-keeper", daemon=True)
        self._reader.start()
        self._write(msgspec.json.encode(order))

    @property
    def exit_code(self) -> int | None:
        """None while a kernel runs; -9 and such for one that a signal ended."""
        with self._said:
            return self._exit_code

    @property
    def ended(self) -> bool:
        """Whether the keeper is no more, and with it its sandbox."""
        with self._said:
            return self._ended

    def await_start(self, generation: int, deadline_seconds: float) -> Report:
        """Wait for the kernel of this generation or a later one; raises `SandboxFailed`, which says what is missing."""
        with self._said:
            self._said.wait_for(lambda: self._ended or self._failure or self._is_at(generation), deadline_seconds)
            failure, self._failure = self._failure, ""
            if self._kernel is not None and self._kernel.generation >= generation:
                return self._kernel
        raise SandboxFailed(failure or f"no kernel started in a sandbox within {deadline_seconds:g} s")

    def next_kernel(self, deadline_seconds: float) -> Report:
        """Have a blank kernel started in the same sandbox; its key is that of the one before."""
        with self._said:
            generation = self._kernel.generation + 1 if self._kernel else 1
        self.ask("start")
        return self.await_start(generation, deadline_seconds)

    def ask(self, do: str) -> None:
        """Send a request; to a keeper that is no more, nothing."""
        self._write(msgspec.json.encode(Request(do)))  # type: ignore[arg-type]

    def wait(self, deadline_seconds: float) -> int | None:
        """Wait for the end of the kernel: its exit code, or None when it still runs."""
        with self._said:
            self._said.wait_for(lambda: self._exit_code is not None, deadline_seconds)
            return self._exit_code

    def end(self, deadline_seconds: float = END_SECONDS) -> bool:
        """Have everything removed; False when that takes longer, in which case it goes on."""
        self.ask("end")
        give_up = time.monotonic() + deadline_seconds
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(max(0.0, give_up - time.monotonic()))
        self._output.close()
        return True

    def _is_at(self, generation: int) -> bool:
        return self._kernel is not None and self._kernel.generation >= generation

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # it is no more, or was asked to end
            self._input.write(line + b"\n")
            self._input.flush()

    def _read(self) -> None:
        try:
            while line := self._output.readline(LINE_BYTES):
                report = msgspec.json.decode(line, type=Report)
                with self._said:
                    self._take(report)
                    self._said.notify_all()
        finally:
            with self._said:
                self._ended = True
                self._exit_code = 1 if self._exit_code is None else self._exit_code
                self._failure = self._failure or "the process that keeps the sandbox has ended"
                self._said.notify_all()

    def _take(self, report: Report) -> None:
        if report.event == "failed":
            self._failure = report.detail
        elif report.event == "started":
            self._kernel, self._exit_code = report, None
        elif self._kernel is None or report.generation == self._kernel.generation:
            self._exit_code = report.exit_code
