"""A real `sandcell serve` as a child process of the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from tests import leftovers

if TYPE_CHECKING:
    from sandcell import Client


class RunningService:
    """Starts and stops the service on a free port; `url` and `token` are those of the running process.

    Settings are those of the service, by name; one that is None is not given at all. `place` is a command that starts
    it elsewhere and becomes it, `python` the interpreter that has it. What it printed is in `output`, and in the
    assertion when it does not start. `every` has those that this process knows.
    """

    every: ClassVar[WeakSet[RunningService]] = WeakSet()

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, object],
        extra_environment: Mapping[str, str] | None = None,
        *,
        place: Sequence[str] = (),
        python: str | Path = sys.executable,
    ) -> None:
        self.data_dir = data_dir
        self._place = place
        self._python = str(python)
        self._extra_environment = dict(extra_environment or {})
        self.token = "test-token-of-the-administrator"
        self.url = ""
        self.output: list[str] = []
        self._settings = {
            "data_dir": data_dir,
            "run_dir": str(leftovers.RUN_DIR),
            "port": 0,
            "token": self.token,
            "log_level": "info",  # a failing test shows the requests that it made
            "keep_variables": "off",  # most sessions of tests would be looked at for nothing
            "idle_memory_seconds": 0,  # a test that adds swap (`swap_file`) must not stop the sessions of others
            **settings,
        }
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        RunningService.every.add(self)

    @property
    def running(self) -> bool:
        """Whether it has started to listen and its process is there."""
        return bool(self.url) and self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def service_pid(self) -> int:
        """The process that serves; `pid` is the launcher's, which is root."""
        serving = self.find_service_pid()
        assert serving is not None, "the launcher has no service"
        return serving

    def find_service_pid(self) -> int | None:
        """The process that serves, None while there is none."""
        for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            with suppress(OSError):  # it has ended
                if b"kernel_gateway.server.serving" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        return None

    def client(self, token: str | None = None) -> Client:
        from sandcell import Client

        return Client(self.url, token or self.token)

    def start(self, deadline_seconds: float = 120, **settings: object) -> None:
        """Start the process and wait until it says that it listens."""
        self._settings.update(settings)
        listening = threading.Event()
        process = subprocess.Popen(
            [*self._place, self._python, "-m", "kernel_gateway", "serve"],
            env={
                **_clean_environment(),
                "XDG_CONFIG_HOME": str(self.data_dir / "config"),
                **self._extra_environment,
                **{f"SANDCELL_{key.upper()}": str(each) for key, each in self._settings.items() if each is not None},
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._process = process
        self._reader = threading.Thread(target=self._read, args=(process, listening), daemon=True)
        self._reader.start()
        if not listening.wait(deadline_seconds) or not self.url:
            self.stop()
            raise AssertionError("the service did not start:\n" + "".join(self.output))

    def stop(self, deadline_seconds: float = 120) -> int | None:
        """SIGTERM and wait: sessions end, nothing is left. Returns the exit status."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._wait(deadline_seconds)

    def wait(self, deadline_seconds: float = 120) -> int:
        """Wait for an end that comes by itself; returns the exit status."""
        return self._wait(deadline_seconds)

    def kill(self) -> None:
        """SIGKILL: no last words, sandboxes stay."""
        assert self._process is not None
        self._process.kill()
        self._wait(120)

    def _wait(self, deadline_seconds: float) -> int:
        assert self._process is not None
        assert self._reader is not None
        try:
            status = self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(120)
            raise AssertionError("the service did not stop:\n" + "".join(self.output)) from None
        self._reader.join(120)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return status

    def _read(self, process: subprocess.Popen[str], listening: threading.Event) -> None:
        assert process.stdout is not None
        self.url = ""
        for line in process.stdout:
            self.output.append(line)
            found = re.search(r"listens on (https?://\S+)", line)
            if found:
                self.url = found[1]
                listening.set()
        listening.set()


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SANDCELL_")}
