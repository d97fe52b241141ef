"""Sandboxes as the tests of the runtime have them, under each runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.sandbox import RuntimeSettings
from tests.integration.kernels.oci.conftest import in_sandboxes
from tests.shared_guest import share_guest

__all__ = ["in_sandboxes"]


@pytest.fixture(params=["runc", "runsc"])
def runtime(request: pytest.FixtureRequest) -> str:
    """The name of the runtime."""
    return str(request.param)


@pytest.fixture
def settings(tmp_path: Path, short_directory: Path, runtime: str) -> RuntimeSettings:
    return RuntimeSettings(runtime, share_guest(tmp_path / "data", short_directory), short_directory)
