"""The OCI command line: one table of flags per runtime, one way to call them.

runc, crun and runsc take the same bundle; what differs between them is a row of `RUNTIMES`, not a branch in the code.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kernels.errors import RuntimeUnusable, SandboxFailed

_ERROR_BYTES: Final = 2000


@dataclass(frozen=True)
class Flags:
    """How one runtime spells what we ask of it; `always` goes before the verb."""

    program: str
    always: tuple[str, ...] = ()
    run: tuple[str, ...] = ("run", "--detach")
    delete: tuple[str, ...] = ("delete", "--force")


RUNTIMES: Final[dict[str, Flags]] = {
    "runc": Flags("runc"),
}
"""Runtimes that the tests hold to the whole profile. A later one is a row here and a column in those tests."""


class OciCommand:
    """Calls one runtime; blocking, each call with a deadline."""

    def __init__(self, name: str, state_directory: Path, *, deadline_seconds: float = 30) -> None:
        if name not in RUNTIMES:
            raise RuntimeUnusable(f"unknown sandbox runtime {name!r}; choose one of: {', '.join(RUNTIMES)}")
        self._flags = RUNTIMES[name]
        self._state_directory = state_directory
        self._deadline_seconds = deadline_seconds

    @property
    def program(self) -> str:
        """The name of the executable, as looked up on PATH."""
        return self._flags.program

    def version(self) -> str | None:
        """First line of `--version`, or None when the program is missing or does not answer."""
        path = shutil.which(self._flags.program)
        if path is None:
            return None
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None

    def run(self, sandbox_id: str, bundle: Path, log: Path) -> None:
        """Start the container detached; its output goes to `log`, its PID 1 to the file `pid` beside the bundle.

        Raises `SandboxFailed` with what the runtime said.
        """
        with log.open("ab") as output:
            pid = str(bundle / "pid")
            self._call(*self._flags.run, "--pid-file", pid, "--bundle", str(bundle), sandbox_id, output=output, log=log)

    def delete(self, sandbox_id: str) -> None:
        """Kill and forget the container; absent is fine."""
        self._call(*self._flags.delete, sandbox_id)

    def _call(self, *arguments: str, output: Any = subprocess.PIPE, log: Path | None = None) -> None:
        command = [self._flags.program, "--root", str(self._state_directory), *self._flags.always, *arguments]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for the service, not for what it calls
                stdout=output,
                stderr=subprocess.STDOUT if log else subprocess.PIPE,
                timeout=self._deadline_seconds,
                check=False,
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        except FileNotFoundError:
            raise RuntimeUnusable(f"{self.program} is not installed; install the package that has it") from None
        except subprocess.TimeoutExpired:
            raise SandboxFailed(f"{self.program} {arguments[0]} did not end in {self._deadline_seconds:g} s") from None
        if done.returncode != 0:
            said = _tail(log) if log else done.stderr.decode(errors="replace")
            raise SandboxFailed(
                f"{self.program} {arguments[0]} failed: {said.strip()[-_ERROR_BYTES:] or done.returncode}"
            )


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _ERROR_BYTES))
        return file.read().decode(errors="replace")
