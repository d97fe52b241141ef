"""A host that can open or start no more says nothing of a sandbox: it is neither gone nor silent."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernels.errors import NotListening, RuntimeUnusable, SandboxFailed, SandboxGone
from kernels.oci import sockets
from kernels.oci.command import OciCommand
from kernels.oci.places import HostPlaces
from kernels.sandbox import RuntimeSettings


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """This process may open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    filled = [os.open("/", os.O_PATH)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(filled[0] + 1 + number, 8), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(filled[0])


def test_a_sandbox_is_not_gone_when_descriptors_are(tmp_path: Path) -> None:
    (tmp_path / "guest").mkdir()
    with pytest.raises(SandboxGone):
        sockets.connect(str(tmp_path / "none"), "guest")
    with pytest.raises(NotListening):
        sockets.connect(str(tmp_path), "guest")
    for left in (0, 1):
        with descriptors_left(left), pytest.raises(SandboxFailed) as refused:
            sockets.connect(str(tmp_path), "guest")
        assert type(refused.value) is SandboxFailed


def test_no_process_is_not_read_out_of_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    places = HostPlaces(RuntimeSettings("runc", tmp_path / "data", Path("/run/x"))).of("sandbox")
    assert places.first_process() is None
    places.bundle.mkdir(parents=True)
    (places.bundle / "pid").write_text("1")
    with descriptors_left(0), pytest.raises(OSError, match="Too many open files"):
        places.first_process()
    assert places.first_process() == 1


def test_a_runtime_that_does_not_say_its_flags_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "runsc"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = help ]; then echo systrap; elif [ -e "$0.flags" ]; then cat "$0.flags"; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    command = OciCommand("runsc", tmp_path)
    with pytest.raises(RuntimeUnusable, match="which flags"):
        command.require()
    (tmp_path / "runsc.flags").write_text("-directfs\n")
    command.require()
    assert "--directfs=false" in command.options
