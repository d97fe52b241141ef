"""gVisor's own checkpoints cannot be taken of a session: docs/how-to/hibernate.md says so, and what is kept instead."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.oci.command import OciCommand
from tests.integration.kernels.oci.conftest import Sandboxes, Test

SECONDS = 120


@pytest.mark.long
@pytest.mark.parametrize("runtime_name", ["runsc"])
def test_a_sandbox_that_listens_on_the_host_cannot_be_saved(
    in_sandboxes: Callable[[Test], None], short_directory: Path, tmp_path: Path
) -> None:
    async def test(sandboxes: Sandboxes) -> None:
        info = await sandboxes.create()
        assert await sandboxes.python(info, "print(1)") == "1"
        state = next(short_directory.rglob(f"{info.sandbox_id}_sandbox:*.state")).parent
        command = OciCommand("runsc", state)
        image = tmp_path / "image"
        image.mkdir()
        save = ("checkpoint", "--image-path", str(image), info.sandbox_id)
        done = await asyncio.to_thread(
            subprocess.run,
            ["runsc", "--root", str(state), *command.options, *save],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode != 0, "it can be saved: look at docs/how-to/hibernate.md again"
        assert "connectionedEndpoint" in said

    in_sandboxes(test)
