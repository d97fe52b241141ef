"""Node.js as a process: how its code gets there, whole or not at all."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from kernels.execution.execution import Outcome
from kernels.execution.outputs import OutputCaps
from kernels.guest_client.client import CommandResult, GuestClient
from kernels.sandboxed.node_process import run_node


class ShellHere:
    """Runs the command lines in a shell of this machine, where `node` says what it reads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.lines: list[str] = []

    async def run_command(self, line: str, **_bounds: Any) -> CommandResult:
        self.lines.append(line)
        ran = await asyncio.to_thread(
            subprocess.run, ["/bin/sh", "-c", line], env={"PATH": self._path}, capture_output=True, check=False
        )
        return ended(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


class FullDisk:
    """A guest whose /tmp takes the first piece and no other."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def run_command(self, line: str, **_bounds: Any) -> CommandResult:
        self.lines.append(line)
        return ended(0) if len(self.lines) == 1 else ended(1, stderr="base64: write error: No space left on device\n")


def ended(exit_code: int, stdout: str = "", stderr: str = "") -> CommandResult:
    return CommandResult("1", "done", stdout, stderr, exit_code, False, 0.1, 0, 0)


async def run(guest: ShellHere | FullDisk, code: str) -> Outcome:
    return await run_node(
        cast("GuestClient", guest), code, "javascript", timeout_seconds=9, caps=OutputCaps(), emit=lambda _event: None
    )


@pytest.mark.parametrize("length", [1, 89_999, 90_000, 90_001, 300_000])
def test_the_process_reads_the_code_as_it_was_given(tmp_path: Path, length: int) -> None:
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\nexec sha256sum\n")
    node.chmod(0o755)
    code = "ä'\"$(x)`\n" * (length // 10) + "x" * (length % 10)
    said = subprocess.run(["sha256sum"], input=code.encode(), capture_output=True, check=True).stdout.decode()
    guest = ShellHere(f"{tmp_path}:/usr/local/bin:/usr/bin:/bin")
    outcome = asyncio.run(run(guest, code))
    assert (outcome.status, outcome.stdout) == ("ok", said)


def test_code_that_does_not_fit_on_the_disk_is_not_run_in_part() -> None:
    guest = FullDisk()
    outcome = asyncio.run(run(guest, "x" * 300_000))
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "could not be written to /tmp: base64: write error: No space left on device" in outcome.error.value
    assert len(guest.lines) == 2
    assert not any("--input-type" in line for line in guest.lines)


def test_the_error_is_the_last_that_node_names() -> None:
    class Failing(FullDisk):
        async def run_command(self, line: str, **_bounds: Any) -> CommandResult:
            return ended(1, stderr="[stdin]:1\nRangeError: first\n[stdin]:2\nTypeError: second\n    at x\n")

    outcome = asyncio.run(run(Failing(), "1"))
    assert outcome.error is not None
    assert (outcome.error.name, outcome.error.value) == ("TypeError", "second")
    assert outcome.stderr == "[stdin]:1\nRangeError: first\n"
