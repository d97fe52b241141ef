"""The image `data` in sandboxes of the service: each library is imported and does one small real thing."""

from __future__ import annotations

import base64
import functools
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernels.oci import environments
from sandcell.live_session import Session
from tests.conftest import MakeService
from tests.integration.environments.data.cells import CELLS
from tests.integration.environments.data.pictures import assert_drawn
from tests.running_service import RunningService

pytestmark = pytest.mark.long
GROUPS = [(group, name) for group, cells in CELLS.items() for name in cells]


@pytest.fixture(scope="module")
def service(make_service: MakeService) -> RunningService:
    return make_service(memory_mb=8192, storage_mb=2048)


@pytest.fixture(scope="module")
def open_session(service: RunningService, environments_dir: Path) -> Iterator[Callable[[str], Session]]:
    """The session of a group of cells: what they import, together, is what a session may well import."""
    assert "data" in environments.find_installed(environments_dir), "make test-data builds the image first"
    with ExitStack() as stack:
        client = stack.enter_context(service.client())

        @functools.cache
        def open_one(group: str) -> Session:
            return stack.enter_context(client.session("data", name=group))

        yield open_one


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("group", "name"), GROUPS, ids=[f"{group}-{name}" for group, name in GROUPS])
def test_a_library_works(open_session: Callable[[str], Session], group: str, name: str) -> None:
    result = open_session(group).run(textwrap.dedent(CELLS[group][name]), timeout_seconds=600)
    said = "\n".join(result.error.traceback) if result.error else ""
    assert result.status == "ok", f"{result.stdout}\n{result.stderr}\n{said}"
    if name == "matplotlib":
        (plot,) = [output["data"]["image/png"] for output in result.outputs if "image/png" in output.get("data", {})]
        assert_drawn(base64.b64decode(plot))
