"""What the service does not import at its start, because it takes long and is needed seldom or by another process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import gc, json, sys
from kernel_gateway.server import starting
before = list(sys.modules)
from kernel_gateway.server import serving
serving.load_application()
left = [gc.isenabled(), gc.get_freeze_count() > 100_000]
print(json.dumps({"starting": before, "serving": list(sys.modules), "collector": left}))
"""


@pytest.fixture(scope="module")
def loaded() -> Any:
    """The modules of the process that prepares a start, then those of the service, and the state of the collector."""
    return json.loads(
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    )


def test_the_service_starts_without_what_reads_and_renders_strangers_notebooks(loaded: Any) -> None:
    """nbformat takes 1.2 s where jsonschema's formats are installed beside it; nbconvert is the viewers' own."""
    assert "kernel_gateway.server.application" in loaded["serving"]
    assert {"nbformat", "jsonschema", "nbconvert", "IPython"} & set(loaded["serving"]) == set()


def test_the_service_starts_without_what_only_some_services_need(loaded: Any) -> None:
    """Migrations of a database, PostgreSQL, execution roles and a store on S3: as much again as all that is left."""
    assert "sqlalchemy.dialects.sqlite" in loaded["serving"]
    seldom = {"alembic", "mako", "sqlalchemy.dialects.postgresql", "botocore", "boto3"}
    assert seldom & set(loaded["serving"]) == set()


def test_a_start_is_prepared_without_what_only_the_service_needs(loaded: Any) -> None:
    assert {"sqlalchemy", "tornado.web", "botocore", "httpx"} & set(loaded["starting"]) == set()


def test_neither_imports_what_would_show_logs_and_tracebacks_in_colours(loaded: Any) -> None:
    """structlog would: 80 ms of processor time in each of the two processes."""
    for process in ("starting", "serving"):
        assert "structlog" in loaded[process]
        assert "rich.console" not in loaded[process]


def test_what_was_imported_is_out_of_the_collectors_sight_and_what_follows_is_not(loaded: Any) -> None:
    assert loaded["collector"] == [True, True]
